// @ts-check
/** The run that a task started, inside of the task's panel: how far it is, and its tasks, live or as they were. */

import { RunModel } from "../../data/run_model.js";
import { Part, h, refill } from "../../parts/dom.js";
import { count, span } from "../../parts/format.js";
import { keepFocus } from "../../parts/keep_focus.js";
import { STATES, badge, meter, shape, word } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address } from "../../shell/router.js";

const SHOWN = 50;

export class ChildRun extends Part {
  /** @param {import("../../shell/main.js").App} app @param {RunModel} parent @param {string} run */
  constructor(app, parent, run) {
    super();
    this.app = app;
    this.parent = parent;
    this.run = run;
  }

  begin() {
    this.className = "child-run";
    const model = new RunModel(this.app.api, this.run, this.life);
    this.hear(model, "change", () => this.#show(model));
    this.hear(model, "problem", (event) => {
      const { detail } = event;
      refill(this, h("p", { class: "soft" }, detail.status === 404 && this.parent.past ? "It had not begun." : problemText(detail)));
    });
    const travel = () => model.travel(this.parent.past?.event.seq ?? null);
    this.hear(this.parent, "change", travel);
    travel();
    if (this.app.live) model.follow(this.app.live);
  }

  /** @param {RunModel} model */
  #show(model) {
    const { run, graph } = model;
    if (run === null || graph === null) return;
    const event = model.past?.event.seq;
    const at = /** @type {Record<string, string>} */ (event ? { at: String(event) } : {});
    const began = run.started_at ?? run.created_at;
    const line = (/** @type {string} */ name, /** @type {number} */ pos) => {
      const state = STATES[model.states[pos]];
      const took = model.took(pos);
      return h("li", { "data-key": name }, shape(state), h("span", { class: "sr" }, word(state)), h("a", { class: "name grow", href: address(["runs", this.run], { task: name, ...at }) }, name), h("span", { class: "soft" }, Number.isNaN(took) || took < 0 ? "" : span(took)));
    };
    keepFocus(this, () => refill(this,
      h("div", { class: "facts", "data-key": "" }, badge(run.state), h("a", { class: "name", href: address(["runs", this.run], at) }, run.name), meter(run), h("span", {}, span((run.finished_at ?? model.now) - began)), run.state !== "succeeded" && run.reason && h("span", { class: "name state-failed" }, run.reason)),
      h("ul", { class: "lines" }, graph.names.slice(0, SHOWN).map(line)),
      graph.names.length > SHOWN && h("p", { class: "soft" }, `and ${count(graph.names.length - SHOWN)} more`)));
  }
}

customElements.define("weft-child-run", ChildRun);
