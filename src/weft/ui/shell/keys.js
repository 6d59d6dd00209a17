// @ts-check
/** Keys that work everywhere, and the list of all of them. */

import { h } from "../parts/dom.js";
import { showPalette } from "./palette.js";
import { go } from "./router.js";

const KEYS = [
  [["/"], "filter what is shown; in output: find"],
  [["n", "N"], "in output: the next match, the one before"],
  [["Ctrl", "K"], "go to a run or a view, or do something"],
  [["j", "k"], "next and previous line"],
  [["Enter"], "open the line"],
  [["g", "h"], "home"],
  [["g", "r"], "all runs"],
  [["g", "w"], "workflows"],
  [["g", "s"], "schedules"],
  [["g", "n"], "nodes"],
  [["1", "…", "5"], "the tabs of a run"],
  [["[", "]"], "a run as it was: one event back, one on"],
  [["{", "}"], "a twentieth of it"],
  [["p"], "play a run's history; stop"],
  [["+", "−", "0"], "zoom the graph; all of it"],
  [["o"], "open the mapped task or child run that is chosen in the graph; close it"],
  [["←", "→", "↑", "↓"], "move the graph"],
  [["Esc"], "close"],
  [["?"], "this list"],
];

export function showKeys() {
  const close = () => dialog.close();
  const dialog = /** @type {HTMLDialogElement} */ (h("dialog", { "aria-label": "Keys" },
    h("div", { class: "dialog-head" }, h("h2", {}, "Keys")),
    h("div", { class: "dialog-body", tabindex: "0", role: "region", "aria-label": "All keys" }, h("dl", { class: "keys" },
      KEYS.flatMap(([keys, does]) => [h("dt", {}, [...keys].map((key) => [h("kbd", {}, key), " "]).flat()), h("dd", {}, /** @type {string} */ (does))]))),
    h("div", { class: "dialog-foot" }, h("button", { class: "main", on: { click: close } }, "Close"))));
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.showModal();
}

/** @param {import("./main.js").App} app */
export function watchKeys(app) {
  let before = "";
  app.hear(document, "keydown", (/** @type {KeyboardEvent} */ event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") {
      event.preventDefault();
      showPalette(app);
      return;
    }
    const typing = /** @type {HTMLElement} */ (event.target).closest?.("input, textarea, select, dialog");
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    const key = before === "g" ? `g ${event.key}` : event.key;
    before = event.key;
    if (key === "?") showKeys();
    else if (key === "g h") go("#/home");
    else if (key === "g r") go("#/runs");
    else if (key === "g w") go("#/workflows");
    else if (key === "g s") go("#/schedules");
    else if (key === "g n") go("#/nodes");
    else if (key === "/") {
      const filter = /** @type {HTMLElement | null} */ (app.querySelector("[data-filter]"));
      if (!filter) return;
      event.preventDefault();
      filter.focus();
    }
  });
}
