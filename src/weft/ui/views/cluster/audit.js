// @ts-check
/** Who did what, for admins: events that a caller asked for. */

import { h, refill } from "../../parts/dom.js";
import { moment } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { address, changed, here } from "../../shell/router.js";
import { clusterTabs } from "./cluster_tabs.js";

const LIMIT = 100;
const TEXT_MAX = 300;

export class AuditView extends ListView {
  #chip = h("span", {});

  begin() {
    this.open("Audit", 0, h("h1", { class: "sr" }, "Audit"), clusterTabs(this.app, "audit"), this.#chip);
  }

  async load() {
    const { query } = here();
    const actor = query.get("actor");
    refill(this.#chip, actor && h("a", { class: "chip", href: changed({ actor: null, cursor: null }), "aria-label": "remove the filter actor" }, h("span", { class: "name" }, `by ${actor}`), "×"));
    const page = await this.app.api.call("list_audit", { actor, cursor: query.get("cursor"), limit: LIMIT }, this.life);
    this.show(["When", "Who", "What", "Run", "Task", "Details"], page.events.map(line), "Nobody has asked for anything here.");
    this.showPages(page.next, "Newest", "Older");
  }
}

/** @param {any} event */
function line(event) {
  const { actor, ...data } = event.data;
  const text = JSON.stringify(data);
  return h("tr", {}, h("td", {}, moment(event.at)), h("td", {}, h("a", { class: "name", href: changed({ actor, cursor: null }) }, actor)),
    h("td", {}, event.kind === "asked" ? data.command ?? event.kind : event.kind),
    h("td", {}, event.run_id && h("a", { class: "mono", href: address(["runs", event.run_id]) }, event.run_id)), h("td", { class: "text name" }, event.task ?? ""),
    h("td", { class: "text soft mono name", title: text.slice(0, TEXT_MAX) }, text === "{}" ? "" : text.slice(0, TEXT_MAX)));
}

customElements.define("weft-audit", AuditView);
