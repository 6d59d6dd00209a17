// @ts-check
/** Who is there, what each runs and ran, how much room and which leases it has, who leads. */

import { h, unseen } from "../parts/dom.js";
import { ago, bytes, span } from "../parts/format.js";
import { ListView } from "../parts/list_view.js";
import { badge } from "../parts/states.js";
import { askVerb } from "../parts/verb_dialog.js";
import { ClusterGantt } from "./cluster/cluster_gantt.js";
import { clusterTabs } from "./cluster/cluster_tabs.js";

const AGAIN_MS = 3000;
const SLOTS_SHOWN = 64;
const LOOK = /** @type {Record<string, string>} */ ({ healthy: "succeeded", draining: "running", stale: "cancelled", dead: "failed", left: "skipped" });

export class NodesView extends ListView {
  begin() {
    this.open("Nodes", AGAIN_MS, h("h1", { class: "sr" }, "Nodes"), clusterTabs(this.app, "nodes"));
    this.append(h("div", { class: "panel-table gantt" }, new ClusterGantt(this.app)));
  }

  async load() {
    const [page, now] = await this.timed("list_nodes", { limit: 500 });
    const heads = ["Node", "Health", "Role", "Slots", "Load", "Memory", "Lease", "Labels", "Can run", "Seen", unseen("Actions")];
    this.show(heads, page.nodes.map((/** @type {any} */ node) => this.#line(node, now)), "No nodes: ", h("code", {}, "weft worker"), " starts one.");
  }

  /** @param {any} node @param {number} now */
  #line(node, now) {
    const labels = Object.entries(node.labels).map(([key, value]) => (value ? `${key}=${value}` : key)).join(" ");
    const slots = Math.max(1, node.slots ?? node.running);
    const { load, cores, memory_free: free, memory_total: total } = node.resources;
    return h("tr", { "data-key": node.session },
      h("td", {}, h("span", { class: "name" }, node.node), " ", h("span", { class: "mono soft" }, node.session.slice(0, 8))),
      h("td", {}, badge(LOOK[node.health] ?? "pending", node.health)),
      h("td", {}, node.leader ? `${node.role}, leads (term ${node.term})` : node.role),
      h("td", {}, h("span", { class: "counted" }, slotStrip(node.running, slots), node.slots === null ? String(node.running) : `${node.running}/${node.slots}`)),
      h("td", {}, share(load, cores, load === undefined ? "" : load.toFixed(1), `${cores} cores`)),
      h("td", {}, share(total - free, total, total ? `${Math.round((100 * (total - free)) / total)} %` : "", `${bytes(total - free)} of ${bytes(total)}`)),
      h("td", { title: "how much of its lease is left" }, node.lease_ms === null ? "" : node.lease_ms > 0 ? `${span(node.lease_ms)} left` : h("span", { class: "state-failed" }, `${span(-node.lease_ms)} over`)),
      h("td", { class: "text name" }, labels),
      h("td", { class: "text short soft", title: node.kinds.join(" ") }, node.kinds.join(" ")),
      h("td", {}, node.seen_at ? ago(node.seen_at, now) : ""),
      h("td", {}, this.app.api.may("drain_node") && node.health !== "left" && node.health !== "dead" && h("button", { on: { click: () => askVerb(this.app, "drain_node", { node: node.session }, { title: `Drain ${node.node}` }) } }, "Drain")));
  }
}

/** A cell a slot: those that are taken are filled. @param {number} running @param {number} slots */
function slotStrip(running, slots) {
  const cells = Math.min(slots, SLOTS_SHOWN);
  const taken = Math.round((Math.min(running, slots) * cells) / slots);
  return h("span", { class: "slots", style: { width: `${Math.min(cells, 16) * 11}px` }, role: "img", "aria-label": `${running} of ${slots} slots are taken` }, Array.from({ length: cells }, (_, nth) => h("i", { class: nth < taken ? "taken" : null })));
}

/** @param {number} part @param {number} whole @param {string} text @param {string} more */
function share(part, whole, text, more) {
  if (!text || !whole) return h("span", { class: "soft" }, "");
  const used = Math.min(1, part / whole);
  return h("span", { class: "counted", title: more }, h("span", { class: "meter short" }, h("i", { class: used > 0.9 ? "failed" : "running", style: { width: `${100 * used}%` } })), text);
}

customElements.define("weft-nodes", NodesView);
