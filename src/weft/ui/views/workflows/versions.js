// @ts-check
/** The versions of a workflow, and what one of them changed. */

import { Part, h, refill, table, unseen } from "../../parts/dom.js";
import { diffLines } from "../../parts/diff_lines.js";
import { ago, moment } from "../../parts/format.js";
import { badge } from "../../parts/states.js";
import { problemText } from "../../parts/toast.js";
import { address, here } from "../../shell/router.js";

const LIMIT = 200;

export class WorkflowVersions extends Part {
  #list = h("div", { class: "panel-table" });
  #diff = h("section", { class: "section", "aria-label": "What a version changed" });

  /** @param {import("../../shell/main.js").App} app @param {string} name @param {string} current hash @param {string} shown hash */
  constructor(app, name, current, shown) {
    super();
    this.app = app;
    this.name = name;
    this.current = current;
    this.shown = shown;
  }

  async begin() {
    this.replaceChildren(this.#list, this.#diff);
    try {
      const page = await this.app.api.call("list_versions", { name: this.name, limit: LIMIT }, this.life);
      this.#show(page);
      const at = page.versions.findIndex((/** @type {any} */ one) => one.hash === this.shown);
      const before = page.versions[at + 1];
      refill(this.#diff, h("h2", {}, "What ", h("code", {}, this.shown.slice(0, 12)), " changed"));
      if (!before) return this.#diff.append(h("p", { class: "soft" }, at >= 0 && page.next === null ? "It is the first version." : "The version before it is not in this list."));
      const diff = await this.app.api.call("diff_versions", { name: this.name, old: before.hash, new: this.shown }, this.life);
      this.#diff.append(diffLines(diff.lines, "Nothing."));
    } catch (error) {
      if (!this.life.aborted) this.#diff.append(h("p", { class: "state-failed" }, problemText(error)));
    }
  }

  /** @param {any} page */
  #show(page) {
    const heads = ["Version", "Made", unseen("State"), "Look at"];
    const now = Date.now();
    const link = (/** @type {any} */ one, /** @type {string} */ tab, /** @type {string} */ text) => h("a", { href: address(["workflows", this.name, tab], { version: one.hash }) }, text);
    refill(this.#list, table(heads, page.versions.map((/** @type {any} */ one) => h("tr", { class: one.hash === this.shown ? "chosen" : null },
        h("td", { class: "mono" }, link(one, here().path[2] ?? "versions", one.hash.slice(0, 12))),
        h("td", { title: moment(one.created_at) }, ago(one.created_at, now)),
        h("td", {}, one.hash === this.current && badge("succeeded", "current")),
        h("td", {}, h("span", { class: "counted" }, link(one, "graph", "graph"), link(one, "definition", "definition"), link(one, "start", "start")))))),
      page.next && h("p", { class: "note" }, `the newest ${LIMIT}`));
  }
}

customElements.define("weft-versions", WorkflowVersions);
