// @ts-check
/** All workflows by name, each with its last runs as a strip. */

import { RecentRuns } from "../../data/recent_runs.js";
import { Part, h, paced, refill } from "../../parts/dom.js";
import { ago, moment, span } from "../../parts/format.js";
import { keepFocus } from "../../parts/keep_focus.js";
import { figuresOf, runStrip } from "../../parts/run_strip.js";
import { problemText } from "../../parts/toast.js";
import { address, changed, go, here } from "../../shell/router.js";

const LIMIT = 50;
const AGAIN_MS = 3000;
const HEADS = ["Workflow", "Last runs", "Succeeded", "Median", "Last run", "Versions"];
const NUMBERS = new Set(["Succeeded", "Median"]);

export class WorkflowList extends Part {
  #body = h("div", { class: "panel-table" }, h("p", { class: "note" }, "…"));
  #pages = h("div", { class: "pages" });
  /** @type {any[]} */ #workflows = [];
  /** @type {RecentRuns} */ #runs = /** @type {any} */ (null);
  #now = Date.now();
  #refresh = paced(AGAIN_MS, () => this.#readRuns());

  /** @param {import("../../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  begin() {
    document.title = "Workflows · Weft";
    this.#runs = new RecentRuns(this.app.api, this.life);
    const filter = h("input", { type: "search", placeholder: "Filter by name", "aria-label": "Filter", "data-filter": true, value: here().query.get("text") ?? "",
      on: { input: () => go(changed({ text: /** @type {any} */ (filter).value }), true) } });
    this.replaceChildren(h("div", { class: "filters" }, h("h1", {}, "Workflows"), h("span", { class: "grow" }), filter), this.#body, this.#pages);
    this.app.live?.subscribe(null, (message) => message.kind !== "lost" && this.#refresh(), this.life);
    this.#read();
  }

  moved() {
    this.#read();
  }

  async #read() {
    const { query } = here();
    try {
      const page = await this.app.api.call("list_workflows", { limit: LIMIT, cursor: query.get("cursor") }, this.life);
      this.#workflows = page.workflows;
      refill(this.#pages, query.get("cursor") && h("a", { class: "button", href: changed({ cursor: null }) }, "First"), page.next && h("a", { class: "button", href: changed({ cursor: page.next }) }, "More"));
      this.#show();
      await this.#readRuns();
    } catch (error) {
      if (!this.life.aborted) refill(this.#body, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  async #readRuns() {
    try {
      const [counts] = await Promise.all([this.app.api.call("get_counts", {}, this.life), this.#runs.read(this.#workflows.map((one) => one.name))]);
      this.#now = counts.now;
      this.#show();
    } catch {
      // the bar says that the server is not heard
    }
  }

  #show() {
    const text = (here().query.get("text") ?? "").toLowerCase();
    const shown = this.#workflows.filter((one) => one.name.toLowerCase().includes(text));
    if (!shown.length) {
      return refill(this.#body, h("p", { class: "note" }, text ? "No workflow on this page has that in its name." : ["No workflows yet: ", h("code", {}, "weft apply FILE"), " or ", h("code", {}, "weft run FILE"), " makes one known."]));
    }
    keepFocus(this.#body, () => refill(this.#body, h("table", {}, h("thead", {}, h("tr", {}, HEADS.map((one) => h("th", { scope: "col", class: NUMBERS.has(one) ? "number" : null }, one)))), h("tbody", {}, shown.map((one) => this.#line(one))))));
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
