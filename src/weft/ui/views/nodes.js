// @ts-check
/** Who is there, what each runs, who leads. */

import { Part, h, refill } from "../parts/dom.js";
import { ago } from "../parts/format.js";
import { badge } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { askVerb } from "../parts/verb_dialog.js";
import { clusterTabs } from "./cluster/cluster_tabs.js";

const AGAIN_MS = 3000;
const LOOK = /** @type {Record<string, string>} */ ({ healthy: "succeeded", draining: "running", stale: "cancelled", dead: "failed", left: "skipped" });

export class NodesView extends Part {
  #body = h("div", { class: "panel-table" });

  /** @param {import("../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  begin() {
    document.title = "Nodes · Weft";
    this.replaceChildren(h("div", { class: "filters" }, h("h1", { class: "sr" }, "Nodes"), clusterTabs(this.app, "nodes")), this.#body);
    this.every(AGAIN_MS, () => !document.hidden && this.#read());
    this.#read();
  }

  async #read() {
    try {
      const [page, counts] = await Promise.all([this.app.api.call("list_nodes", { limit: 500 }, this.life), this.app.api.call("get_counts", {}, this.life)]);
      const heads = ["Node", "Health", "Role", "Running", "Labels", "Can run", "Seen", ""];
      if (!page.nodes.length) return refill(this.#body, h("p", { class: "note" }, "No nodes: ", h("code", {}, "weft worker"), " starts one."));
      refill(this.#body, h("table", {}, h("thead", {}, h("tr", {}, heads.map((one) => h("th", { scope: "col" }, one || h("span", { class: "sr" }, "Actions"))))),
        h("tbody", {}, page.nodes.map((/** @type {any} */ node) => this.#line(node, counts.now)))));
    } catch (error) {
      if (!this.life.aborted && !this.#body.firstElementChild) refill(this.#body, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** @param {any} node @param {number} now */
  #line(node, now) {
    const labels = Object.entries(node.labels).map(([key, value]) => (value ? `${key}=${value}` : key)).join(" ");
    const slots = Math.max(1, node.slots ?? node.running);
    const bar = h("span", { class: "meter" }, h("i", { class: "running", style: { width: `${(100 * Math.min(node.running, slots)) / slots}%` } }));
    return h("tr", {},
      h("td", {}, h("span", { class: "name" }, node.node), " ", h("span", { class: "mono soft" }, node.session.slice(0, 8))),
      h("td", {}, badge(LOOK[node.health] ?? "pending", node.health)),
      h("td", {}, node.leader ? `${node.role}, leads (term ${node.term})` : node.role),
      h("td", {}, h("span", { class: "counted" }, bar, node.slots === null ? String(node.running) : `${node.running}/${node.slots}`)),
      h("td", { class: "text name" }, labels),
      h("td", { class: "text soft" }, node.kinds.join(" ")),
      h("td", {}, node.seen_at ? ago(node.seen_at, now) : ""),
      h("td", {}, this.app.api.may("drain_node") && node.health !== "left" && node.health !== "dead" && h("button", { on: { click: () => askVerb(this.app, "drain_node", { node: node.session }, { title: `Drain ${node.node}` }) } }, "Drain")));
  }
}

customElements.define("weft-nodes", NodesView);
