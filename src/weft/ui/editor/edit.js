// @ts-check
/** Writes a workflow: checks while typing, a dry run, what applying would change, apply, and a run of what is written. */

import { DefinitionEditor } from "./definition_editor.js";
import { planView } from "./plan_view.js";
import { diffLines } from "../parts/diff_lines.js";
import { Part, h, refill } from "../parts/dom.js";
import { problemText, toast } from "../parts/toast.js";
import { address, go } from "../shell/router.js";
import { inputsForm } from "../views/workflows/inputs_form.js";

const FIRST = `name: new-workflow
inputs:
  day: {type: string, default: "2026-01-01"}
tasks:
  extract: echo \${{ inputs.day }}
  load:
    needs: [extract]
    run: echo loaded
`;

export class EditView extends Part {
  /** @type {DefinitionEditor} */ #editor = /** @type {any} */ (null);
  #panel = h("section", { class: "edit-panel", "aria-label": "Dry run and changes" });
  #inputs = h("div", {});
  #result = h("div", { "aria-live": "polite" });
  /** @type {ReturnType<typeof inputsForm> | null} */ #form = null;
  #shownInputs = "";
  /** @type {HTMLButtonElement[]} */ #needValid = [];

  /** @param {import("../shell/main.js").App} app @param {any} version to begin with; null: a new workflow @param {Record<string, string | null>} sources where tasks start, by workflow */
  constructor(app, version, sources) {
    super();
    this.app = app;
    this.version = version;
    this.sources = sources;
  }

  get #draft() {
    return `weft-draft ${this.version?.name ?? ""}`;
  }

  async begin() {
    this.className = "edit";
    let text = FIRST;
    try {
      if (this.version) text = (await this.app.api.call("export_document", { hash: this.version.hash }, this.life)).text;
    } catch (error) {
      if (!this.life.aborted) refill(this, h("p", { class: "note problem" }, problemText(error)));
      return;
    }
    const draft = sessionStorage.getItem(this.#draft);
    this.#editor = new DefinitionEditor(this.app, draft ?? text);
    this.hear(this.#editor, "edit", () => {
      sessionStorage.setItem(this.#draft, this.#editor.text);
      refill(this.#result); // it was about another text
      this.#allow();
    });
    this.hear(this.#editor, "checked", () => this.#checked());
    const { api } = this.app;
    const button = (/** @type {string} */ label, /** @type {string} */ verb, /** @type {() => Promise<void>} */ act, main = false) => {
      if (!api.may(verb)) return null;
      const made = /** @type {HTMLButtonElement} */ (h("button", { class: main ? "main" : null, disabled: true, on: { click: () => this.#attempt(act) } }, label));
      this.#needValid.push(made);
      return made;
    };
    const discard = () => {
      sessionStorage.removeItem(this.#draft);
      this.#editor.text = text;
      refill(this.#result);
    };
    refill(this.#panel, !this.version && h("h1", {}, "New workflow"), h("div", { class: "edit-tools" },
      button("Dry run", "plan_run", () => this.#plan()), button("Start a run", "submit_run", () => this.#start()), button("Apply…", "apply_workflow", () => this.#apply(), true),
      h("button", { class: "bare", on: { click: discard } }, "Begin again")),
    draft !== null && h("p", { class: "soft" }, "This is what you wrote before in this tab."),
    this.version && draft === null && h("p", { class: "soft" }, "The definition as it is stored: comments of its file are not kept."),
    this.#inputs, this.#result);
    this.replaceChildren(...(this.version === null ? [h("h1", { class: "sr" }, "New workflow")] : []), this.#editor, this.#panel);
  }

  #allow() {
    for (const one of this.#needValid) one.disabled = !this.#editor.checked?.valid;
  }

  #checked() {
    this.#allow();
    const { checked } = this.#editor;
    if (!checked.valid) return;
    const shown = JSON.stringify(checked.inputs);
    if (shown === this.#shownInputs) return;
    this.#shownInputs = shown;
    this.#form = inputsForm(checked.inputs);
    refill(this.#inputs, Object.keys(checked.inputs).length > 0 && h("details", { open: true, class: "form" }, h("summary", {}, "Inputs of a run"), this.#form.element));
  }

  /** @param {() => Promise<void>} act */
  async #attempt(act) {
    for (const one of this.#needValid) one.disabled = true;
    try {
      await act();
    } catch (error) {
      refill(this.#result, h("p", { class: "state-failed name", role: "alert" }, problemText(error)));
    } finally {
      this.#allow();
    }
  }

  async #plan() {
    const plan = await this.app.api.call("plan_run", { definition: this.#editor.text, inputs: this.#form?.values() ?? {} }, this.life);
    refill(this.#result, h("h2", {}, "Dry run"), planView(plan));
  }

  async #start() {
    const name = this.#editor.checked.name;
    const started = await this.app.api.call("submit_run", { definition: this.#editor.text, inputs: this.#form?.values() ?? {}, source: this.sources[name] ?? null });
    for (const warning of started.warnings) toast(warning, true);
    go(address(["runs", started.run]));
  }

  async #apply() {
    const name = this.#editor.checked.name;
    const fields = { name, definition: this.#editor.text, source: this.sources[name] ?? null };
    const found = await this.app.api.call("apply_workflow", { ...fields, preview: true }, this.life);
    const triggers = ["added", "changed", "removed"].filter((how) => found[how].length).map((how) => h("li", {}, `triggers ${how}: ${found[how].join(", ")}`));
    const confirm = async () => {
      const done = await this.app.api.call("apply_workflow", fields);
      sessionStorage.removeItem(this.#draft);
      toast(`${done.workflow} ${done.hash.slice(0, 12)} is the current version`);
      this.dispatchEvent(new CustomEvent("applied", { detail: done }));
      go(address(["workflows", name, "versions"]));
    };
    const other = this.version && this.version.name !== name ? `The name has changed: this makes ${name}, and leaves ${this.version.name} as it is.` : null;
    refill(this.#result, h("h2", {}, found.existing ? `${name} is like this already` : `What changes in ${name}`), other && h("p", {}, other),
      triggers.length > 0 && h("ul", { class: "why" }, triggers), diffLines(found.lines, "Nothing in the definition."),
      h("div", { class: "edit-tools" }, h("button", { class: "main", on: { click: () => this.#attempt(confirm) } }, "Apply it"), h("button", { on: { click: () => refill(this.#result) } }, "Leave it")));
  }
}

customElements.define("weft-edit", EditView);
