// @ts-check
/** Runs over time: columns by when they were submitted, with a part for each state; each leads to its runs. */

import { changed } from "../shell/router.js";
import { h } from "./dom.js";
import { count, moment } from "./format.js";
import { word } from "./states.js";

const ORDER = ["failed", "cancelled", "running", "pending", "succeeded"];
/** Name, how long in ms, how many columns. @type {[string, number, number][]} */
export const SPANS = [["1 h", 3_600_000, 60], ["24 h", 86_400_000, 48], ["7 d", 7 * 86_400_000, 56], ["30 d", 30 * 86_400_000, 60]];

/** @param {{bucket_ms: number, buckets: {at: number, states: Record<string, number>}[]}} counted @param {number} since @param {number} until */
export function runChart(counted, since, until) {
  const bucket = counted.bucket_ms;
  const known = new Map(counted.buckets.map((one) => [one.at, one.states]));
  const all = (/** @type {Record<string, number>} */ states) => Object.values(states).reduce((sum, many) => sum + many, 0);
  const most = Math.max(1, ...counted.buckets.map((one) => all(one.states)));
  const columns = [];
  for (let at = Math.floor(since / bucket) * bucket; at < until; at += bucket) {
    const states = known.get(at) ?? {};
    const said = ORDER.filter((state) => states[state]).map((state) => `${count(states[state])} ${word(state)}`).join(", ");
    const parts = ORDER.filter((state) => states[state]).map((state) => h("i", { class: `state-${state}`, style: { height: `${(100 * states[state]) / most}%` } }));
    const place = changed({ since: String(at), until: String(at + bucket), cursor: null });
    columns.push(said ? h("a", { href: place, title: `${moment(at)}: ${said}`, "aria-label": `${moment(at)}: ${said}` }, parts) : h("span", { title: `${moment(at)}: none` }));
  }
  return h("div", { class: "hour run-chart", role: "group", "aria-label": "Runs by when they were submitted" }, columns);
}
