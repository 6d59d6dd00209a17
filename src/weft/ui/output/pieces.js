// @ts-check
/** Text as blocks of whole lines, and of no more than a browser lays out at once. */

import { AnsiText } from "./ansi.js";
import { h } from "../parts/dom.js";

const PIECE = 4096; // characters that are laid out together: one line of 300,000 took the browser 8 s
const SPANS = 2 * 200; // parts of one colour in a piece; what follows has the last colour

export class Pieces {
  /** The last one, while its line goes on. @type {HTMLElement | null} */ #last = null;
  #length = 0;
  #ansi = new AnsiText();

  /** The new blocks. @param {string} text @param {string} [at] when it came, where that is known @returns {HTMLElement[]} */
  add(text, at) {
    const made = [];
    for (let from = 0; from < text.length; ) {
      const room = PIECE - (this.#last ? this.#length : 0);
      const line = text.lastIndexOf("\n", from + room - 1);
      const ends = line >= from;
      const end = ends ? line + 1 : Math.min(text.length, from + room);
      if (this.#last === null) {
        this.#last = h("div", { "data-at": at ?? null });
        this.#length = 0;
        made.push(this.#last);
      }
      this.#last.append(...this.#ansi.nodes(text.slice(from, ends ? end - 1 : end), SPANS - this.#last.childNodes.length));
      this.#length += end - from;
      if (ends || this.#length >= PIECE) this.#last = null;
      from = end;
    }
    return made;
  }
}
