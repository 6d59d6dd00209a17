// @ts-check
/** Goes on with a corrected definition of a run: first what would run again, then the new generation. */

import { DefinitionEditor } from "./definition_editor.js";
import { Part, h, refill } from "../parts/dom.js";
import { count } from "../parts/format.js";
import { badge } from "../parts/states.js";
import { problemText } from "../parts/toast.js";
import { address, go } from "../shell/router.js";

const SHOWN = 100;

export class CorrectView extends Part {
  /** @type {DefinitionEditor} */ #editor = /** @type {any} */ (null);
  #result = h("div", { "aria-live": "polite" });
  #look = /** @type {HTMLButtonElement} */ (h("button", { class: "main", disabled: true, on: { click: () => this.#ask(true) } }, "What would run again?"));

  /** @param {import("../shell/main.js").App} app @param {string} run */
  constructor(app, run) {
    super();
    this.app = app;
    this.run = run;
  }

  async begin() {
    this.className = "edit";
    try {
      const { run } = await this.app.api.call("get_run", { run: this.run, tasks: 0 }, this.life);
      const { text } = await this.app.api.call("export_document", { hash: run.workflow }, this.life);
      document.title = `${run.name} corrected · Weft`;
      this.#editor = new DefinitionEditor(this.app, text);
      this.hear(this.#editor, "edit", () => {
        refill(this.#result);
        this.#look.disabled = true;
      });
      this.hear(this.#editor, "checked", () => (this.#look.disabled = !this.#editor.checked.valid));
      this.replaceChildren(this.#editor, h("section", { class: "edit-panel", "aria-label": "What would run again" },
        h("h1", { class: "name" }, `Resume ${run.name} with changes`),
        h("p", {}, badge(run.state), " ", h("a", { class: "mono", href: address(["runs", run.id]) }, run.id)),
        h("p", { class: "soft" }, "Tasks map by name. Those that succeeded and do the same keep their results; changed ones, what did not succeed, and what follows run again."),
        h("div", { class: "edit-tools" }, this.#look), this.#result));
    } catch (error) {
      if (!this.life.aborted) refill(this, h("p", { class: "note problem" }, problemText(error)));
    }
  }

  /** @param {boolean} preview */
  async #ask(preview) {
    try {
      const found = await this.app.api.call("correct_run", { run: this.run, definition: this.#editor.text, preview });
      if (!preview) return go(address(["runs", this.run]));
      const mark = (/** @type {string} */ name) => (found.new.includes(name) ? "new" : found.changed.includes(name) ? "changed" : "");
      refill(this.#result, h("h2", {}, `${count(found.again.length)} run again, ${count(found.kept)} keep their results`),
        h("ul", { class: "lines" }, found.again.slice(0, SHOWN).map((/** @type {string} */ name) => h("li", {}, h("span", { class: "grow name" }, name), h("b", {}, mark(name)))),
          found.again.length > SHOWN && h("li", { class: "soft" }, `and ${count(found.again.length - SHOWN)} more`)),
        h("div", { class: "edit-tools" }, h("button", { class: "main", on: { click: () => this.#ask(false) } }, "Go on with it")));
    } catch (error) {
      refill(this.#result, h("p", { class: "state-failed name", role: "alert" }, problemText(error)));
    }
  }
}

customElements.define("weft-correct", CorrectView);
