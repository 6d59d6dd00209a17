// @ts-check
/** The lines of a timeline: for each generation of a run a head with its axis, then a line for each task, or lanes for each node. */

export const HEIGHTS = { head: 34, task: 22, lane: 13 };

/**
 * @typedef {{kind: "head" | "task" | "lane", top: number, label: string, generation: number, pos: number, first: boolean, spans: number[]}} Line
 * @typedef {{generation: number, from: number, to: number}} Axis times in ms since the run was submitted
 */

/**
 * @param {any} found the timeline as the API gives it @param {string[]} names of tasks, by position
 * @param {boolean} byNode @param {number} now in ms since the run was submitted
 * @returns {{lines: Line[], axes: Map<number, Axis>, height: number}}
 */
export function linesOf(found, names, byNode, now) {
  const axes = axesOf(found, now);
  /** @type {Line[]} */
  const lines = [];
  for (const { generation } of axes.values()) {
    const spans = [];
    for (let nth = 0; nth < found.pos.length; nth++) if (found.generation[nth] === generation) spans.push(nth);
    lines.push({ kind: "head", top: 0, label: `Generation ${generation}`, generation, pos: -1, first: true, spans: [] });
    lines.push(...(byNode ? lanesOf(found, spans, generation, now) : tasksOf(found, spans, generation, names)));
  }
  let height = 0;
  for (const line of lines) {
    line.top = height;
    height += HEIGHTS[line.kind];
  }
  return { lines, axes, height };
}

/** @param {any} found @param {number} now @returns {Map<number, Axis>} */
function axesOf(found, now) {
  const axes = new Map();
  for (const { generation, at } of found.generations) axes.set(generation, { generation, from: at - found.created_at, to: 0 });
  const newest = Math.max(...axes.keys());
  for (let nth = 0; nth < found.pos.length; nth++) {
    const axis = axes.get(found.generation[nth]);
    const end = found.ended[nth] < 0 ? now : found.ended[nth];
    if (axis && end > axis.to) axis.to = end;
  }
  for (const axis of axes.values()) axis.to = Math.max(axis.to, axis.generation === newest && found.ended.includes(-1) ? now : 0, axis.from + 1);
  return axes;
}

/** In the order in which they began; elements are in the line of their task. @param {any} found @param {number[]} spans @param {number} generation @param {string[]} names @returns {Line[]} */
function tasksOf(found, spans, generation, names) {
  /** @type {Map<number, Line>} */
  const lines = new Map();
  for (const nth of spans) {
    const pos = found.pos[nth];
    let line = lines.get(pos);
    if (!line) lines.set(pos, (line = { kind: "task", top: 0, label: names[pos] ?? "", generation, pos, first: true, spans: [] }));
    line.spans.push(nth);
  }
  return [...lines.values()];
}

/** As many lanes for each node as it ran at a time. @param {any} found @param {number[]} spans @param {number} generation @param {number} now @returns {Line[]} */
function lanesOf(found, spans, generation, now) {
  return [...found.nodes, "no node"].flatMap((name, place) => {
    const at = place === found.nodes.length ? -1 : place;
    const own = spans.filter((nth) => found.node[nth] === at && (at >= 0 || found.states[nth] === "w"));
    return packed(own, found.began, (nth) => (found.ended[nth] < 0 ? now : found.ended[nth])).map((lane, nth) =>
      ({ kind: /** @type {const} */ ("lane"), top: 0, label: nth === 0 ? name : "", generation, pos: -1, first: nth === 0, spans: lane }));
  });
}

/** Spans that overlap go to different lanes; each to the first that is free. @param {number[]} spans in the order of `began` @param {ArrayLike<number>} began @param {(nth: number) => number} endOf */
export function packed(spans, began, endOf) {
  /** @type {number[][]} */
  const lanes = [];
  /** @type {number[]} */
  const free = [];
  for (const nth of [...spans].sort((a, b) => began[a] - began[b])) {
    let lane = free.findIndex((end) => end <= began[nth]);
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push(nth);
    free[lane] = Math.max(began[nth] + 1, endOf(nth));
  }
  return lanes;
}

/** The place of the line at this height. @param {Line[]} lines @param {number} y */
export function lineAt(lines, y) {
  let low = 0;
  let high = lines.length;
  while (low < high) {
    const half = (low + high) >> 1;
    if (lines[half].top <= y) low = half + 1;
    else high = half;
  }
  return low - 1;
}
