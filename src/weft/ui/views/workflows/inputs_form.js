// @ts-check
/** Fields for the inputs that a workflow declares, by their types. What is wrong with values says the server. */

import { h } from "../../parts/dom.js";

/** @typedef {{type: string, required?: boolean, default?: any, enum?: any[], description?: string, format?: string}} Declared */

/** @param {Record<string, any>} declared as the document has it: a type alone, or a mapping */
export function inputsForm(declared) {
  const fields = Object.entries(declared).map(([name, one]) => field(name, typeof one === "string" ? { type: one } : one));
  return {
    element: fields.length ? h("div", { class: "form-fields" }, fields.map((one) => one.element)) : h("p", { class: "soft" }, "This workflow takes no inputs."),
    /** Those that were given; throws where one cannot be read. */
    values: () => Object.fromEntries(fields.map((one) => [one.name, one.value()]).filter(([, value]) => value !== undefined)),
  };
}

/** @param {string} name @param {Declared} declared */
function field(name, declared) {
  const needed = declared.required ?? declared.default === undefined;
  const help = [declared.format ?? declared.type, declared.description].filter(Boolean).join(" · ");
  const input = /** @type {any} */ (inputFor(declared, needed));
  const label = h("label", {}, h("span", {}, h("b", { class: "name" }, name), needed ? "" : " (optional)"), input, h("span", { class: "soft name" }, help));
  return { name, element: label, value: () => valueOf(name, declared, needed, input.value) };
}

/** @param {Declared} declared @param {boolean} needed */
function inputFor(declared, needed) {
  const choices = declared.enum ?? (declared.type === "boolean" ? [true, false] : null);
  if (choices) {
    const options = choices.map((one) => h("option", { value: JSON.stringify(one), selected: one === declared.default }, String(one)));
    const none = needed || declared.default !== undefined ? null : h("option", { value: "", selected: true }, "");
    return h("select", {}, none, options);
  }
  const given = declared.default ?? null;
  if (declared.type === "array" || declared.type === "object") {
    return h("textarea", { rows: 2, required: needed, value: given === null ? "" : JSON.stringify(given), placeholder: "JSON", spellcheck: "false" });
  }
  const number = declared.type === "integer" || declared.type === "number";
  return h("input", { type: number ? "number" : "text", step: declared.type === "integer" ? 1 : number ? "any" : null, required: needed && number, value: given ?? "", autocomplete: "off" });
}

/** @param {string} name @param {Declared} declared @param {boolean} needed @param {string} text */
function valueOf(name, declared, needed, text) {
  const canBeEmpty = declared.type === "string" && !declared.enum && (needed || declared.default !== undefined);
  if (text === "" && !canBeEmpty) return undefined;
  if (declared.enum || declared.type === "boolean") return JSON.parse(text);
  if (declared.type === "integer" || declared.type === "number") return Number(text);
  if (declared.type === "string") return text;
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${name} is not JSON: ${declared.type === "array" ? "a list is written [1, 2]" : 'a mapping is written {"key": 1}'}`);
  }
}
