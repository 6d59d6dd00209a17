// @ts-check
/** Runs of the last hour by when they were submitted, in columns of two minutes: how many in each state, and how long they took. */

import { h } from "./dom.js";
import { clock, span } from "./format.js";
import { word } from "./states.js";

const COLUMNS = 30;
const STEP_MS = 120_000;
const ORDER = ["failed", "cancelled", "running", "pending", "succeeded"];

/** The column of a moment. @param {number} at @param {number} now */
const columnOf = (at, now) => Math.max(0, COLUMNS - 1 - Math.floor((now - at) / STEP_MS));

/** @param {any[]} runs @param {number} now */
export function hourChart(runs, now) {
  const columns = Array.from({ length: COLUMNS }, () => /** @type {Record<string, number>} */ ({}));
  const totals = /** @type {Record<string, number>} */ ({});
  for (const run of runs) {
    const column = columns[columnOf(run.created_at, now)];
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

/** @param {number[]} values @param {number} share */
const quantile = (values, share) => values.toSorted((a, b) => a - b)[Math.min(values.length - 1, Math.floor(values.length * share))];

/** How long runs waited and took: in words, and the median of each column as a bar. @param {any[]} runs @param {number} now */
export function latencies(runs, now) {
  const ended = runs.filter((run) => run.finished_at && run.started_at);
  if (!ended.length) return null;
  const columns = Array.from({ length: COLUMNS }, () => /** @type {number[]} */ ([]));
  for (const run of ended) columns[columnOf(run.created_at, now)].push(run.finished_at - run.started_at);
  const took = columns.flat();
  const medians = columns.map((one) => (one.length ? quantile(one, 0.5) : 0));
  const said = `took ${span(quantile(took, 0.5))} (median), 19 of 20 within ${span(quantile(took, 0.95))}; waited ${span(quantile(ended.map((run) => run.started_at - run.created_at), 0.5))} to start`;
  return h("div", {}, h("div", { class: "hour took", role: "img", "aria-label": `How long runs took: ${said}` }, medians.map((ms, nth) =>
    h("span", { title: `${clock(now - (COLUMNS - nth) * STEP_MS)}: ${ms ? span(ms) : "none"}` }, ms > 0 && h("i", { class: "state-queued", style: { height: `${Math.max(4, (100 * ms) / Math.max(...medians))}%` } })))),
  h("p", { class: "soft" }, said));
}
