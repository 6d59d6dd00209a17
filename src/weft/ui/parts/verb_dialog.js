// @ts-check
/** A form for any verb, made from the table of operations. */

import { h } from "./dom.js";
import { problemText, toast } from "./toast.js";

/**
 * Resolves to the reply, or to null if nothing was done.
 * @param {import("../shell/main.js").App} app
 * @param {string} name of the operation
 * @param {Record<string, any>} known values of fields
 * @param {{title?: string, fields?: string[]}} [look] `fields`: those that are asked for
 * @returns {Promise<any>}
 */
export function askVerb(app, name, known, look = {}) {
  const verb = app.api.verbs.get(name);
  if (verb === undefined) throw new Error(`there is no operation ${name}`);
  const asked = verb.fields.filter((field) => field.in !== "header" && (look.fields ? look.fields.includes(field.name) : true) && !(look.fields === undefined && field.in === "path" && known[field.name]));
  const inputs = new Map(asked.map((field) => [field, inputFor(field, known[field.name])]));
  const said = h("p", { class: "state-failed", role: "alert" });
  return new Promise((resolve) => {
    /** @type {any} */ let reply = null;
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      try {
        const given = [...inputs].map(([field, input]) => [field.name, valueOf(field, input)]);
        reply = await app.api.call(name, { ...known, ...Object.fromEntries(given) });
        toast(`${verb.summary}: done`);
        dialog.close();
      } catch (error) {
        said.textContent = problemText(error);
      }
    };
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": look.title ?? verb.summary },
      h("form", { on: { submit } },
        h("div", { class: "dialog-head" }, h("h2", {}, look.title ?? verb.name.replaceAll("_", " ")), h("p", { class: "soft" }, verb.summary)),
        h("div", { class: "dialog-body" }, [...inputs].map(([field, input]) => labelled(field, input)), said),
        h("div", { class: "dialog-foot" },
          h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"),
          h("button", { class: "main" }, "Do it")))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(reply);
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** @param {import("../data/api.js").Field} field @param {HTMLElement} input */
function labelled(field, input) {
  const help = field.help && h("span", { class: "soft" }, field.help);
  const title = field.name.replaceAll("_", " ");
  if (field.kind === "boolean") return h("label", { class: "flag" }, input, title, help);
  return h("label", {}, title + (field.required ? "" : " (optional)"), input, help);
}

/** @param {import("../data/api.js").Field} field @param {any} value */
function inputFor(field, value) {
  const given = value ?? field.default;
  if (field.kind === "boolean") return h("input", { type: "checkbox", checked: given === true });
  if (field.choices) return h("select", {}, field.choices.map((one) => h("option", { value: one, selected: one === given }, one)));
  if (field.kind === "integer" || field.kind === "number") return h("input", { type: "number", required: field.required, value: given ?? "", step: field.kind === "integer" ? 1 : "any" });
  if (field.kind === "string") return h("input", { type: "text", required: field.required, value: given ?? "", autocomplete: "off" });
  const text = given === null || given === undefined ? "" : field.kind === "array" ? [].concat(given).join(", ") : JSON.stringify(given, null, 1);
  return h("textarea", { rows: 3, required: field.required, value: text, placeholder: field.kind === "array" ? "one, two, three" : "JSON" });
}

/** @param {import("../data/api.js").Field} field @param {any} input */
function valueOf(field, input) {
  if (field.kind === "boolean") return input.checked;
  const text = input.value.trim();
  if (text === "") return undefined;
  if (field.kind === "integer" || field.kind === "number") return Number(text);
  if (field.kind === "string") return text;
  if (field.kind === "array") return text.split(",").map((/** @type {string} */ one) => one.trim()).filter(Boolean);
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${field.name} is not JSON: a text stands in double quotes`);
  }
}
