// @ts-check
/** Runs of the list that are selected, and what can be done to them, or to all that the filters find. */

import { Part, h, refill } from "../parts/dom.js";
import { address, here } from "../shell/router.js";
import { askBulk } from "./bulk_dialog.js";

const ACTIONS = [["cancel", "Cancel"], ["resume", "Resume"], ["rerun", "Run again"], ["retry_dead", "Retry dead letters"], ["pause", "Pause"], ["unpause", "Unpause"], ["remove", "Remove"]];
const AT_ONCE_MAX = 200;

export class RunSelection extends Part {
  /** @type {Map<string, any>} by id */ #chosen = new Map();

  /** @param {import("../shell/main.js").App} app @param {() => Record<string, any>} filters that the list has now @param {() => void} then after a change */
  constructor(app, filters, then) {
    super();
    this.app = app;
    this.filters = filters;
    this.then = then;
  }

  begin() {
    this.className = "selection";
    this.show();
  }

  /** The box that selects a run. @param {any} run */
  box(run) {
    const change = (/** @type {any} */ event) => {
      if (event.target.checked) this.#chosen.set(run.id, run);
      else this.#chosen.delete(run.id);
      this.show();
    };
    return h("input", { type: "checkbox", checked: this.#chosen.has(run.id), "aria-label": `select ${run.name} ${run.id}`, "data-box": true, on: { change } });
  }

  show() {
    const runs = [...this.#chosen.values()].sort((a, b) => a.no - b.no);
    const may = this.app.api.may("change_runs");
    const filtered = may && !runs.length && Object.keys(this.filters()).length > 0;
    this.hidden = !runs.length && !filtered;
    if (this.hidden) return;
    const wanted = runs.length ? { runs: runs.map((run) => run.id) } : null;
    const act = async (/** @type {string} */ action, /** @type {string} */ label) => {
      const done = await askBulk(this.app, action, label, wanted ?? this.filters());
      if (!done) return;
      this.clear();
      this.then();
    };
    const fits = runs.length <= AT_ONCE_MAX;
    refill(this,
      h("span", { role: "status" }, runs.length ? `${runs.length} selected` : "All that the filters find:"),
      runs.length === 2 && h("a", { class: "button", href: address(["compare", runs[0].id, runs[1].id]) }, "Compare"),
      may && fits && ACTIONS.filter(([action]) => action !== "remove" || this.app.api.may("remove_runs")).map(([action, label]) => h("button", { on: { click: () => act(action, label) } }, label)),
      runs.length > 0 && h("button", { class: "bare", on: { click: () => this.clear() } }, "Select none"),
      !fits && h("span", { class: "soft" }, `at most ${AT_ONCE_MAX} at once`));
  }

  clear() {
    this.#chosen.clear();
    for (const box of document.querySelectorAll("input[data-box]")) /** @type {HTMLInputElement} */ (box).checked = false;
    this.show();
  }
}

/** The filters of the address in the form in which a body has them. @param {string[]} names */
export function bodyFilters(names) {
  const { query } = here();
  /** @type {Record<string, any>} */
  const found = {};
  if (query.getAll("state").length) found.state = query.getAll("state");
  for (const name of names) {
    if (!query.get(name)) continue;
    if (name === "label" || name === "input") found[name] = query.getAll(name);
    else found[name] = name === "since" || name === "until" ? Number(query.get(name)) : query.get(name);
  }
  if (Object.keys(found).length && query.get("children") === "true") found.children = true;
  return found;
}

customElements.define("weft-selection", RunSelection);
