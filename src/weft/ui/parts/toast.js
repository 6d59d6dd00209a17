// @ts-check
/** Short messages in the corner. */

import { h } from "./dom.js";

const SHOWN_MS = 6000;
const place = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

/** @param {string} text @param {boolean} [problem] */
export function toast(text, problem = false) {
  if (!place.isConnected) document.body.append(place);
  const made = h("div", { class: problem ? "toast problem" : "toast" }, text);
  place.append(made);
  setTimeout(() => made.remove(), problem ? SHOWN_MS * 2 : SHOWN_MS);
}

/** @param {any} error */
export function problemText(error) {
  return error?.fix ? `${error.message}: ${error.fix}` : String(error?.message ?? error);
}
