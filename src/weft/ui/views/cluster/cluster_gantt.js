// @ts-check
/** What ran where, on all nodes and of all runs: as many lanes for each node as it ran at a time. */

import { Part, h, refill } from "../../parts/dom.js";
import { clock, count, span } from "../../parts/format.js";
import { PLACE, STATES, word } from "../../parts/states.js";
import { drawTicks, scaleOf, TimeWindow } from "../../parts/time_axis.js";
import { address, changed, go, here } from "../../shell/router.js";
import { LETTER_PLACE } from "../history/timeline.js";
import { packed } from "../history/timeline_lines.js";

const LANE = 12;
const HEAD = 30;
const RIGHT = 16;
const LANES_MAX = 64; // of a node; more are drawn over the last
const AGAIN_MS = 2000;
const SPANS_MS = /** @type {[string, number][]} */ ([["1 min", 60_000], ["5 min", 300_000], ["1 h", 3_600_000], ["6 h", 21_600_000], ["24 h", 86_400_000]]);
const USUAL = SPANS_MS[1];
const LOOKS = ["surface", "raised", "line", "line-strong", "text", "soft", "accent", "accent-soft", "font"];

export class ClusterGantt extends Part {
  #canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" }));
  #tools = h("div", { class: "timeline-tools" });
  #hint = h("div", { class: "hint", hidden: true });
  /** @type {any} */ #found = null;
  /** @type {{y: number, spans: number[]}[]} */ #lanes = [];
  /** @type {{y: number, name: string, term: string}[]} */ #labels = [];
  #height = 0;
  #near = -1;
  #frame = 0;

  /** @param {import("../../shell/main.js").App} app */
  constructor(app) {
    super();
    this.app = app;
  }

  begin() {
    this.replaceChildren(this.#tools, this.#canvas, this.#hint);
    const sizes = new ResizeObserver(() => this.#redraw());
    sizes.observe(this);
    this.life.addEventListener("abort", () => sizes.disconnect());
    this.hear(window, "theme", () => this.#redraw());
    this.hear(window, "hashchange", () => this.#read());
    this.hear(this.#canvas, "pointermove", (event) => this.#hover(event));
    this.hear(this.#canvas, "pointerleave", () => this.#hover(null));
    this.hear(this.#canvas, "click", (event) => this.#click(event));
    this.every(AGAIN_MS, () => !document.hidden && this.#read());
    this.#read();
  }

  get #last() {
    return SPANS_MS.find(([, ms]) => String(ms) === here().query.get("last")) ?? USUAL;
  }

  async #read() {
    try {
      const found = await this.app.api.call("get_cluster_timeline", { last_ms: this.#last[1] }, this.life);
      this.#found = found;
      this.#lay();
      this.#redraw();
    } catch {
      // the bar says that the server is not heard
    }
  }

  #lay() {
    const found = this.#found;
    const short = found.since > found.now - this.#last[1] + 1000;
    refill(this.#tools, h("h2", {}, "What ran where"),
      SPANS_MS.map(([text, ms]) => h("a", { class: "chip", href: changed({ last: ms === USUAL[1] ? null : String(ms) }), "aria-current": String(ms === this.#last[1]) }, text)),
      h("span", { class: "soft" }, `${count(found.task.length)} attempts of ${count(found.runs.length)} runs`, short ? `; more than is shown: complete since ${clock(found.since)}` : ""));
    this.#lanes = [];
    this.#labels = [];
    let y = HEAD;
    const elected = found.marks.filter((/** @type {any} */ mark) => mark.kind === "leader_elected");
    const own = found.nodes.map(() => /** @type {number[]} */ ([]));
    found.node.forEach((/** @type {number} */ place, /** @type {number} */ nth) => own[place].push(nth));
    found.nodes.forEach((/** @type {string} */ name, /** @type {number} */ place) => {
      const lanes = packed(own[place], found.began, (nth) => found.ended[nth] || found.now);
      const term = elected.findLast((/** @type {any} */ mark) => mark.node === name);
      this.#labels.push({ y, name, term: term ? `${term === elected.at(-1) ? "leads" : "led"}, term ${term.term}` : "" });
      lanes.forEach((spans, nth) => this.#lanes.push({ y: y + 4 + Math.min(nth, LANES_MAX - 1) * LANE, spans }));
      y += Math.max(32, Math.min(lanes.length, LANES_MAX) * LANE + 10);
    });
    this.#height = y + 4;
    this.#canvas.setAttribute("aria-label", `${count(found.task.length)} attempts on ${found.nodes.length} nodes in the last ${this.#last[0]}. The table of nodes has what each runs.`);
  }

  #redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #scale() {
    const names = Math.min(170, Math.round(this.clientWidth * 0.3));
    const { now } = this.#found;
    return { names, from: now - this.#last[1], x: scaleOf(now - this.#last[1], now, new TimeWindow(), names, this.clientWidth - names - RIGHT) };
  }

  #draw() {
    const context = this.#canvas.getContext("2d", { alpha: false });
    const { clientWidth: width } = this;
    if (!context || !width || !this.#found) return;
    const ratio = devicePixelRatio;
    this.#canvas.width = Math.round(width * ratio);
    this.#canvas.height = Math.round(this.#height * ratio);
    Object.assign(this.#canvas.style, { width: `${width}px`, height: `${this.#height}px` });
    const style = getComputedStyle(this);
    const look = Object.fromEntries(LOOKS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    const colours = STATES.map((state) => style.getPropertyValue(`--${state.replace("_", "-")}`).trim());
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = look.raised;
    context.fillRect(0, 0, width, this.#height);
    context.textBaseline = "middle";
    context.font = `11px ${look.font}`;
    context.fillStyle = look.soft;
    context.strokeStyle = look.line;
    const { names, from, x } = this.#scale();
    drawTicks(context, x, { from, to: this.#found.now, left: names, right: width, top: 0, bottom: this.#height, label: (at) => clock(from + at) });
    this.#drawLabels(context, look, width, names);
    context.save();
    context.beginPath();
    context.rect(names, 0, width - names, this.#height);
    context.clip();
    this.#drawSpans(context, colours, x);
    this.#drawMarks(context, look, x);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<string, string>} look @param {number} width @param {number} names */
  #drawLabels(context, look, width, names) {
    for (const label of this.#labels) {
      context.fillStyle = look.line;
      context.fillRect(0, label.y, width, 1);
      context.font = `12px ${look.font}`;
      context.fillStyle = look.text;
      context.fillText(label.name.slice(0, Math.floor((names - 20) / 6.8)), 12, label.y + 11);
      context.font = `11px ${look.font}`;
      context.fillStyle = look.soft;
      context.fillText(label.term, 12, label.y + 24);
    }
  }

  /** Of those that share a pixel, one is drawn. All of the run under the pointer stand out. @param {CanvasRenderingContext2D} context @param {string[]} colours @param {(at: number) => number} x */
  #drawSpans(context, colours, x) {
    const found = this.#found;
    const run = this.#near < 0 ? -1 : found.run[this.#near];
    for (const { y, spans } of this.#lanes) {
      let last = -1;
      for (const nth of spans) {
        const left = x(found.began[nth]);
        const right = Math.max(left + 1, x(found.ended[nth] || found.now) - 0.5);
        if (Math.floor(right) === last) continue;
        last = Math.floor(right);
        context.globalAlpha = run < 0 || found.run[nth] === run ? 1 : 0.35;
        context.fillStyle = colours[found.ended[nth] ? LETTER_PLACE[found.states[nth]] : PLACE.running];
        context.fillRect(left, y, right - left, LANE - 2);
      }
    }
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {Record<string, string>} look @param {(at: number) => number} x */
  #drawMarks(context, look, x) {
    for (const mark of this.#found.marks) {
      const label = this.#labels.find((one) => one.name === mark.node);
      if (!label) continue;
      context.fillStyle = mark.kind === "leader_elected" ? look.accent : look.text;
      const sx = x(mark.at);
      context.beginPath();
      context.moveTo(sx - 4, label.y);
      context.lineTo(sx + 4, label.y);
      context.lineTo(sx, label.y + 7);
      context.fill();
    }
  }

  /** @param {MouseEvent} event */
  #spanAt(event) {
    if (!this.#found) return -1;
    const { x } = this.#scale();
    const lane = this.#lanes.find((one) => one.y <= event.offsetY && event.offsetY < one.y + LANE);
    return lane?.spans.find((nth) => x(this.#found.began[nth]) - 2 <= event.offsetX && event.offsetX <= x(this.#found.ended[nth] || this.#found.now) + 2) ?? -1;
  }

  /** @param {MouseEvent | null} event */
  #hover(event) {
    const nth = event ? this.#spanAt(event) : -1;
    this.#canvas.style.cursor = nth < 0 ? "" : "pointer";
    this.#hint.hidden = nth < 0;
    if (nth >= 0 && event) {
      const found = this.#found;
      const ended = found.ended[nth];
      refill(this.#hint, h("b", { class: "name" }, `${found.runs[found.run[nth]]}/${found.task[nth]}`), ` ${ended ? word(STATES[LETTER_PLACE[found.states[nth]]]) : "running"} on ${found.nodes[found.node[nth]]}, ${span((ended || found.now) - found.began[nth])}`);
      const box = this.getBoundingClientRect();
      Object.assign(this.#hint.style, { left: `${Math.max(0, Math.min(event.clientX - box.left + 14, this.clientWidth - 260))}px`, top: `${event.clientY - box.top + 16}px` });
    }
    if (nth === this.#near) return;
    this.#near = nth;
    this.#redraw();
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const nth = this.#spanAt(event);
    if (nth >= 0) go(address(["runs", this.#found.runs[this.#found.run[nth]], "timeline"], { task: this.#found.task[nth] }));
  }
}

customElements.define("weft-gantt", ClusterGantt);
