// @ts-check
/** Output as text with colours: SGR sequences become classes, every other control sequence is left out. */

import { h } from "../parts/dom.js";

const SEQUENCE = /\x1b(?:\[([0-9;:]*)([ -/]*[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])/g;
const CONTROL = /[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]/g;

export class AnsiText {
  #classes = new Set();

  /** The nodes of more text; colours go on from the text before. @param {string} text @param {number} most nodes, about @returns {Node[]} */
  nodes(text, most = Infinity) {
    /** @type {Node[]} */
    const made = [];
    let shown = "";
    let at = 0;
    for (const found of text.matchAll(SEQUENCE)) {
      shown += text.slice(at, found.index);
      at = found.index + found[0].length;
      if (found[2] !== "m") continue;
      if (made.length < most) {
        this.#add(made, shown);
        shown = "";
      }
      this.#set((found[1] || "0").split(/[;:]/).map(Number));
    }
    this.#add(made, shown + text.slice(at));
    return made;
  }

  /** @param {Node[]} made @param {string} text */
  #add(made, text) {
    const shown = text.replace(/\r\n/g, "\n").replace(CONTROL, "�").replace(/\r/g, "\n");
    if (!shown) return;
    if (this.#classes.size) made.push(h("span", { class: [...this.#classes].join(" ") }, shown));
    else made.push(document.createTextNode(shown));
  }

  /** @param {number[]} codes */
  #set(codes) {
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at];
      if (code === 0) this.#classes.clear();
      else if (code === 1) this.#classes.add("a-b");
      else if (code === 2) this.#classes.add("a-d");
      else if (code === 3) this.#classes.add("a-i");
      else if (code === 4) this.#classes.add("a-u");
      else if (code === 22) ["a-b", "a-d"].forEach((name) => this.#classes.delete(name));
      else if (code === 38 || code === 48) at += codes[at + 1] === 5 ? 2 : 4;
      else if ((code >= 30 && code <= 37) || code === 39 || (code >= 90 && code <= 97)) {
        for (const name of [...this.#classes]) if (/^a-\d$/.test(name)) this.#classes.delete(name);
        if (code !== 39) this.#classes.add(`a-${code % 10}`);
      }
    }
  }
}
