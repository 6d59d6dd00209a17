// @ts-check
/** Looks for a text in an output: the server finds lines, and the page goes through them. */

import { Part, h, refill } from "../parts/dom.js";
import { bytes, count } from "../parts/format.js";
import { problemText } from "../parts/toast.js";

const PAGE = 200;

/** Dispatches `match` with the match to show, and `done` when the search is left. */
export class OutputSearch extends Part {
  #input = /** @type {HTMLInputElement} */ (h("input", { type: "search", placeholder: "Find in the output", "aria-label": "Find in the output", "data-filter": true, size: "18", maxlength: 200 }));
  #case = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox", checked: true }));
  #said = h("span", { class: "soft", role: "status" });
  /** @type {any[]} */ #matches = [];
  /** @type {string | null} */ #next = null;
  #at = -1;
  #asked = "";
  #turn = 0;

  /** @param {import("../shell/main.js").App} app @param {() => Record<string, any>} of run, task, attempt and stream */
  constructor(app, of) {
    super();
    this.app = app;
    this.of = of;
  }

  /** What is looked for now. */
  get wanted() {
    return this.#asked ? { text: this.#input.value, ignoreCase: this.#case.checked } : null;
  }

  begin() {
    this.className = "output-search";
    const step = (/** @type {number} */ by) => h("button", { "aria-label": by > 0 ? "Next match" : "Previous match", title: by > 0 ? "n" : "N", on: { click: () => this.go(by) } }, by > 0 ? "↓" : "↑");
    refill(this, this.#input, h("label", { class: "flag" }, this.#case, "ignore case"), step(-1), step(1), this.#said);
    this.hear(this.#input, "keydown", (event) => {
      if (event.key === "Enter") this.go(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") this.leave();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }

  focus() {
    this.#input.focus();
    this.#input.select();
  }

  leave() {
    this.#turn++;
    this.#input.value = this.#asked = this.#said.textContent = "";
    this.dispatchEvent(new Event("done"));
  }

  /** The next match, or the one before. @param {number} by */
  async go(by) {
    const asked = JSON.stringify([this.#input.value, this.#case.checked, this.of()]);
    if (!this.#input.value) return;
    if (asked !== this.#asked) {
      this.#asked = asked;
      this.#matches = [];
      this.#at = -1;
      this.#next = "";
      by = 1;
    }
    const turn = ++this.#turn;
    const wanted = this.#at + by;
    try {
      while (wanted >= this.#matches.length && this.#next !== null) await this.#more(turn);
    } catch (error) {
      if (turn === this.#turn) this.#said.textContent = problemText(error);
      return;
    }
    if (turn !== this.#turn) return;
    if (!this.#matches.length) {
      this.#said.textContent = "not found";
      return;
    }
    this.#at = (wanted + this.#matches.length) % this.#matches.length;
    const match = this.#matches[this.#at];
    this.#said.textContent = `${count(this.#at + 1)} of ${count(this.#matches.length)}${this.#next === null ? "" : "+"} · line ${count(match.line)}`;
    this.dispatchEvent(new CustomEvent("match", { detail: match }));
  }

  /** @param {number} turn */
  async #more(turn) {
    const found = await this.app.api.call("search_task_output", { ...this.of(), text: this.#input.value, ignore_case: this.#case.checked, limit: PAGE, ...(this.#next ? { cursor: this.#next } : {}) }, this.life);
    if (turn !== this.#turn) throw new Error("another search began");
    this.#matches.push(...found.matches);
    this.#next = found.next;
    if (!this.#matches.length) this.#said.textContent = `${bytes(found.scanned)} looked through`;
  }
}

/** Marks where a text is on the page, where the browser can. @param {HTMLElement} place @param {{text: string, ignoreCase: boolean} | null} wanted @param {Node | null} from the part with the match that is shown */
export function markFound(place, wanted, from) {
  const known = /** @type {any} */ (globalThis).CSS?.highlights;
  if (!known) return from instanceof HTMLElement ? from : null;
  known.delete("found");
  known.delete("found-now");
  if (wanted === null) return null;
  const fold = (/** @type {string} */ text) => (wanted.ignoreCase ? text.toLowerCase() : text);
  const needle = fold(wanted.text);
  const ranges = [];
  let now = null;
  const walker = document.createTreeWalker(place, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const text = fold(/** @type {Text} */ (node).data);
    for (let at = text.indexOf(needle); at >= 0; at = text.indexOf(needle, at + needle.length)) {
      const range = new Range();
      range.setStart(node, at);
      range.setEnd(node, at + needle.length);
      ranges.push(range);
      if (now === null && from && (from.contains(node) || from.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING)) now = range;
    }
  }
  const Highlight = /** @type {any} */ (globalThis).Highlight;
  known.set("found", new Highlight(...ranges.slice(0, 2000)));
  if (now) known.set("found-now", new Highlight(now));
  return now;
}

customElements.define("weft-output-search", OutputSearch);
