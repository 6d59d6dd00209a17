// @ts-check
/** Pools: how many places each has, who holds them, who waits, and what its tasks have spent. */

import { h } from "../../parts/dom.js";
import { count } from "../../parts/format.js";
import { ListView } from "../../parts/list_view.js";
import { askVerb } from "../../parts/verb_dialog.js";
import { address } from "../../shell/router.js";
import { clusterTabs } from "./cluster_tabs.js";

const AGAIN_MS = 3000;
const HOLDERS = 20;

export class PoolsView extends ListView {
  begin() {
    const add = this.app.api.may("set_pool") && h("button", { on: { click: () => this.#set({}, "New pool", ["name", "size"]) } }, "New pool");
    this.open("Pools", AGAIN_MS, h("h1", { class: "sr" }, "Pools"), clusterTabs(this.app, "pools"), h("span", { class: "grow" }), add);
  }

  /** @param {Record<string, any>} known @param {string} title @param {string[]} fields */
  async #set(known, title, fields) {
    if ((await askVerb(this.app, "set_pool", known, { title, fields })) !== null) this.read();
  }

  async load() {
    const page = await this.app.api.call("list_pools", { limit: 500 }, this.life);
    const may = this.app.api.may("set_pool");
    this.show(["Pool", "Places", "Waiting", "Held by", "Spent", may && "Actions"], page.pools.map((/** @type {any} */ pool) => this.#line(pool, may)), "No pools: one limits how many tasks that name it run at a time.");
  }

  /** @param {any} pool @param {boolean} may */
  #line(pool, may) {
    const bar = h("span", { class: "meter" }, h("i", { class: "running", style: { width: `${(100 * Math.min(pool.used, pool.size)) / Math.max(1, pool.size)}%` } }));
    const holders = pool.holders.slice(0, HOLDERS).map((/** @type {string} */ holder) => {
      const at = holder.indexOf("/");
      return h("a", { class: "name", href: address(["runs", holder.slice(0, at)], { task: holder.slice(at + 1) }) }, holder);
    });
    const more = pool.holders.length - HOLDERS;
    return h("tr", { "data-key": pool.name },
      h("td", { class: "name" }, pool.name),
      h("td", {}, h("span", { class: "counted" }, bar, `${count(pool.used)}/${count(pool.size)}`)),
      h("td", {}, pool.waiting ? count(pool.waiting) : ""),
      h("td", { class: "wrapped" }, h("span", { class: "held" }, holders, more > 0 && `and ${count(more)} more`)),
      h("td", {}, pool.budget ? spent(pool.budget) : ""),
      may && h("td", {}, h("button", { "aria-label": `Resize ${pool.name}`, on: { click: () => this.#set({ name: pool.name, size: pool.size }, `Size of ${pool.name}`, ["size"]) } }, "Resize")));
  }
}

/** @param {any} budget */
function spent(budget) {
  const money = budget.usd === null && !budget.usd_spent ? null : `$${budget.usd_spent.toFixed(2)}${budget.usd === null ? "" : ` of $${budget.usd.toFixed(2)}`}`;
  const tokens = budget.tokens === null && !budget.tokens_spent ? null : `${count(budget.tokens_spent)}${budget.tokens === null ? "" : ` of ${count(budget.tokens)}`} tokens`;
  return [money, tokens].filter(Boolean).join(", ");
}

customElements.define("weft-pools", PoolsView);
