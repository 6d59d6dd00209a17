// @ts-check
/** The states of runs and tasks: each has a colour, a shape and a word. */

import { h, icon } from "./dom.js";

/** In the order of urgency: where many tasks share a place, the last of these is shown. */
export const STATES = /** @type {const} */ ([
  "skipped", "pending", "succeeded", "cancelled", "scheduled", "queued", "waiting", "running", "failed", "dead_letter",
]);
export const PLACE = Object.fromEntries(STATES.map((state, place) => [state, place]));
export const ENDED = new Set(["succeeded", "failed", "cancelled", "skipped", "dead_letter"]);
export const RUN_STATES = ["pending", "running", "succeeded", "failed", "cancelled"];

/** Paths in a box of 16 × 16, also drawn on canvas. */
export const SHAPES = {
  pending: "M8 2.5a5.5 5.5 0 1 0 .01 0",
  queued: "M3 4.5h10M3 8h10M3 11.5h6",
  scheduled: "M8 2.5a5.5 5.5 0 1 0 .01 0M8 5v3.2l2.2 1.6",
  waiting: "M5.5 3.5v9M10.5 3.5v9",
  running: "M5 3l8 5-8 5z",
  succeeded: "M3 8.5l3.5 3.5L13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  dead_letter: "M2.5 2.5h11v11h-11zM5.5 5.5l5 5M10.5 5.5l-5 5",
  cancelled: "M8 2.5a5.5 5.5 0 1 0 .01 0M4.2 4.2l7.6 7.6",
  skipped: "M3 4l5 4-5 4M9 4l5 4-5 4",
  paused: "M5.5 3.5v9M10.5 3.5v9",
};

/** @param {string} state */
export const word = (state) => state.replace("_", " ");

/** @param {string} state */
export function shape(state) {
  const made = icon(/** @type {any} */ (SHAPES)[state] ?? SHAPES.pending);
  made.classList.add("shape", `state-${state}`);
  return made;
}

/** @param {string} state @param {string} [text] */
export function badge(state, text) {
  return h("span", { class: `state state-${state}` }, shape(state), text ?? word(state));
}

/** How many runs there are in each state, as a list shows them. @param {any} counts as the API gives them @param {boolean} all also those that tasks started @returns {Record<string, number>} */
export function runsShown({ runs, children }, all) {
  return all ? runs : Object.fromEntries(Object.entries(runs).map(([state, many]) => [state, many - (children[state] ?? 0)]));
}

/** How far a run is, as a bar with a part for each kind of end. @param {any} run @param {string} [what] */
export function meter(run, what = "tasks") {
  const ended = run.succeeded + run.failed + run.dead_letter + run.cancelled + run.skipped;
  const parts = [
    ["succeeded", run.succeeded], ["skipped", run.skipped], ["cancelled", run.cancelled],
    ["failed", run.failed + run.dead_letter], ["running", run.active],
  ];
  const bar = h("span", { class: "meter", role: "img", "aria-label": `${ended} of ${run.total} ${what} have ended` });
  for (const [name, many] of parts) {
    if (many) bar.append(h("i", { class: name, style: { width: `${(100 * Number(many)) / Math.max(1, run.total)}%` } }));
  }
  return h("span", { class: "counted" }, bar, `${ended.toLocaleString("en")}/${run.total.toLocaleString("en")}`);
}
