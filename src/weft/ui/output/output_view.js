// @ts-check
/** What an attempt printed: the tail first, other parts by ranges, more as it comes, and what is looked for. Its memory is bounded. */

import { bytesOf, follow } from "./follow.js";
import { Pieces } from "./pieces.js";
import { OutputSearch, markFound } from "./search.js";
import { Part, h, refill } from "../parts/dom.js";
import { saveParts } from "../parts/download.js";
import { bytes, clock } from "../parts/format.js";
import { problemText, toast } from "../parts/toast.js";

const PART = 48 * 1024;
const KEPT = 192 * 1024; // bytes shown at once
const SPANS = 6000; // parts of one colour shown at once: each takes a browser about a kilobyte
const BEFORE = 16 * 1024; // bytes shown before a match
const LONG = 2000; // bytes of a long line before a match
const SAVED = 1 << 20;
const STREAMS = ["stdout", "stderr"];

export class OutputView extends Part {
  #text = h("div", { class: "output-text wrapped", tabindex: "0", role: "log", "aria-label": "Output" });
  #tools = h("div", { class: "output-tools" });
  #said = h("span", { class: "soft grow" });
  #search = /** @type {OutputSearch} */ (/** @type {any} */ (null));
  #stream = "stdout";
  /** @type {{begin: number, end: number, nodes: Node[]}[]} */ #parts = [];
  #decoder = new TextDecoder();
  #pieces = new Pieces();
  #over = false;
  #timed = false;
  #size = 0;
  #following = new AbortController();

  /** @param {import("../shell/main.js").App} app @param {{run: string, task: string, attempt: number}} of */
  constructor(app, of) {
    super();
    this.app = app;
    this.of = of;
  }

  begin() {
    this.#search = new OutputSearch(this.app, () => ({ ...this.of, stream: this.#stream }));
    refill(this, this.#tools, this.#search, this.#text);
    this.hear(this.#search, "match", (event) => this.#showMatch(event.detail));
    this.hear(this.#search, "done", () => this.#choose(this.#stream));
    this.hear(this, "keydown", (event) => this.#key(event));
    this.life.addEventListener("abort", () => this.#following.abort());
    this.#choose("stdout");
  }

  get #end() {
    return this.#parts.at(-1)?.end ?? 0;
  }

  #clear() {
    this.#following.abort();
    this.#following = new AbortController();
    this.#parts = [];
    this.#decoder = new TextDecoder();
    this.#pieces = new Pieces();
    this.#text.replaceChildren();
    markFound(this.#text, null, null);
  }

  /** The tail, and what comes. @param {string} stream @returns {Promise<void>} */
  async #choose(stream) {
    this.#stream = stream;
    this.#over = false;
    this.#size = 0;
    this.#clear();
    const { signal } = this.#following;
    this.#showTools();
    const part = await this.#ask(stream, -PART, PART, signal);
    if (part === null) return;
    this.#over = part.ended;
    if (part.data.length) this.#append(part.begin, part.end, this.#decoder.decode(part.data, { stream: !this.#over }));
    this.#text.scrollTop = this.#text.scrollHeight;
    this.#showTools();
    if (stream === "stdout" && this.#over && this.#size === 0) {
      const other = await this.#ask("stderr", -1, 1, signal);
      if (other?.size) return this.#choose("stderr");
    }
    if (!this.#over) follow(this.app.api, { ...this.of, stream }, () => this.#end, (printed) => this.#take(printed), () => this.#ended(), signal);
  }

  /** @param {any} printed */
  #take(printed) {
    const atEnd = this.#text.scrollTop + this.#text.clientHeight >= this.#text.scrollHeight - 8;
    this.#size = Math.max(this.#size, printed.next);
    this.#timed = true;
    this.#append(printed.offset, printed.next, printed.text ?? this.#decoder.decode(bytesOf(printed), { stream: true }), clock(Date.now()));
    if (atEnd) this.#text.scrollTop = this.#text.scrollHeight;
    this.#showTools();
  }

  #ended() {
    this.#over = true;
    this.#showTools();
  }

  /** @param {number} begin @param {number} end @param {string} text @param {string} [at] */
  #append(begin, end, text, at) {
    const nodes = this.#pieces.add(text, at);
    this.#parts.push({ begin, end, nodes });
    this.#text.append(...nodes);
    while (this.#full && this.#parts.length > 1) this.#drop(this.#parts.shift());
  }

  get #shown() {
    return this.#parts.reduce((sum, one) => sum + one.end - one.begin, 0);
  }

  /** More is shown than a page should hold. */
  get #full() {
    const spans = this.#parts.reduce((sum, part) => sum + part.nodes.reduce((all, node) => all + node.childNodes.length, 0), 0);
    return this.#shown > KEPT || spans > SPANS;
  }

  /** @param {{nodes: Node[]} | undefined} part */
  #drop(part) {
    for (const node of part?.nodes ?? []) node.parentNode?.removeChild(node);
  }

  #showTools() {
    const tool = (/** @type {string} */ label, /** @type {() => void} */ act, /** @type {boolean} */ pressed) => h("button", { "aria-pressed": String(pressed), on: { click: () => (act(), this.#showTools()) } }, label);
    const { classList } = this.#text;
    refill(this.#tools,
      STREAMS.map((one) => h("button", { "aria-pressed": String(one === this.#stream), on: { click: () => this.#choose(one) } }, one)), this.#said,
      (this.#parts[0]?.begin ?? 0) > 0 && h("button", { on: { click: () => this.#earlier() } }, "Earlier"),
      this.#parts.length > 0 && this.#end < this.#size && [h("button", { on: { click: () => this.#later() } }, "Later"), h("button", { on: { click: () => this.#choose(this.#stream) } }, "To the end")],
      this.#timed && tool("Times", () => classList.toggle("timed"), classList.contains("timed")),
      tool("Wrap", () => classList.toggle("wrapped"), classList.contains("wrapped")),
      this.#size > 0 && h("button", { on: { click: () => this.#save() } }, "Download"));
    const live = this.#over || this.#following.signal.aborted ? "" : " · live";
    const after = this.#parts.length > 0 && this.#end < this.#size ? `, ${bytes(this.#size - this.#end)} before the end` : live;
    this.#said.textContent = this.#size ? `${bytes(this.#shown)} of ${bytes(this.#size)}${after}` : this.#over ? "nothing printed" : "nothing yet";
    this.#search.hidden = this.#size === 0;
  }

  /** @param {string} stream @param {number} offset @param {number} limit @param {AbortSignal} signal */
  async #ask(stream, offset, limit, signal) {
    try {
      const reply = await this.app.api.ask("get_task_output", { ...this.of, stream, offset, limit }, signal);
      const data = new Uint8Array(await reply.arrayBuffer());
      const [begin, end, size] = ["Weft-Offset", "Weft-Next", "Weft-Size"].map((name) => Number(reply.headers.get(name)));
      if (stream === this.#stream) this.#size = Math.max(size, this.#size);
      return { data, begin, end, size, ended: reply.headers.get("Weft-Ended") === "true" && end >= size };
    } catch {
      return null; // the bar says if the server is not heard
    }
  }

  /** Elsewhere than at the end: nothing is added until it is asked for. */
  #leaveEnd() {
    if (this.#over) return;
    this.#following.abort();
    this.#following = new AbortController();
  }

  async #earlier() {
    const first = this.#parts[0];
    if (!first) return; // another part is on its way
    const offset = Math.max(0, first.begin - PART);
    const near = await this.#ask(this.#stream, offset, first.begin - offset, this.life);
    const cut = near !== null && near.begin >= first.begin; // nothing is kept there: the beginning of it all is
    const part = cut ? await this.#ask(this.#stream, 0, PART, this.life) : near;
    if (part === null || this.#parts[0] !== first) return;
    const nodes = new Pieces().add(new TextDecoder().decode(part.data));
    if (cut) nodes.push(h("div", { class: "soft" }, `… ${bytes(first.begin - part.end)} were not kept …`));
    const high = this.#text.scrollHeight;
    this.#text.prepend(...nodes);
    this.#parts.unshift({ begin: part.begin, end: part.end, nodes });
    this.#text.scrollTop += this.#text.scrollHeight - high;
    while (this.#full && this.#parts.length > 1) {
      this.#drop(this.#parts.pop());
      this.#leaveEnd();
    }
    this.#showTools();
  }

  async #later() {
    const last = this.#parts.at(-1);
    if (!last) return;
    const part = await this.#ask(this.#stream, this.#end, PART, this.life);
    if (part === null || this.#parts.at(-1) !== last) return;
    if (part.ended || !part.data.length) return this.#choose(this.#stream);
    this.#append(part.begin, part.end, this.#decoder.decode(part.data, { stream: true }));
    this.#showTools();
  }

  /** @param {any} match */
  async #showMatch(match) {
    const from = Math.max(match.line_offset, match.offset - LONG);
    const before = Math.max(0, from - BEFORE);
    this.#clear();
    const { signal } = this.#following;
    const [head, tail] = await Promise.all([from > before ? this.#ask(this.#stream, before, from - before, signal) : null, this.#ask(this.#stream, from, PART, signal)]);
    if (tail === null || signal.aborted) return;
    if (head?.data.length) this.#append(head.begin, from, new TextDecoder().decode(head.data));
    this.#pieces = new Pieces();
    this.#append(tail.begin, tail.end, this.#decoder.decode(tail.data, { stream: true }));
    const node = /** @type {HTMLElement | undefined} */ (this.#parts.at(-1)?.nodes[0]);
    const found = markFound(this.#text, this.#search.wanted, node ?? null);
    const top = found?.getBoundingClientRect().top ?? this.#text.getBoundingClientRect().top;
    this.#text.scrollTop += top - this.#text.getBoundingClientRect().top - this.#text.clientHeight / 3;
    this.#following.abort();
    this.#showTools();
  }

  async #save() {
    const read = async (/** @type {number} */ offset) => {
      const reply = await this.app.api.ask("get_task_output", { ...this.of, stream: this.#stream, offset, limit: SAVED }, this.life);
      return { data: await reply.blob(), next: Number(reply.headers.get("Weft-Next")), size: Number(reply.headers.get("Weft-Size")) };
    };
    const said = (/** @type {number} */ done, /** @type {number} */ size) => (this.#said.textContent = `downloading ${bytes(done)} of ${bytes(size)}`);
    try {
      await saveParts(`${this.of.task}.${this.of.attempt}.${this.#stream}.txt`, read, said);
    } catch (error) {
      toast(problemText(error), true);
    }
    this.#showTools();
  }

  /** @param {KeyboardEvent} event */
  #key(event) {
    if (/** @type {HTMLElement} */ (event.target).closest("input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") this.#search.focus();
    else if (event.key === "n") this.#search.go(1);
    else if (event.key === "N") this.#search.go(-1);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

customElements.define("weft-output", OutputView);
