// @ts-check
/** The last runs of a workflow side by side, the newest at the right: state by colour and shape, duration by height. */

import { address } from "../shell/router.js";
import { h } from "./dom.js";
import { ago, span } from "./format.js";
import { shape, word } from "./states.js";

const LOWEST = 8; // percent of the height

/** @param {any} run @param {number} now */
export const tookOf = (run, now) => (run.started_at === null ? 0 : (run.finished_at ?? now) - run.started_at);

/**
 * @param {any[]} runs newest first @param {number} now by the server's clock
 * @param {boolean} linked each leads to its run; else the whole is one picture
 */
export function runStrip(runs, now, linked) {
  const longest = Math.max(1, ...runs.map((run) => tookOf(run, now)));
  const counts = new Map();
  for (const run of runs) counts.set(run.state, (counts.get(run.state) ?? 0) + 1);
  const said = `last ${runs.length} runs: ${[...counts].map(([state, many]) => `${many} ${word(state)}`).join(", ")}`;
  const bars = runs.toReversed().map((run) => {
    const took = tookOf(run, now);
    const text = `${word(run.state)}, ${run.started_at === null ? "not started" : span(took)}, ${ago(run.created_at, now)}`;
    const height = `${Math.max(LOWEST, (100 * took) / longest)}%`;
    const inside = [h("span", { class: "bar-room" }, h("i", { class: `bar-of state-${run.state}`, style: { height } })), shape(run.state)];
    return linked
      ? h("li", {}, h("a", { href: address(["runs", run.id]), title: text, "aria-label": text }, inside))
      : h("span", { class: "strip-run", title: text }, inside);
  });
  return linked ? h("ul", { class: "strip large", "aria-label": said }, bars) : h("span", { class: "strip", role: "img", "aria-label": runs.length ? said : "no runs" }, bars);
}

/** Of runs that have ended: how many of a hundred succeeded, and the middle duration. @param {any[]} runs @param {number} now */
export function figuresOf(runs, now) {
  const ended = runs.filter((run) => run.finished_at !== null && run.state !== "cancelled");
  const times = ended.map((run) => tookOf(run, now)).sort((a, b) => a - b);
  return {
    ended: ended.length,
    succeeded: ended.length ? Math.round((100 * ended.filter((run) => run.state === "succeeded").length) / ended.length) : null,
    median: times.length ? times[times.length >> 1] : null,
  };
}
