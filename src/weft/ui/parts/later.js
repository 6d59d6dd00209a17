// @ts-check
/** A part whose modules are loaded when it is shown: the editor is no part of what loads before the first paint. */

import { Part, h, refill } from "./dom.js";

export class Later extends Part {
  /** @param {() => Promise<HTMLElement>} load */
  constructor(load) {
    super();
    this.load = load;
  }

  async begin() {
    refill(this, h("p", { class: "note" }, "…"));
    try {
      const part = await this.load();
      if (!this.life.aborted) refill(this, part);
    } catch {
      // A browser remembers that a module did not load, and another version of the server has others.
      if (!this.life.aborted) refill(this, h("p", { class: "note problem", role: "alert" }, "The server did not send this part of the page. ", h("button", { on: { click: () => location.reload() } }, "Load the page again")));
    }
  }
}

customElements.define("weft-later", Later);
