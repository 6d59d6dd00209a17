// @ts-check
/** A text field for YAML: a textarea over a mirror of the lines in view, with colours, line numbers, marks and completion. */

import { Part, h, refill } from "../parts/dom.js";
import { choicesAt, matching } from "./completion.js";
import { highlighted } from "./highlight.js";
import { blockLines, keysBeside, placeAt, taskNames } from "./yaml_place.js";

/** @typedef {{line?: number, column?: number, length?: number, message: string, fix?: string}} Mistake */

const LINE = 20; // pixels
const SHOWN_MAX = 60;

/** Dispatches `edit` when the text has changed. */
export class CodeField extends Part {
  #area = /** @type {HTMLTextAreaElement} */ (h("textarea", { class: "code-area", wrap: "off", spellcheck: "false", autocapitalize: "off", autocomplete: "off", "aria-label": "Definition in YAML", "aria-autocomplete": "list", "aria-controls": "code-choices" }));
  #mirror = h("div", { class: "code-mirror", "aria-hidden": "true" });
  #choices = h("ul", { class: "code-choices", id: "code-choices", role: "listbox", "aria-label": "Possible here", hidden: true });
  /** @type {string[]} */ #lines = [""];
  /** @type {boolean[]} */ #blocks = [false];
  /** @type {Map<number, Mistake[]>} by line, from 0 */ #mistakes = new Map();
  /** @type {import("./completion.js").Choice[]} */ #found = [];
  #chosen = 0;
  #from = 0;
  /** The JSON Schema of definitions, once it is there. @type {any} */ schema = null;

  begin() {
    this.className = "code";
    this.replaceChildren(this.#mirror, this.#area, this.#choices);
    this.hear(this.#area, "scroll", () => this.#draw());
    this.hear(this.#area, "input", () => this.#edited());
    this.hear(this.#area, "keydown", (event) => this.#key(event));
    this.hear(this.#area, "blur", () => this.#close());
    this.hear(this.#area, "click", () => this.#close());
    const watch = new ResizeObserver(() => this.#draw());
    watch.observe(this);
    this.life.addEventListener("abort", () => watch.disconnect());
    this.#draw();
  }

  get value() {
    return this.#area.value;
  }

  set value(text) {
    this.#area.value = text;
    this.#read();
  }

  /** @param {Mistake[]} mistakes */
  mark(mistakes) {
    this.#mistakes = new Map();
    for (const one of mistakes) {
      const at = (one.line ?? 1) - 1;
      this.#mistakes.set(at, [...(this.#mistakes.get(at) ?? []), one]);
    }
    this.#draw();
  }

  /** Puts the cursor there. @param {number} line @param {number} column both from 1 */
  goTo(line, column) {
    const at = this.#lines.slice(0, line - 1).reduce((sum, one) => sum + one.length + 1, 0) + column - 1;
    this.#area.focus();
    this.#area.setSelectionRange(at, at);
    this.#area.scrollTop = Math.max(0, line * LINE - this.#area.clientHeight / 2);
  }

  focus() {
    this.#area.focus();
  }

  #read() {
    this.#lines = this.#area.value.split("\n");
    this.#blocks = blockLines(this.#lines);
    this.style.setProperty("--digits", String(Math.max(2, String(this.#lines.length).length)));
    this.#draw();
  }

  #edited() {
    this.#read();
    this.#suggest(false);
    this.dispatchEvent(new Event("edit"));
  }

  #draw() {
    const first = Math.floor(this.#area.scrollTop / LINE);
    const last = Math.min(this.#lines.length, first + Math.ceil(this.clientHeight / LINE) + 1);
    const lines = [];
    for (let nth = first; nth < last; nth++) lines.push(this.#line(nth));
    const code = h("div", { class: "code-lines", style: { transform: `translate(${-this.#area.scrollLeft}px, ${first * LINE - this.#area.scrollTop}px)` } }, lines.map((one) => one.text));
    const numbers = h("div", { class: "code-numbers", style: { transform: `translateY(${first * LINE - this.#area.scrollTop}px)` } }, lines.map((one) => one.number));
    refill(this.#mirror, code, numbers);
  }

  /** @param {number} nth */
  #line(nth) {
    const wrong = this.#mistakes.get(nth);
    const number = h("div", { class: wrong ? "wrong" : null, title: wrong?.map((one) => one.message).join("\n") }, nth + 1);
    const parts = highlighted(this.#lines[nth].slice(0, 2000), this.#blocks[nth]).map(([look, text]) => (look ? h("span", { class: look }, text) : text));
    const under = (wrong ?? []).map((one) => h("i", { class: "code-mistake", style: { left: `${(one.column ?? 1) - 1}ch`, width: `${Math.max(1, one.length ?? 1)}ch` } }));
    return { number, text: h("div", {}, parts, under) };
  }

  // Completion

  /** @param {boolean} asked also where nothing is typed yet */
  #suggest(asked) {
    const place = this.schema && this.#area.selectionStart === this.#area.selectionEnd ? this.#place() : null;
    if (place === null || (!asked && !place.word)) return this.#close();
    const row = this.#row();
    const beside = place.kind === "key" && place.column !== null ? keysBeside(this.#lines, row, place.column) : new Set();
    const choices = choicesAt(this.schema, place.path, place.kind, () => taskNames(this.#lines)).filter((one) => place.kind === "value" || !beside.has(one.text));
    this.#found = matching(choices, place.word).slice(0, SHOWN_MAX);
    if (!this.#found.length) return this.#close();
    this.#from = place.word.length;
    this.#show(row, place.from);
  }

  #row() {
    return this.#area.value.slice(0, this.#area.selectionStart).split("\n").length - 1;
  }

  #place() {
    const row = this.#row();
    if (this.#blocks[row]) return null;
    const before = this.#area.value.lastIndexOf("\n", this.#area.selectionStart - 1);
    return placeAt(this.#lines, row, this.#area.selectionStart - before - 1);
  }

  /** @param {number} row @param {number} column */
  #show(row, column) {
    refill(this.#choices, this.#found.map((one, nth) => h("li", { role: "option", id: `code-choice-${nth}`, on: { mousedown: (/** @type {Event} */ event) => { event.preventDefault(); this.#chosen = nth; this.#take(); } } },
      h("b", { class: "mono" }, one.text), h("span", { class: "soft" }, one.help))));
    this.#choices.hidden = false;
    const top = (row + 1) * LINE - this.#area.scrollTop + 6;
    const above = top + this.#choices.offsetHeight > this.clientHeight && top > this.clientHeight / 2;
    this.#choices.style.top = above ? "auto" : `${top}px`;
    this.#choices.style.bottom = above ? `${this.clientHeight - top + LINE}px` : "auto";
    this.#choices.style.left = `min(calc(${column + 2}ch + (var(--digits) + 1) * 1ch - ${this.#area.scrollLeft}px), calc(100% - 22rem))`;
    this.#choose(0);
  }

  /** @param {number} nth */
  #choose(nth) {
    this.#chosen = Math.max(0, Math.min(this.#found.length - 1, nth));
    [...this.#choices.children].forEach((one, at) => one.setAttribute("aria-selected", String(at === this.#chosen)));
    this.#choices.children[this.#chosen].scrollIntoView({ block: "nearest" });
    this.#area.setAttribute("aria-activedescendant", `code-choice-${this.#chosen}`);
  }

  #take() {
    const choice = this.#found[this.#chosen];
    const end = this.#area.selectionStart;
    this.#area.setSelectionRange(end - this.#from, end);
    this.#close();
    this.#insert(choice.insert);
    this.#close();
  }

  #close() {
    this.#choices.hidden = true;
    this.#area.removeAttribute("aria-activedescendant");
  }

  /** As if it were typed, so that it can be undone. @param {string} text */
  #insert(text) {
    if (document.execCommand("insertText", false, text)) return;
    this.#area.setRangeText(text, this.#area.selectionStart, this.#area.selectionEnd, "end");
    this.#edited();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    const open = !this.#choices.hidden;
    if (event.key === " " && event.ctrlKey) this.#suggest(true);
    else if (open && event.key === "ArrowDown") this.#choose(this.#chosen + 1);
    else if (open && event.key === "ArrowUp") this.#choose(this.#chosen - 1);
    else if (open && (event.key === "Enter" || event.key === "Tab")) this.#take();
    else if (open && event.key === "Escape") this.#close();
    else if (event.key === "Enter" && !event.ctrlKey && !event.metaKey) this.#insert(`\n${this.#indent()}`);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** Of a new line: that of this one, and more after a key without a value. */
  #indent() {
    const before = this.#area.value.slice(0, this.#area.selectionStart);
    const line = before.slice(before.lastIndexOf("\n") + 1);
    const own = /^\s*(?:- )?/.exec(line)?.[0].replace("-", " ") ?? "";
    return /:\s*([|>][+-]?)?$/.test(line) ? `${own}  ` : own;
  }
}

customElements.define("weft-code", CodeField);
