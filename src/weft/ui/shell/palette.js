// @ts-check
/** Everything by name: views, runs, and every verb that the caller's role allows. */

import { askVerb } from "../parts/verb_dialog.js";
import { h, refill } from "../parts/dom.js";
import { here, go } from "./router.js";

const SHOWN_MAX = 60;
const PLACES = [["Home", "#/home"], ["All runs", "#/runs"], ["Running", "#/runs?state=running"], ["Failed", "#/runs?state=failed"], ["Workflows", "#/workflows"], ["New workflow", "#/new"], ["Schedules", "#/schedules"], ["Dead letters", "#/dead"], ["Nodes", "#/nodes"], ["Pools", "#/pools"], ["Compare two runs", "#/compare"], ["What happens", "#/events"]];

/** @param {import("./main.js").App} app */
export function showPalette(app) {
  if (!app.api.token || document.querySelector("dialog[open]")) return;
  const { path, query } = here();
  const known = { run: path[0] === "runs" ? path[1] : undefined, task: query.get("task") ?? undefined };
  const input = /** @type {HTMLInputElement} */ (h("input", { type: "text", placeholder: "A run, a view, or what to do", "aria-label": "A run, a view, or what to do", role: "combobox", "aria-expanded": "true", "aria-controls": "palette-list" }));
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": "Found" });
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { class: "palette", "aria-label": "Go to or do" }, input, list));
  /** @type {{text: string, more: string, act: () => void}[]} */
  let shown = [];
  let chosen = 0;
  let asked = 0;

  const choose = (/** @type {number} */ at) => {
    chosen = Math.max(0, Math.min(shown.length - 1, at));
    [...list.children].forEach((line, nth) => line.setAttribute("aria-selected", String(nth === chosen)));
    list.children[chosen]?.scrollIntoView({ block: "nearest" });
  };
  const act = () => {
    dialog.close();
    shown[chosen]?.act();
  };
  const show = (/** @type {typeof shown} */ found) => {
    shown = found.slice(0, SHOWN_MAX);
    refill(list, shown.map((one, nth) => h("li", { role: "option", on: { click: () => (choose(nth), act()) } },
      h("span", { class: "name" }, one.text), h("span", { class: "soft name" }, one.more))));
    choose(0);
  };
  const look = async () => {
    const text = input.value.trim().toLowerCase();
    const turn = ++asked;
    const fixed = found(app, text, known);
    show(fixed);
    if (text.length < 2) return;
    const page = await app.api.call("list_runs", { text, limit: 10 }).catch(() => ({ runs: [] }));
    if (turn !== asked) return;
    const runs = page.runs.map((/** @type {any} */ run) => ({ text: run.name, more: `${run.id} · ${run.state}`, act: () => go(`#/runs/${run.id}`) }));
    show([...fixed.slice(0, 8), ...runs, ...fixed.slice(8)]);
  };
  input.addEventListener("input", look);
  dialog.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter") act();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  look();
}

/** @param {import("./main.js").App} app @param {string} text @param {{run?: string, task?: string}} known */
function found(app, text, known) {
  const places = PLACES.map(([name, to]) => ({ text: name, more: "go to", act: () => go(to) }));
  const verbs = [...app.api.verbs.values()]
    .filter((verb) => verb.method !== "GET" && verb.tag !== "server" && app.api.may(verb.name))
    .map((verb) => ({ text: verb.name.replaceAll("_", " "), more: verb.summary, near: verb.fields.filter((field) => field.in === "path" && /** @type {any} */ (known)[field.name]).length, act: () => askVerb(app, verb.name, known) }))
    .sort((a, b) => b.near - a.near);
  return [...places, ...verbs].filter((one) => `${one.text} ${one.more}`.toLowerCase().includes(text));
}
