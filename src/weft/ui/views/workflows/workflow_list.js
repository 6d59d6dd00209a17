// @ts-check
/** All workflows by name, each with its last runs as a strip. */

import { RecentRuns } from "../../data/recent_runs.js";
import { h, paced } from "../../parts/dom.js";
import { ago, moment, span } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { figuresOf, runStrip } from "../../parts/run_strip.js";
import { address, changed, go, here } from "../../shell/router.js";

const LIMIT = 50;
const AGAIN_MS = 3000;
const HEADS = ["Workflow", "Last runs", "Succeeded", "Median", "Last run", "Versions"];
const NUMBERS = new Set(["Succeeded", "Median"]);

export class WorkflowList extends ListView {
  /** @type {any[]} */ #workflows = [];
  /** @type {RecentRuns} */ #runs = /** @type {any} */ (null);
  #now = Date.now();
  #refresh = paced(AGAIN_MS, () => this.#readRuns().catch(() => undefined)); // the bar says that the server is not heard

  begin() {
    this.#runs = new RecentRuns(this.app.api, this.life);
    const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter", "data-filter": true, value: here().query.get("text") ?? "",
      on: { input: () => go(changed({ text: /** @type {any} */ (filter).value }), true) } });
    this.open("Workflows", 0, h("h1", {}, "Workflows"), h("span", { class: "grow" }), this.app.api.may("submit_run") && h("a", { class: "button", href: "#/new" }, "New workflow"), filter);
    this.app.live?.subscribe(null, (message) => message.kind !== "lost" && this.#refresh(), this.life);
  }

  async load() {
    const page = await this.app.api.call("list_workflows", { limit: LIMIT, cursor: here().query.get("cursor") }, this.life);
    this.#workflows = page.workflows;
    this.showPages(page.next);
    this.#show();
    await this.#readRuns();
  }

  async #readRuns() {
    const [counts] = await Promise.all([this.app.api.call("get_counts", {}, this.life), this.#runs.read(this.#workflows.map((one) => one.name))]);
    this.#now = counts.now;
    this.#show();
  }

  #show() {
    const text = (here().query.get("text") ?? "").toLowerCase();
    const shown = this.#workflows.filter((one) => one.name.toLowerCase().includes(text));
    const heads = HEADS.map((one) => h("th", { scope: "col", class: NUMBERS.has(one) ? "number" : null }, one));
    this.show(heads, shown.map((one) => this.#line(one)), text ? "No workflow on this page has that in its name." : ["No workflows yet: ", h("code", {}, "weft apply FILE"), " or ", h("code", {}, "weft run FILE"), " makes one known."]);
  }

  /** @param {any} workflow */
  #line(workflow) {
    const runs = this.#runs.of(workflow.name);
    const figures = figuresOf(runs, this.#now);
    const last = runs[0];
    return h("tr", { "data-key": workflow.name },
      h("td", { class: "text" }, h("a", { class: "name", href: address(["workflows", workflow.name]) }, workflow.name)),
      h("td", {}, runs.length ? runStrip(runs, this.#now, false) : h("span", { class: "soft" }, "none")),
      h("td", { class: "number" }, figures.succeeded === null ? "" : `${figures.succeeded} %`),
      h("td", { class: "number" }, figures.median === null ? "" : span(figures.median)),
      h("td", { title: last ? moment(last.created_at) : null }, last ? h("a", { href: address(["runs", last.id]) }, ago(last.created_at, this.#now)) : ""),
      h("td", {}, h("a", { href: address(["workflows", workflow.name, "versions"]) }, workflow.versions)));
  }
}

customElements.define("weft-workflows", WorkflowList);
