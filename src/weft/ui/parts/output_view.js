// @ts-check
/** What an attempt printed: the tail first, earlier parts by ranges, more as it comes. Its memory is bounded. */

import { AnsiText } from "./ansi.js";
import { Part, h, refill } from "./dom.js";
import { bytes } from "./format.js";

const PART = 64 * 1024;
const KEPT = 512 * 1024; // bytes shown at once
const PIECE = 4096; // characters that are laid out together: one line of 300,000 took the browser 8 s
const AGAIN_MS = 1000;
const STREAMS = ["stdout", "stderr"];

/** Text as blocks of whole lines, and of no more than a browser lays out at once. */
class Pieces {
  /** The last one, while its line goes on. @type {HTMLElement | null} */ #last = null;
  #length = 0;

  /** The new blocks. @param {string} text @param {AnsiText} ansi @returns {HTMLElement[]} */
  add(text, ansi) {
    const made = [];
    for (let at = 0; at < text.length; ) {
      const room = PIECE - (this.#last ? this.#length : 0);
      const line = text.lastIndexOf("\n", at + room - 1);
      const end = line >= at ? line + 1 : Math.min(text.length, at + room);
      const ends = line >= at;
      if (this.#last === null) {
        this.#last = h("div", {});
        this.#length = 0;
        made.push(this.#last);
      }
      this.#last.append(...ansi.nodes(text.slice(at, ends ? end - 1 : end)));
      this.#length += end - at;
      if (ends || this.#length >= PIECE) this.#last = null;
      at = end;
    }
    return made;
  }
}

export class OutputView extends Part {
  #text = h("div", { class: "output-text wrapped", tabindex: "0", role: "log", "aria-label": "Output" });
  #tools = h("div", { class: "output-tools" });
  #said = h("span", { class: "soft grow" });
  #stream = "stdout";
  /** @type {{begin: number, end: number, nodes: Node[]}[]} */ #parts = [];
  #ansi = new AnsiText();
  #decoder = new TextDecoder();
  #open = new Pieces();
  #over = false;
  #size = 0;
  #turn = 0;

  /** @param {import("../shell/main.js").App} app @param {{run: string, task: string, attempt: number}} of */
  constructor(app, of) {
    super();
    this.app = app;
    this.of = of;
  }

  begin() {
    refill(this, this.#tools, this.#text);
    this.every(AGAIN_MS, () => !document.hidden && !this.#over && this.#more());
    this.#choose("stdout");
  }

  /** @param {string} stream */
  async #choose(stream) {
    this.#stream = stream;
    const turn = ++this.#turn;
    this.#over = false;
    this.#parts = [];
    this.#ansi = new AnsiText();
    this.#decoder = new TextDecoder();
    this.#open = new Pieces();
    this.#text.replaceChildren();
    this.#showTools();
    await this.#add(-PART, turn);
    if (turn === this.#turn && stream === "stdout" && this.#over && this.#size === 0) {
      const other = await this.#ask("stderr", -1, 1);
      if (other && turn === this.#turn && Number(other.headers.get("Weft-Size")) > 0) this.#choose("stderr");
    }
  }

  #showTools() {
    refill(this.#tools,
      STREAMS.map((one) => h("button", { "aria-pressed": String(one === this.#stream), on: { click: () => this.#choose(one) } }, one)), this.#said,
      (this.#parts[0]?.begin ?? 0) > 0 && h("button", { on: { click: () => this.#earlier() } }, "Earlier"),
      this.#parts.length > 0 && this.#parts[this.#parts.length - 1].end < this.#size && h("button", { on: { click: () => this.#choose(this.#stream) } }, "To the end"),
      h("button", { "aria-pressed": String(this.#text.classList.contains("wrapped")), on: { click: () => (this.#text.classList.toggle("wrapped"), this.#showTools()) } }, "Wrap"));
    const shown = this.#parts.reduce((sum, one) => sum + one.end - one.begin, 0);
    this.#said.textContent = this.#size ? `${bytes(shown)} of ${bytes(this.#size)}` : this.#over ? "nothing printed" : "nothing yet";
  }

  /** @param {string} stream @param {number} offset @param {number} limit */
  async #ask(stream, offset, limit) {
    try {
      return await this.app.api.ask("get_task_output", { ...this.of, stream, offset, limit }, this.life);
    } catch {
      return null; // the bar says if the server is not heard; the next look goes on from here
    }
  }

  /** @param {number} offset @param {number} turn */
  async #add(offset, turn) {
    const reply = await this.#ask(this.#stream, offset, PART);
    if (reply === null) return;
    const data = new Uint8Array(await reply.arrayBuffer());
    if (turn !== this.#turn) return;
    const begin = Number(reply.headers.get("Weft-Offset"));
    const end = Number(reply.headers.get("Weft-Next"));
    this.#size = Number(reply.headers.get("Weft-Size"));
    this.#over = reply.headers.get("Weft-Ended") === "true" && end >= this.#size;
    if (data.length) {
      const atEnd = this.#text.scrollTop + this.#text.clientHeight >= this.#text.scrollHeight - 8;
      const text = this.#decoder.decode(data, { stream: !this.#over });
      this.#parts.push({ begin, end, nodes: this.#open.add(text, this.#ansi) });
      this.#text.append(...this.#parts[this.#parts.length - 1].nodes);
      while (this.#parts.reduce((sum, one) => sum + one.end - one.begin, 0) > KEPT) this.#drop(this.#parts.shift());
      if (atEnd) this.#text.scrollTop = this.#text.scrollHeight;
    }
    this.#showTools();
  }

  /** @param {{nodes: Node[]} | undefined} part */
  #drop(part) {
    for (const node of part?.nodes ?? []) node.parentNode?.removeChild(node);
  }

  #more() {
    const last = this.#parts[this.#parts.length - 1];
    return this.#add(last ? last.end : 0, this.#turn);
  }

  async #earlier() {
    const first = this.#parts[0];
    const offset = Math.max(0, first.begin - PART);
    const turn = this.#turn;
    const reply = await this.#ask(this.#stream, offset, first.begin - offset);
    if (reply === null) return;
    const data = new Uint8Array(await reply.arrayBuffer());
    if (turn !== this.#turn) return;
    const nodes = new Pieces().add(new TextDecoder().decode(data), new AnsiText());
    const high = this.#text.scrollHeight;
    this.#text.prepend(...nodes);
    this.#parts.unshift({ begin: Number(reply.headers.get("Weft-Offset")), end: first.begin, nodes });
    this.#text.scrollTop += this.#text.scrollHeight - high;
    while (this.#parts.reduce((sum, one) => sum + one.end - one.begin, 0) > KEPT) {
      this.#drop(this.#parts.pop());
      this.#over = true; // no longer at the end: nothing is added until it is asked for
    }
    this.#showTools();
  }
}

customElements.define("weft-output", OutputView);
