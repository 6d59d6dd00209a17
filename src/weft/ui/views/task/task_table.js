// @ts-check
/** All tasks of a run as a table: the picture's twin for readers of screens, and for filters. Long ones are drawn as they
 * are scrolled to. */

import { Part, h, refill, table } from "../../parts/dom.js";
import { clock, count, span } from "../../parts/format.js";
import { keepFocus } from "../../parts/keep_focus.js";
import { STATES, badge } from "../../parts/states.js";
import { changed, here } from "../../shell/router.js";

const LINE = 31;
const AROUND = 12;

export class TaskTable extends Part {
  #lines = h("tbody", {});
  #filter = "";
  /** @type {number[]} */ #shown = [];
  #said = h("span", { class: "soft", role: "status" });

  /** @param {import("../../shell/main.js").App} app @param {import("../../data/run_model.js").RunModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
  }

  begin() {
    const filter = h("input", { type: "search", placeholder: "Filter by name, type or state", "aria-label": "Filter", "data-filter": true, size: "28", on: { input: () => this.#choose(/** @type {any} */ (filter).value) } });
    const heads = ["State", "Task", "Type", "Level", "Attempt", "Took", "Began"];
    refill(this, h("div", { class: "filters" }, filter, this.#said),
      h("div", { class: "panel-table" }, table(heads, this.#lines, { "aria-rowcount": "-1" })));
    this.hear(this.model, "change", () => this.#choose(this.#filter));
    this.hear(/** @type {HTMLElement} */ (this.closest(".run-view")), "scroll", () => this.#show());
    this.#choose("");
  }

  /** @param {string} text */
  #choose(text) {
    this.#filter = text.trim().toLowerCase();
    const { names, kinds, kind } = this.model.graph;
    this.#shown = [];
    for (let pos = 0; pos < names.length; pos++) {
      const words = `${names[pos]} ${kinds[kind[pos]]} ${STATES[this.model.states[pos]]}`.toLowerCase();
      if (words.includes(this.#filter)) this.#shown.push(pos);
    }
    this.#said.textContent = this.#filter ? `${count(this.#shown.length)} of ${count(names.length)}` : `${count(names.length)} tasks`;
    this.#show();
  }

  #show() {
    const view = this.closest(".run-view");
    if (view === null) return;
    const top = Math.max(0, Math.floor((view.scrollTop - 60) / LINE) - AROUND);
    const end = Math.min(this.#shown.length, top + Math.ceil(view.clientHeight / LINE) + 2 * AROUND);
    const gap = (/** @type {number} */ lines) => lines > 0 && h("tr", { "aria-hidden": "true" }, h("td", { colspan: 7, style: { height: `${lines * LINE}px`, padding: "0" } }));
    keepFocus(this.#lines, () => refill(this.#lines, gap(top), this.#shown.slice(top, end).map((pos) => this.#line(pos)), gap(this.#shown.length - end)));
  }

  /** @param {number} pos */
  #line(pos) {
    const { model } = this;
    const name = model.graph.names[pos];
    const elements = model.elements.get(pos);
    const took = model.took(pos);
    return h("tr", { "data-key": name, class: here().query.get("task") === name ? "chosen" : null, style: { height: `${LINE}px` } },
      h("td", {}, badge(STATES[model.states[pos]])),
      h("td", { class: "text" }, h("a", { class: "name", href: changed({ task: name }) }, name), elements && h("span", { class: "soft" }, ` × ${count(elements.elements)}`)),
      h("td", {}, model.graph.kinds[model.graph.kind[pos]]),
      h("td", {}, model.graph.level[pos]),
      h("td", {}, model.attempts[pos] || ""),
      h("td", {}, Number.isNaN(took) ? "" : span(took)),
      h("td", {}, Number.isNaN(model.began[pos]) ? "" : clock(model.run.created_at + model.began[pos])));
  }
}

customElements.define("weft-task-table", TaskTable);
