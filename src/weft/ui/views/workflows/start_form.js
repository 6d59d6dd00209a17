// @ts-check
/** Starts a run of a version of a workflow: its inputs as a form, and what a run can be given besides. */

import { Part, h, refill } from "../../parts/dom.js";
import { problemText, toast } from "../../parts/toast.js";
import { address, go } from "../../shell/router.js";
import { inputsForm } from "./inputs_form.js";

export class StartForm extends Part {
  /** @param {import("../../shell/main.js").App} app @param {any} version with its document @param {string | null} source where its tasks start */
  constructor(app, version, source) {
    super();
    this.app = app;
    this.version = version;
    this.source = source;
  }

  begin() {
    if (!this.app.api.may("submit_run")) return refill(this, h("p", { class: "note" }, "This token may look, and start nothing."));
    const inputs = inputsForm(this.version.document.inputs ?? {});
    const labels = /** @type {HTMLInputElement} */ (h("input", { type: "text", placeholder: "team=data reason=backfill", autocomplete: "off" }));
    const priority = /** @type {HTMLInputElement} */ (h("input", { type: "number", min: 0, step: 1, value: 0 }));
    const fresh = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
    const said = h("p", { class: "state-failed name", role: "alert" });
    const button = /** @type {HTMLButtonElement} */ (h("button", { class: "main" }, "Start a run"));
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      said.textContent = "";
      button.disabled = true;
      try {
        const started = await this.app.api.call("submit_run", {
          workflow: this.version.name, version: this.version.hash, inputs: inputs.values(), labels: pairs(labels.value),
          priority: Number(priority.value), fresh: fresh.checked, source: this.source,
        });
        for (const warning of started.warnings) toast(warning, true);
        go(address(["runs", started.run]));
      } catch (error) {
        said.textContent = problemText(error);
      } finally {
        button.disabled = false;
      }
    };
    refill(this, h("form", { class: "form", on: { submit } },
      h("h2", {}, "Inputs"), inputs.element,
      h("details", {}, h("summary", {}, "More"), h("div", { class: "form-fields" },
        h("label", {}, "Labels", labels, h("span", { class: "soft" }, "name=value, separated by spaces")),
        h("label", {}, "Priority", priority, h("span", { class: "soft" }, "higher goes first")),
        h("label", { class: "flag" }, fresh, "Run tasks with a cached result all the same"))),
      said, h("div", {}, button)));
  }
}

/** @param {string} text */
function pairs(text) {
  return Object.fromEntries(text.split(/\s+/).filter(Boolean).map((one) => {
    const at = one.indexOf("=");
    if (at < 1) throw new Error(`a label is written name=value, not ${one}`);
    return [one.slice(0, at), one.slice(at + 1)];
  }));
}

customElements.define("weft-start", StartForm);
