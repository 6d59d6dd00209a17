// @ts-check
/** Forms that need the definition of a run: run again with other inputs or from a task, and answer a wait. */

import { h, refill } from "../../parts/dom.js";
import { count } from "../../parts/format.js";
import { problemText, toast } from "../../parts/toast.js";
import { address, go } from "../../shell/router.js";
import { inputsForm } from "../workflows/inputs_form.js";

/** @typedef {import("../../shell/main.js").App} App */

/** @param {string} title @param {(Node | false | null)[]} body @param {[string, () => Promise<void>, boolean][]} acts label, what, main @returns {Promise<void>} */
function ask(title, body, acts) {
  return new Promise((resolve) => {
    const said = h("p", { class: "state-failed name", role: "alert" });
    const button = (/** @type {[string, () => Promise<void>, boolean]} */ [label, act, main]) => h("button", { type: "button", class: main ? "main" : null, on: { click: () => act().then(() => dialog.close(), (error) => (said.textContent = problemText(error))) } }, label);
    const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": title }, h("div", { class: "dialog-head" }, h("h2", { class: "name" }, title)), h("div", { class: "dialog-body" }, body, said),
      h("div", { class: "dialog-foot" }, h("button", { type: "button", on: { click: () => dialog.close() } }, "Leave it"), acts.map(button))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve();
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

/** A new run like this one. @param {App} app @param {any} run @param {string | null} task from which it begins; null: all of it */
export async function askRerun(app, run, task) {
  const { document: definition } = await app.api.call("get_document", { hash: run.workflow });
  const declared = Object.fromEntries(Object.entries(definition.inputs ?? {}).map(([name, one]) => [name, { ...(typeof one === "string" ? { type: one } : one), ...(name in run.inputs ? { default: run.inputs[name] } : {}) }]));
  const form = inputsForm(declared);
  const fresh = /** @type {HTMLInputElement} */ (h("input", { type: "checkbox" }));
  const plan = h("div", {}, task && h("p", { class: "soft" }, "…"));
  if (task) {
    app.api.call("preview_rerun", { run: run.id, from_tasks: [task] }).then(
      (found) => refill(plan, h("p", {}, `${count(found.again.length)} run: `, h("span", { class: "name" }, found.again.slice(0, 20).join(", "))), h("p", { class: "soft" }, `${count(found.taken_over.length)} are taken over with their results`)),
      (error) => refill(plan, h("p", { class: "state-failed name" }, problemText(error))));
  }
  const start = async () => {
    const reply = await app.api.call("rerun_run", { run: run.id, inputs: form.values(), fresh: fresh.checked, from_tasks: task ? [task] : [] });
    go(address(["runs", reply.run]));
  };
  await ask(task ? `Run again from ${task}` : `Run ${run.name} again`, [plan, form.element, h("label", { class: "flag" }, fresh, "Run tasks with a cached result all the same")], [["Start a run", start, true]]);
}

/** Answers a wait: fields from the data that it would have by default. @param {App} app @param {any} task */
export async function askSignal(app, task) {
  const { run } = await app.api.call("get_run", { run: task.run_id, tasks: 0 });
  const { document: definition } = await app.api.call("get_document", { hash: run.workflow });
  const whole = task.idx >= 0 ? task.name.slice(0, task.name.lastIndexOf(".")) : task.name;
  const wait = definition.tasks?.[whole]?.wait ?? {};
  const shape = wait.default && typeof wait.default === "object" && !Array.isArray(wait.default) ? wait.default : null;
  const form = shape && inputsForm(Object.fromEntries(Object.entries(shape).map(([name, value]) => [name, { type: kindOf(value), default: value }])));
  const data = /** @type {HTMLTextAreaElement} */ (h("textarea", { rows: 3, placeholder: "JSON; empty: no data", value: wait.default === undefined || shape ? "" : JSON.stringify(wait.default), "aria-label": "Data" }));
  const reason = /** @type {HTMLInputElement} */ (h("input", { type: "text", autocomplete: "off", maxlength: 1000 }));
  const send = (/** @type {Record<string, any>} */ fields) => app.api.call("signal_run", { run: task.run_id, name: wait.signal ?? task.name, ...fields }).then(() => toast(`${wait.signal ?? task.name}: answered`));
  const answer = async () => {
    const value = form ? form.values() : data.value.trim() ? parsed(data.value) : undefined;
    await send(value === undefined ? {} : { data: value });
  };
  const reject = async () => {
    if (!reason.value.trim()) throw new Error("say why it is rejected");
    await send({ reject: reason.value.trim() });
  };
  const description = definition.tasks?.[whole]?.description;
  await ask(`Answer ${wait.signal ?? task.name}`, [description && h("p", { class: "name" }, description), form ? form.element : h("label", {}, "Data (optional)", data), h("label", {}, "Or reject it: why?", reason)],
    [["Reject", reject, false], ["Answer", answer, true]]);
}

/** @param {string} text */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error('the data is not JSON: a text stands in double quotes, a mapping is written {"key": 1}');
  }
}

/** @param {any} value */
function kindOf(value) {
  if (Array.isArray(value)) return "array";
  if (typeof value === "number") return Number.isInteger(value) ? "integer" : "number";
  return typeof value === "boolean" || typeof value === "string" ? typeof value : "object";
}
