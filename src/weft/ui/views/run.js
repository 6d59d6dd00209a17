// @ts-check
/** One run: graph, table, timeline and events beside the panel of a task. Everything in it is live. */

import { RunModel } from "../data/run_model.js";
import { GraphView } from "../graph/graph_view.js";
import { Part, h, refill } from "../parts/dom.js";
import { ago, moment, span } from "../parts/format.js";
import { badge, meter } from "../parts/states.js";
import { problemText, toast } from "../parts/toast.js";
import { address, changed, go, here } from "../shell/router.js";
import { EventsView } from "./events.js";
import { RunDetails } from "./history/run_details.js";
import { Scrubber } from "./history/scrubber.js";
import { TimelineView } from "./history/timeline.js";
import { runActions } from "./run_actions.js";
import { TaskPanel } from "./task/task_panel.js";
import { TaskTable } from "./task/task_table.js";

/** @type {[string, string, (view: RunView) => HTMLElement][]} */
const TABS = [
  ["graph", "Graph", (view) => new GraphView(view.app, view.model)],
  ["table", "Table", (view) => new TaskTable(view.app, view.model)],
  ["timeline", "Timeline", (view) => new TimelineView(view.app, view.model)],
  ["details", "Details", (view) => new RunDetails(view.app, view.model)],
  ["events", "Events", (view) => new EventsView(view.app, view.model.id)],
];

export class RunView extends Part {
  /** @type {RunModel} */ model = /** @type {any} */ (null);
  #head = h("header", { class: "run-head" });
  #title = h("div", { class: "run-title" });
  #facts = h("div", { class: "facts" });
  #tabs = h("nav", { class: "tabs", "aria-label": "Views of the run" });
  #view = h("div", { class: "run-view" });
  #body = h("div", { class: "run-body" }, this.#view);
  #scrubber = h("div", { class: "scrubber" });
  #tab = "";
  #task = "";
  #shownTitle = "";

  /** @param {import("../shell/main.js").App} app @param {string} id */
  constructor(app, id) {
    super();
    this.app = app;
    this.runId = id;
  }

  async begin() {
    refill(this.#head, this.#title, this.#facts, this.#tabs);
    this.replaceChildren(this.#head, this.#scrubber, this.#body);
    try {
      const { run } = await this.app.api.call("get_run", { run: this.runId, tasks: 0 }, this.life);
      if (run.id !== this.runId) return go(address(["runs", run.id, ...here().path.slice(2)], here().query), true);
    } catch (error) {
      if (!this.life.aborted) refill(this, h("h1", { class: "sr" }, "No such run"), h("p", { class: "note problem" }, problemText(error), " ", h("a", { href: "#/runs" }, "All runs")));
      return;
    }
    const model = (this.model = new RunModel(this.app.api, this.runId, this.life));
    this.hear(model, "change", () => this.#show());
    this.hear(model, "graph", () => this.#place());
    this.hear(model, "problem", (event) => /** @type {any} */ (event.detail).status && toast(problemText(event.detail), true));
    this.hear(document, "keydown", (event) => this.#key(event));
    this.#scrubber.replaceWith((this.#scrubber = new Scrubber(this.app, model)));
    this.#travel();
    this.every(1000, () => !document.hidden && this.model.run && !this.model.run.finished_at && this.#showFacts());
    if (this.app.live) model.follow(this.app.live);
  }

  /** To the moment that the address names. */
  #travel() {
    const at = here().query.get("at");
    this.model?.travel(at && /^\d+$/.test(at) ? Number(at) : null);
  }

  moved() {
    this.#travel();
    if (this.model?.graph) this.#place();
  }

  /** The tab and the task that the address names. */
  #place() {
    const { path, query } = here();
    const name = path[2] ?? "graph";
    refill(this.#tabs, TABS.map(([key, title]) => h("a", { href: address(["runs", this.runId, key], query), "aria-current": key === name ? "page" : null }, title)));
    if (this.#tab !== name) {
      this.#tab = name;
      const found = TABS.find(([key]) => key === name);
      refill(this.#view, found ? found[2](this) : h("p", { class: "note" }, "There is no such view of a run."));
    }
    const task = query.get("task") ?? "";
    if (task === this.#task) return void this.model.dispatchEvent(new Event("change"));
    this.#task = task;
    this.#body.querySelector("weft-task")?.remove();
    if (task) this.#body.append(new TaskPanel(this.app, this.model, task));
    this.model.dispatchEvent(new Event("change"));
  }

  #show() {
    const run = this.model.run;
    if (run === null) return;
    const title = [this.model.past !== null, run.state, run.paused, run.generation, run.awaiting, this.model.waitsForAdvance, run.dead_letter > 0].join();
    if (title !== this.#shownTitle) {
      this.#shownTitle = title;
      document.title = `${run.name} ${run.state} · Weft`;
      refill(this.#title,
        run.paused && !run.finished_at ? badge("paused") : badge(run.state),
        h("h1", { class: "name" }, run.name), h("span", { class: "mono soft" }, run.id),
        h("div", { class: "actions" }, this.model.past ? h("span", { class: "soft" }, "as it was: nothing can be changed here") : runActions(this.app, this.model)));
    }
    this.#showFacts();
  }

  #showFacts() {
    const run = this.model.run;
    const now = this.model.now;
    const began = run.started_at ?? run.created_at;
    const inputs = Object.entries(run.inputs).map(([key, value]) => `${key}=${JSON.stringify(value)}`).join(" ");
    refill(this.#facts,
      meter(run),
      h("span", {}, "took ", h("b", {}, span((run.finished_at ?? now) - began))),
      h("span", { title: moment(began) }, "started ", h("b", {}, ago(began, now))),
      run.generation > 1 && h("span", {}, "generation ", h("b", {}, run.generation)),
      run.trigger && h("span", {}, "from ", h("b", { class: "name" }, run.trigger)),
      run.parent && h("span", {}, "started by ", h("a", { href: address(["runs", run.parent]) }, run.parent)),
      inputs && h("span", { class: "name", title: inputs }, "inputs ", h("b", {}, inputs.length > 120 ? `${inputs.slice(0, 120)}…` : inputs)),
      run.reason && h("span", { class: "name state-failed" }, run.reason));
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (/** @type {HTMLElement} */ (event.target).closest("input, textarea, select, dialog") || event.ctrlKey || event.metaKey) return;
    const tab = TABS[Number(event.key) - 1];
    if (tab) go(address(["runs", this.runId, tab[0]], here().query));
    else if (event.key === "Escape" && this.#task) go(changed({ task: null }));
    else if (event.key === "Escape" && this.model.past) go(changed({ at: null }));
  }
}

customElements.define("weft-run", RunView);
