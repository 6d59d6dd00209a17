// @ts-check
/** A view that is one table: read when it opens, when the address moves and every few seconds, without losing the keyboard's place. */

import { Part, h, refill, table } from "./dom.js";
import { keepFocus } from "./keep_focus.js";
import { problemText } from "./toast.js";
import { changed, here } from "../shell/router.js";

/** @typedef {import("./dom.js").Child} Child */

export class ListView extends Part {
  body = h("div", { class: "panel-table" }, h("p", { class: "note" }, "…"));
  pages = h("div", { class: "pages" });
  #known = false;

  /** @param {import("../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  /** @param {string} title @param {number} again ms until it is read again; 0: only when it is asked for @param {...(Child | Child[])} head above the table */
  open(title, again, ...head) {
    document.title = `${title} · Weft`;
    this.replaceChildren(h("div", { class: "filters" }, ...head), this.body, this.pages);
    if (again) this.every(again, () => !document.hidden && this.read());
    this.read();
  }

  moved() {
    this.#known = false;
    this.read();
  }

  async read() {
    try {
      await this.load();
      this.#known = true;
    } catch (error) {
      if (!this.life.aborted && !this.#known) refill(this.body, h("p", { class: "note problem", role: "alert" }, problemText(error)));
    }
  }

  /** Asks the server, and shows what it says. @returns {Promise<void>} */
  async load() {}

  /** The server's answer, and its clock. @param {string} verb @param {Record<string, any>} fields @returns {Promise<[any, number]>} */
  async timed(verb, fields) {
    const [page, clock] = await Promise.all([this.app.api.call(verb, fields, this.life), this.app.api.call("get_clock", {}, this.life)]);
    return [page, clock.now];
  }

  /** @param {Child[]} heads @param {Element[]} lines @param {...(Child | Child[])} empty what is said when there is none */
  show(heads, lines, ...empty) {
    keepFocus(this.body, () => refill(this.body, lines.length ? table(heads, lines) : h("p", { class: "note" }, ...empty)));
  }

  /** @param {string | null} next cursor @param {string} [first] @param {string} [more] */
  showPages(next, first = "First", more = "More") {
    refill(this.pages, here().query.get("cursor") && h("a", { class: "button", href: changed({ cursor: null }) }, first), next && h("a", { class: "button", href: changed({ cursor: next }) }, more));
  }
}
