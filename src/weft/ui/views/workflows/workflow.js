// @ts-check
/** One workflow: the graph of a version, its versions, its definition, its last runs, and a form that starts one. */

import { WorkflowModel } from "../../data/workflow_model.js";
import { GraphView } from "../../graph/graph_view.js";
import { Part, h, paced, refill } from "../../parts/dom.js";
import { ago, moment, span } from "../../parts/format.js";
import { Later } from "../../parts/later.js";
import { figuresOf, runStrip } from "../../parts/run_strip.js";
import { problemText } from "../../parts/toast.js";
import { address, changed, here } from "../../shell/router.js";
import { StartForm } from "./start_form.js";
import { WorkflowVersions } from "./versions.js";

const RUNS = 40;
const AGAIN_MS = 2000;
const TABS = [["graph", "Graph"], ["versions", "Versions"], ["definition", "Definition"], ["edit", "Edit"], ["start", "Start a run"]];

export class WorkflowView extends Part {
  #strip = h("div", { class: "strip-place" });
  #facts = h("div", { class: "facts" });
  #tabs = h("nav", { class: "tabs", "aria-label": "Views of the workflow" });
  #view = h("div", { class: "run-view" });
  #body = h("div", { class: "run-body" }, this.#view);
  /** @type {any} */ #version = null;
  /** @type {WorkflowModel | null} */ #model = null;
  #current = "";
  /** @type {Record<string, string | null>} */ #sources = {};
  #shown = "";
  #task = "";
  #readRuns = paced(AGAIN_MS, () => this.#showRuns());

  /** @param {import("../../shell/main.js").App} app @param {string} name */
  constructor(app, name) {
    super();
    this.app = app;
    this.name = name;
  }

  begin() {
    document.title = `${this.name} · Weft`;
    this.className = "run-page";
    this.replaceChildren(h("header", { class: "run-head" },
      h("div", { class: "run-title" }, h("h1", { class: "name" }, this.name),
        h("div", { class: "actions" }, h("a", { class: "button", href: address(["runs"], { name: this.name }) }, "All its runs"), h("a", { class: "button", href: address(["schedules"], { workflow: this.name }) }, "Schedules"))),
      this.#strip, this.#facts, this.#tabs), this.#body);
    this.app.live?.subscribe(null, (message) => message.kind !== "lost" && this.#readRuns(), this.life);
    this.#readRuns();
    this.moved();
  }

  async moved() {
    const { path, query } = here();
    const tab = path[2] ?? "graph";
    refill(this.#tabs, TABS.map(([key, title]) => h("a", { href: address(["workflows", this.name, key], withoutTask(query)), "aria-current": key === tab ? "page" : null }, title)));
    try {
      await this.#readVersion(query.get("version"));
    } catch (error) {
      if (!this.life.aborted) refill(this.#view, h("p", { class: "note problem" }, problemText(error), " ", h("a", { href: "#/workflows" }, "All workflows")));
      return;
    }
    if (this.#shown !== `${tab} ${this.#version.hash}`) {
      this.#shown = `${tab} ${this.#version.hash}`;
      await this.#showTab(tab);
    }
    this.#showTask(tab === "graph" ? (query.get("task") ?? "") : "");
  }

  /** @param {string | null} wanted a hash; null: the current version, or the newest if none was applied */
  async #readVersion(wanted) {
    if (!this.#current) {
      const name = this.name;
      const [newest, applied] = await Promise.all([this.app.api.call("get_workflow", { name }, this.life), this.app.api.call("list_applied", {}, this.life)]);
      this.#current = applied.current[name] ?? newest.hash;
      this.#sources = applied.sources;
    }
    const hash = wanted ?? this.#current;
    if (this.#version?.hash.startsWith(hash)) return;
    this.#version = await this.app.api.call("get_version", { name: this.name, hash }, this.life);
  }

  /** @param {string} tab */
  async #showTab(tab) {
    const version = this.#version;
    const old = version.hash !== this.#current && h("p", { class: "note" }, "Version ", h("code", {}, version.hash.slice(0, 12)), ", not the current one. ", h("a", { href: changed({ version: null }) }, "Show the current one"));
    if (tab === "versions") return refill(this.#view, new WorkflowVersions(this.app, this.name, this.#current, version.hash));
    if (tab === "edit") {
      return refill(this.#view, new Later(async () => {
        const edit = new (await import("../../editor/edit.js")).EditView(this.app, version, this.#sources);
        edit.addEventListener("applied", () => (this.#current = ""));
        return edit;
      }));
    }
    if (tab === "start") return refill(this.#view, old, new StartForm(this.app, version, this.#sources[this.name] ?? null));
    if (tab === "definition") return refill(this.#view, old, h("pre", { class: "definition", tabindex: "0", role: "region", "aria-label": "Definition" }, JSON.stringify(version.document, null, 2)));
    if (tab !== "graph") return refill(this.#view, h("p", { class: "note" }, "There is no such view of a workflow."));
    try {
      const graph = await this.app.api.call("get_workflow_graph", { name: this.name, version: version.hash }, this.life);
      if (!this.#shown.startsWith("graph ")) return; // another tab was chosen meanwhile
      this.#model = new WorkflowModel(graph);
      refill(this.#view, new GraphView(this.app, this.#model), old);
    } catch (error) {
      if (!this.life.aborted) refill(this.#view, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** What the definition says of a task. @param {string} task */
  #showTask(task) {
    if (task === this.#task) return;
    this.#task = task;
    this.#body.querySelector(".task-definition")?.remove();
    this.#model?.dispatchEvent(new Event("change"));
    if (!task) return;
    const body = this.#version.document.tasks?.[task];
    this.#body.append(h("aside", { class: "side task-definition", "aria-label": `Task ${task}` },
      h("div", { class: "task-head" }, h("div", { class: "row" }, h("h2", { class: "name grow" }, task), h("a", { href: changed({ task: null }), class: "button", "aria-label": "Close" }, "×"))),
      h("div", { class: "task-part" }, h("h3", {}, "Definition"), h("pre", { tabindex: "0", role: "region", "aria-label": "Definition of the task" }, body === undefined ? "It is not written there: Weft made it." : JSON.stringify(body, null, 2)))));
  }

  async #showRuns() {
    try {
      const [page, counts] = await Promise.all([this.app.api.call("list_runs", { name: this.name, limit: RUNS, children: true }, this.life), this.app.api.call("get_counts", {}, this.life)]);
      const { ended, succeeded, median } = figuresOf(page.runs, counts.now);
      const last = page.runs[0];
      refill(this.#strip, page.runs.length > 0 && runStrip(page.runs, counts.now, true));
      refill(this.#facts,
        last ? h("span", { title: moment(last.created_at) }, "last run ", h("b", {}, ago(last.created_at, counts.now))) : h("span", {}, "no runs yet"),
        succeeded !== null && h("span", {}, h("b", {}, `${succeeded} %`), ` of the last ${ended} succeeded`),
        median !== null && h("span", {}, "median ", h("b", {}, span(median))));
    } catch {
      // the bar says that the server is not heard
    }
  }
}

/** @param {URLSearchParams} query */
function withoutTask(query) {
  const kept = new URLSearchParams(query);
  kept.delete("task");
  return kept;
}

customElements.define("weft-workflow", WorkflowView);
