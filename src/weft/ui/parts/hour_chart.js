// @ts-check
/** Runs of the last hour by when they were submitted, in columns of two minutes with a part for each state. */

import { h } from "./dom.js";
import { clock } from "./format.js";
import { word } from "./states.js";

const COLUMNS = 30;
const STEP_MS = 120_000;
const ORDER = ["failed", "cancelled", "running", "pending", "succeeded"];

/** @param {any[]} runs @param {number} now */
export function hourChart(runs, now) {
  const columns = Array.from({ length: COLUMNS }, () => /** @type {Record<string, number>} */ ({}));
  const totals = /** @type {Record<string, number>} */ ({});
  for (const run of runs) {
    const column = columns[Math.max(0, COLUMNS - 1 - Math.floor((now - run.created_at) / STEP_MS))];
    column[run.state] = (column[run.state] ?? 0) + 1;
    totals[run.state] = (totals[run.state] ?? 0) + 1;
  }
  const most = Math.max(1, ...columns.map((one) => Object.values(one).reduce((sum, many) => sum + many, 0)));
  const said = Object.entries(totals).map(([state, many]) => `${many} ${word(state)}`).join(", ") || "no runs";
  return h("div", { class: "hour", role: "img", "aria-label": `Runs of the last hour: ${said}` }, columns.map((column, nth) => {
    const parts = ORDER.filter((state) => column[state]);
    const text = parts.map((state) => `${column[state]} ${word(state)}`).join(", ") || "none";
    return h("span", { title: `${clock(now - (COLUMNS - nth) * STEP_MS)}: ${text}` }, parts.map((state) => h("i", { class: `state-${state}`, style: { height: `${(100 * column[state]) / most}%` } })));
  }));
}
