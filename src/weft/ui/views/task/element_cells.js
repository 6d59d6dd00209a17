// @ts-check
/** The elements of a mapped task in its panel: a cell each, by state and by pages, live or as they were. */

import { Part, h, refill } from "../../parts/dom.js";
import { count } from "../../parts/format.js";
import { keepFocus } from "../../parts/keep_focus.js";
import { STATES, badge, shape, word } from "../../parts/states.js";
import { address, changed } from "../../shell/router.js";

const SHOWN = 200;

export class ElementCells extends Part {
  /** @type {string[]} by index */ #states = [];
  #only = "";
  #from = 0;

  /** @param {import("../../data/run_model.js").RunModel} model @param {string} task */
  constructor(model, task) {
    super();
    this.model = model;
    this.task = task;
  }

  async read() {
    const event = this.model.past?.event.seq;
    const { states, letters } = await this.model.api.call("get_element_states", { run: this.model.id, task: this.task, event }, this.model.life);
    this.#states = [...states].map((letter) => letters[letter]);
    keepFocus(this, () => this.#show());
  }

  /** @param {string} only a state @param {number} from */
  #turn(only, from) {
    this.#only = only;
    this.#from = from;
    keepFocus(this, () => this.#show());
  }

  #show() {
    const all = this.#states;
    const found = [...all.keys()].filter((idx) => !this.#only || all[idx] === this.#only);
    if (this.#from >= found.length) this.#from = 0;
    const end = Math.min(found.length, this.#from + SHOWN);
    const chip = (/** @type {string} */ state) => h("button", { "aria-pressed": String(state === this.#only), on: { click: () => this.#turn(state === this.#only ? "" : state, 0) } }, badge(state), count(all.filter((one) => one === state).length));
    const page = (/** @type {string} */ label, /** @type {number} */ from, /** @type {boolean} */ there) => h("button", { disabled: !there, on: { click: () => this.#turn(this.#only, from) } }, label);
    refill(this, h("h3", {}, `Elements: ${count(all.length)}`),
      h("div", { class: "output-tools", "data-key": "states" }, [...STATES].reverse().filter((state) => all.includes(state)).map(chip)),
      h("div", { class: "cells", "data-key": "cells" }, found.slice(this.#from, end).map((idx) => {
        const name = `${this.task}.${idx}`;
        return h("a", { href: changed({ task: name }), title: `${name} ${word(all[idx])}`, "aria-label": `${name} ${word(all[idx])}` }, shape(all[idx]));
      })),
      found.length > SHOWN && h("div", { class: "output-tools", "data-key": "pages" }, page("Back", this.#from - SHOWN, this.#from > 0), page("On", end, end < found.length),
        h("span", { class: "soft" }, `${count(this.#from + 1)}–${count(end)} of ${count(found.length)}; `, h("a", { href: address(["runs", this.model.id, "graph"], { task: this.task, open: this.task }) }, "all in the graph"))));
  }
}

customElements.define("weft-elements", ElementCells);
