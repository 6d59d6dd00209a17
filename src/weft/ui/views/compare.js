// @ts-check
/** Two runs beside each other: definition, inputs, and each task with its outcome and how much slower it got. */

import { diffLines } from "../parts/diff_lines.js";
import { Part, h, refill, table, unseen } from "../parts/dom.js";
import { count, moment, span } from "../parts/format.js";
import { tookOf } from "../parts/run_strip.js";
import { badge } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { address, go } from "../shell/router.js";

const TEXT_MAX = 300;

export class CompareView extends Part {
  #body = h("div", {}, h("p", { class: "note" }, "…"));

  /** @param {import("../shell/main.js").App} app @param {string | undefined} old @param {string | undefined} other */
  constructor(app, old, other) {
    super();
    this.app = app;
    this.old = old;
    this.other = other;
  }

  async begin() {
    document.title = "Compare · Weft";
    this.replaceChildren(h("div", { class: "filters" }, h("h1", {}, "Compare two runs"), this.#form()), this.#body);
    try {
      if (this.old && !this.other && (await this.#findBefore(this.old))) return;
      if (!this.old || !this.other) return refill(this.#body, h("p", { class: "note" }, "Name two runs, or select two in the ", h("a", { href: "#/runs" }, "list of runs"), "."));
      const [diff, counts] = await Promise.all([this.app.api.call("diff_runs", { run: this.old, other: this.other }, this.life), this.app.api.call("get_counts", {}, this.life)]);
      this.#show(diff, counts.now);
    } catch (error) {
      if (!this.life.aborted) refill(this.#body, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** One run alone is compared with the run of its workflow before it. @param {string} ref */
  async #findBefore(ref) {
    const { run } = await this.app.api.call("get_run", { run: ref, tasks: 0 }, this.life);
    const page = await this.app.api.call("list_runs", { name: run.name, cursor: `r${run.no}`, limit: 1, children: true }, this.life);
    if (page.runs.length) go(address(["compare", page.runs[0].id, run.id]), true);
    return page.runs.length > 0;
  }

  #form() {
    const old = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, value: this.old ?? "", "aria-label": "The older run", placeholder: "older run", size: "14", "data-filter": true }));
    const other = /** @type {HTMLInputElement} */ (h("input", { type: "text", required: true, value: this.other ?? "", "aria-label": "The newer run", placeholder: "newer run", size: "14" }));
    const submit = (/** @type {Event} */ event) => {
      event.preventDefault();
      go(address(["compare", old.value.trim(), other.value.trim()]));
    };
    return h("form", { class: "counted", on: { submit } }, old, "with", other, h("button", {}, "Compare"), this.old && this.other && h("a", { class: "button", href: address(["compare", this.other, this.old]) }, "The other way round"));
  }

  /** @param {any} diff @param {number} now */
  #show(diff, now) {
    const runs = [diff.old, diff.new];
    const times = runs.map((run) => tookOf(run, now));
    const facts = [
      ["State", ...runs.map((run) => badge(run.state))],
      ["Submitted", ...runs.map((run) => moment(run.created_at))],
      ["Took", span(times[0]), [span(times[1]), " ", change(times[0], times[1])]],
      ["Tasks that succeeded", ...runs.map((run) => `${count(run.succeeded)} of ${count(run.total)}`)],
      ["From", ...runs.map((run) => h("span", { class: "name" }, run.trigger ?? ""))],
      ["Why", ...runs.map((run) => h("span", { class: "name" }, run.reason ?? ""))],
    ];
    refill(this.#body,
      panel(["", ...runs.map((run) => h("a", { class: "name", href: address(["runs", run.id]) }, `${run.name} ${run.id}`))], facts.map(([title, ...cells]) => h("tr", {}, h("th", { scope: "row" }, title), cells.map((one) => h("td", { class: "wrapped" }, /** @type {any} */ (one)))))),
      h("section", { class: "section" }, h("h2", {}, "Inputs"), this.#inputs(diff.inputs)),
      h("section", { class: "section" }, h("h2", {}, "Definition"), diffLines(diff.definition, "Both ran the same definition.")),
      h("section", { "aria-label": "Tasks" }, h("h2", { class: "over-table" }, "Tasks, those that got slower first"), this.#tasks(diff)));
  }

  /** @param {Record<string, any[]>} inputs */
  #inputs(inputs) {
    const found = Object.entries(inputs);
    if (!found.length) return h("p", { class: "soft" }, "Both had the same inputs.");
    const text = (/** @type {any} */ value) => (JSON.stringify(value) ?? "").slice(0, TEXT_MAX);
    return h("div", { class: "panel-table inside" }, h("table", {}, h("tbody", {}, found.map(([name, [old, other]]) => h("tr", {}, h("th", { scope: "row", class: "name" }, name), h("td", { class: "mono wrapped name" }, text(old)), h("td", { class: "mono wrapped name" }, text(other)))))));
  }

  /** @param {any} diff */
  #tasks(diff) {
    // what ran in one of them only says nothing about speed: it comes last
    const grown = (/** @type {any} */ task) => (task.old_ms === null || task.new_ms === null ? -Number.MAX_VALUE : task.new_ms - task.old_ms);
    const longest = Math.max(1, ...diff.tasks.map((/** @type {any} */ task) => Math.max(task.old_ms ?? 0, task.new_ms ?? 0)));
    const lines = diff.tasks.toSorted((/** @type {any} */ a, /** @type {any} */ b) => grown(b) - grown(a)).map((/** @type {any} */ task) => h("tr", {},
      h("td", { class: "text" }, h("a", { class: "name", href: address(["runs", diff.new.id], { task: task.task }) }, task.task), task.changed && h("span", { class: "soft" }, " changed")),
      h("td", {}, task.old_state ? badge(task.old_state) : h("span", { class: "soft" }, "not there")),
      h("td", {}, task.new_state ? badge(task.new_state) : h("span", { class: "soft" }, "not there")),
      h("td", { class: "number" }, task.old_ms === null ? "" : span(task.old_ms)),
      h("td", { class: "number" }, task.new_ms === null ? "" : span(task.new_ms)),
      h("td", { class: "number" }, task.old_ms === null || task.new_ms === null ? "" : change(task.old_ms, task.new_ms)),
      h("td", {}, bars(task.old_ms, task.new_ms, longest))));
    const heads = ["Task", "Before", "After", "Took before", "Took after", "Change", "Both"];
    const found = panel(heads, lines);
    if (diff.left_out) found.append(h("p", { class: "note" }, `${count(diff.left_out)} more tasks are not compared.`));
    return found;
  }
}

/** @param {any[]} heads @param {HTMLElement[]} lines */
function panel(heads, lines) {
  const numbers = new Set(["Took before", "Took after", "Change"]);
  return h("div", { class: "panel-table" }, table(heads.map((one) => h("th", { scope: "col", class: numbers.has(one) ? "number" : null }, one || unseen("What"))), lines));
}

/** @param {number} old @param {number} now */
function change(old, now) {
  const more = now - old;
  if (Math.abs(more) < 1) return h("span", { class: "soft" }, "same");
  const percent = old <= 0 ? "" : now >= 10 * old ? ` (× ${count(Math.round(now / old))})` : ` (${more > 0 ? "+" : "−"}${Math.abs(Math.round((100 * more) / old))} %)`;
  return h("span", { class: more > 0 ? "state-failed" : "state-succeeded" }, `${more > 0 ? "+" : "−"}${span(Math.abs(more))}${percent}`);
}

/** @param {number | null} old @param {number | null} now @param {number} longest */
function bars(old, now, longest) {
  const bar = (/** @type {number | null} */ ms, /** @type {string} */ look) => h("i", { class: look, style: { width: `${(100 * (ms ?? 0)) / longest}%` } });
  return h("span", { class: "two-bars", "aria-hidden": "true" }, bar(old, "before"), bar(now, "after"));
}

customElements.define("weft-compare", CompareView);
