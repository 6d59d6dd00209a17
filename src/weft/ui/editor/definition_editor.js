// @ts-check
/** A definition that is written here: its text, and what the server's own loader says of it while it is typed. */

import { Part, h, refill } from "../parts/dom.js";
import { problemText } from "../parts/toast.js";
import { CodeField } from "./code_field.js";

const QUIET_MS = 250; // after the last key

/** Dispatches `edit`, and `checked` when the server has looked at the text as it is. */
export class DefinitionEditor extends Part {
  #code = new CodeField();
  #said = h("div", { class: "code-said", role: "status" });
  #timer = 0;
  #turn = 0;
  /** What the server said of the text as it is; null while it has not. @type {any} */ checked = null;

  /** @param {import("../shell/main.js").App} app @param {string} text */
  constructor(app, text) {
    super();
    this.app = app;
    this.first = text;
  }

  async begin() {
    this.className = "definition-editor";
    this.replaceChildren(this.#code, this.#said);
    this.#code.value = this.first;
    this.hear(this.#code, "edit", () => {
      this.checked = null;
      this.dispatchEvent(new Event("edit"));
      clearTimeout(this.#timer);
      this.#timer = window.setTimeout(() => this.check(), QUIET_MS);
    });
    this.life.addEventListener("abort", () => clearTimeout(this.#timer));
    this.check();
    try {
      this.#code.schema = (await this.app.api.call("get_definition_schema", {}, this.life)).json_schema;
    } catch {
      // without it nothing is completed; the checks say if the server is gone
    }
  }

  get text() {
    return this.#code.value;
  }

  set text(text) {
    this.#code.value = text;
    this.check();
  }

  focus() {
    this.#code.focus();
  }

  async check() {
    const turn = ++this.#turn;
    try {
      const checked = await this.app.api.call("check_definition", { definition: this.text }, this.life);
      if (turn !== this.#turn) return;
      this.checked = checked;
      this.#code.mark(checked.errors);
      this.#show(checked);
      this.dispatchEvent(new Event("checked"));
    } catch (error) {
      if (!this.life.aborted && turn === this.#turn) refill(this.#said, h("p", { class: "state-failed name" }, problemText(error)));
    }
  }

  /** @param {any} checked */
  #show(checked) {
    if (checked.valid) {
      const tasks = `${checked.tasks} task${checked.tasks === 1 ? "" : "s"} in ${checked.levels} level${checked.levels === 1 ? "" : "s"}`;
      return refill(this.#said, h("p", {}, h("b", { class: "state-succeeded" }, "valid"), ` · ${tasks}`));
    }
    const more = checked.more ? [h("li", { class: "soft" }, `and ${checked.more} more`)] : [];
    refill(this.#said, h("ul", { class: "code-mistakes" }, checked.errors.map((/** @type {any} */ one) => h("li", {},
      one.line ? h("button", { class: "bare mono", on: { click: () => this.#code.goTo(one.line, one.column) } }, `line ${one.line}`) : null,
      h("span", { class: "name" }, h("span", { class: "state-failed" }, one.message), one.fix ? h("span", { class: "soft" }, ` ${one.fix}`) : null))), more));
  }
}

customElements.define("weft-definition-editor", DefinitionEditor);
