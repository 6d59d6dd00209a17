// @ts-check
/** A unified diff as lines; the signs at their beginnings say what the colours say. */

import { h } from "./dom.js";

const SHOWN_MAX = 5000;
const LOOKS = /** @type {Record<string, string>} */ ({ "+": "diff-new", "-": "diff-old", "@": "diff-place" });

/** @param {string[]} lines @param {string} same what to say if there are none */
export function diffLines(lines, same) {
  if (!lines.length) return h("p", { class: "soft" }, same);
  const shown = lines.slice(0, SHOWN_MAX).map((line, nth) => h("span", { class: nth < 2 ? "diff-place" : LOOKS[line[0]] ?? null }, `${line}\n`));
  return h("pre", { class: "diff", tabindex: "0", role: "region", "aria-label": "What changed" }, shown, lines.length > SHOWN_MAX && `… ${lines.length - SHOWN_MAX} more lines`);
}
