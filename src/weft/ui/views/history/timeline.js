// @ts-check
/**
 * When what ran, by task or by node: an axis for each generation, waiting apart from running, the critical path and the
 * slack of the others. In the past it shows what had happened by then, at the same places.
 */

import { Part, h, paced, refill } from "../../parts/dom.js";
import { clock, count, span } from "../../parts/format.js";
import { PLACE, STATES, word } from "../../parts/states.js";
import { TimeWindow, drawTicks, scaleOf } from "../../parts/time_axis.js";
import { changed, go, here } from "../../shell/router.js";
import { HEIGHTS, lineAt, linesOf } from "./timeline_lines.js";

const NAMES_MAX = 190;
const RIGHT = 70;
const AGAIN_MS = 2000;
const COLOURS = ["surface", "raised", "line", "line-strong", "text", "soft", "accent", "accent-soft", "font", "cancelled"];

export class TimelineView extends Part {
  #canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img", tabindex: "0" }));
  #space = h("div", { style: { width: "1px" } });
  #scroller = h("div", { class: "timeline-scroller" }, this.#canvas, this.#space);
  #tools = h("div", { class: "timeline-tools" });
  #hint = h("div", { class: "hint", hidden: true });
  #seen = new TimeWindow();
  /** @type {any} */ #found = null;
  /** @type {ReturnType<typeof linesOf>} */ #laid = { lines: [], axes: new Map(), height: 0 };
  /** @type {Set<number>} */ #path = new Set();
  #look = /** @type {Record<string, string>} */ ({});
  /** @type {string[]} */ #colours = [];
  /** @type {Map<number, number>} by position: the newest span */ #newest = new Map();
  #names = NAMES_MAX; // the width of their column
  #frame = 0;
  #drag = -1;
  #by = "";
  /** How long the last frame took; for measurements. */
  took = 0;
  #again = paced(AGAIN_MS, () => this.#read());

  /** @param {import("../../shell/main.js").App} app @param {import("../../data/run_model.js").RunModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
  }

  begin() {
    this.replaceChildren(this.#tools, this.#scroller, this.#hint);
    const sizes = new ResizeObserver(() => this.redraw());
    sizes.observe(this);
    this.life.addEventListener("abort", () => sizes.disconnect());
    this.hear(this.model, "change", () => this.#changed());
    this.hear(this.#scroller, "scroll", () => this.redraw());
    this.hear(window, "theme", () => this.#readColours());
    this.#hearPointer();
    this.every(1000, () => this.#open() && this.redraw());
    this.#readColours();
    this.#read();
  }

  #open() {
    return this.model.run && !this.model.past && !this.model.run.finished_at;
  }

  #changed() {
    const by = here().query.get("by") === "node" ? "node" : "task";
    if (by !== this.#by && this.#found) this.#lay();
    if (!this.model.past) this.#again();
    this.redraw();
  }

  async #read() {
    try {
      const found = await this.app.api.call("get_timeline", { run: this.model.id }, this.life);
      if (found.last_event === this.#found?.last_event) return;
      this.#found = found;
      this.#path = new Set(found.path);
      this.#newest.clear();
      for (let nth = 0; nth < found.pos.length; nth++) if (found.idx[nth] < 0) this.#newest.set(found.pos[nth], nth);
      this.#lay();
      this.redraw();
    } catch {
      // the bar says that the server is not heard; the next change reads again
    }
  }

  #lay() {
    this.#by = here().query.get("by") === "node" ? "node" : "task";
    const choice = (/** @type {string} */ by, /** @type {string} */ text) => h("a", { class: "chip", href: changed({ by: by === "task" ? null : by }), "aria-current": String(by === this.#by) }, text);
    const key = (/** @type {string} */ kind, /** @type {string} */ text) => h("span", { class: "soft" }, h("i", { class: `key key-${kind}` }), text);
    refill(this.#tools, choice("task", "By task"), choice("node", "By node"), key("wait", "waits"), key("run", "runs"),
      this.#by === "task" && [key("path", "critical path"), key("slack", "slack")],
      this.#found.left_out > 0 && h("span", { class: "soft" }, `without the first ${count(this.#found.left_out)} attempts`));
    this.#laid = linesOf(this.#found, this.model.graph.names, this.#by === "node", this.#now());
    const tasks = new Set(this.#found.pos).size;
    this.#canvas.setAttribute("aria-label", `Timeline of ${tasks} tasks that have begun. The table has their times.`);
  }

  /** In ms since the run was submitted. */
  #now() {
    return this.model.now - (this.model.run?.created_at ?? this.model.now);
  }

  #readColours() {
    const style = getComputedStyle(this);
    for (const name of COLOURS) this.#look[name] = style.getPropertyValue(`--${name}`).trim();
    this.#colours = STATES.map((state) => style.getPropertyValue(`--${state.replace("_", "-")}`).trim());
    this.redraw();
  }

  redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      const began = performance.now();
      this.#draw();
      this.took = performance.now() - began;
    });
  }

  #draw() {
    const context = this.#canvas.getContext("2d", { alpha: false });
    const { clientWidth: width, clientHeight: height } = this.#scroller;
    if (!context || !width || !this.#found || !this.model.run) return;
    if (this.#open()) for (const axis of this.#laid.axes.values()) if (axis.generation === this.model.run.generation) axis.to = Math.max(axis.to, this.#now());
    this.#space.style.height = `${Math.max(0, this.#laid.height + 8 - height)}px`;
    this.#names = Math.min(NAMES_MAX, Math.round(width * 0.3));
    const ratio = devicePixelRatio;
    if (this.#canvas.width !== Math.round(width * ratio) || this.#canvas.height !== Math.round(height * ratio)) {
      this.#canvas.width = Math.round(width * ratio);
      this.#canvas.height = Math.round(height * ratio);
      Object.assign(this.#canvas.style, { width: `${width}px`, height: `${height}px` });
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = this.#look.surface;
    context.fillRect(0, 0, width, height);
    context.textBaseline = "middle";
    const { lines } = this.#laid;
    const chosen = here().query.get("task") ?? "";
    for (let nth = Math.max(0, lineAt(lines, this.#scroller.scrollTop)); nth < lines.length; nth++) {
      const y = lines[nth].top - this.#scroller.scrollTop;
      if (y > height) break;
      this.#drawLine(context, lines[nth], y, width, chosen);
    }
    this.#drawMoment(context, height);
  }

  /** @param {number} generation @param {number} width */
  #scale(generation, width) {
    const axis = /** @type {any} */ (this.#laid.axes.get(generation));
    return scaleOf(axis.from, axis.to, this.#seen, this.#names, width - this.#names - RIGHT);
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./timeline_lines.js").Line} line @param {number} y @param {number} width @param {string} chosen */
  #drawLine(context, line, y, width, chosen) {
    const x = this.#scale(line.generation, width);
    const look = this.#look;
    if (line.kind === "head") {
      const axis = /** @type {any} */ (this.#laid.axes.get(line.generation));
      context.font = `11px ${look.font}`;
      context.fillStyle = look.soft;
      context.strokeStyle = look.line;
      drawTicks(context, x, { from: axis.from, to: axis.to, left: this.#names, right: width, top: y, bottom: y + HEIGHTS.head - 6 });
      context.font = `600 12px ${look.font}`;
      context.fillStyle = look.text;
      context.fillText(this.#laid.axes.size > 1 ? line.label : "Task", 12, y + 10);
      context.font = `11px ${look.font}`;
      context.fillStyle = look.soft;
      context.fillText(clock(this.#found.created_at + axis.from), 12, y + 24);
      return;
    }
    const tall = HEIGHTS[line.kind];
    if (line.kind === "task" && line.label === chosen.replace(/\.\d+$/, "")) {
      context.fillStyle = look["accent-soft"];
      context.fillRect(0, y, width, tall);
    }
    if (line.kind === "lane" && line.first) {
      context.fillStyle = look["line"];
      context.fillRect(0, y, width, 1);
    }
    context.save();
    context.beginPath();
    context.rect(this.#names, y, width - this.#names, tall);
    context.clip();
    if (line.kind === "task") this.#drawTask(context, line, y, x);
    else this.#drawLane(context, line, y, x);
    context.restore();
    context.font = `12px ${look.font}`;
    context.fillStyle = this.#marked(line) && this.#path.has(line.pos) ? look.accent : look.text;
    const most = Math.floor((this.#names - 12) / 6.8);
    if (line.label) context.fillText(line.label.length > most ? `${line.label.slice(0, most - 1)}…` : line.label, 12, y + tall / 2 + (line.kind === "lane" ? 3 : 0));
  }

  /** What it was by the moment that is shown: null: not begun. @param {number} nth */
  #then(nth) {
    const found = this.#found;
    const seq = this.model.past?.event.seq ?? Infinity;
    if (found.began_event[nth] > seq) return null;
    const over = found.ended_event[nth] > 0 && found.ended_event[nth] <= seq;
    const state = over ? LETTER_PLACE[found.states[nth]] : found.states[nth] === "w" ? PLACE.waiting : PLACE.running;
    // an attempt's start is known to the millisecond when it ends: until then, its claim
    return { ready: found.ready[nth], began: Math.min(found.began[nth], this.#now()), ended: over ? found.ended[nth] : Math.max(found.began[nth], this.#now()), state };
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./timeline_lines.js").Line} line @param {number} y @param {(at: number) => number} x */
  #drawTask(context, line, y, x) {
    const { idx } = this.#found;
    let end = -1;
    let took = 0;
    for (const nth of line.spans) {
      const then = this.#then(nth);
      if (!then) continue;
      const left = x(then.began);
      const element = idx[nth] >= 0;
      if (!element) {
        context.fillStyle = this.#look["line-strong"];
        context.fillRect(x(then.ready), y + 10, left - x(then.ready), 2);
        end = then.ended;
        took += then.ended - then.began;
      }
      context.fillStyle = this.#colours[then.state];
      context.fillRect(left, element ? y + 16 : y + 6, Math.max(element ? 1 : 2, x(then.ended) - left), element ? 3 : 9);
    }
    if (end < 0) return;
    if (this.#marked(line)) this.#drawPath(context, line, y, x, end);
    context.font = `11px ${this.#look.font}`;
    context.fillStyle = this.#look.soft;
    context.fillText(span(took), x(end) + 6, y + 11);
  }

  /** Whether it has the newest attempt of its task: that one counts for the critical path. @param {import("./timeline_lines.js").Line} line */
  #marked(line) {
    return line.kind === "task" && !this.model.past && this.#found.generation[this.#newest.get(line.pos) ?? -1] === line.generation;
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./timeline_lines.js").Line} line @param {number} y @param {(at: number) => number} x @param {number} end */
  #drawPath(context, line, y, x, end) {
    const slack = this.#found.slack[line.pos] ?? -1;
    const began = this.#found.began[/** @type {number} */ (this.#newest.get(line.pos))];
    if (this.#path.has(line.pos)) {
      context.fillStyle = this.#look.accent;
      context.fillRect(x(began), y + 3, Math.max(2, x(end) - x(began)), 2);
    } else if (slack > 0) {
      context.strokeStyle = this.#look["line-strong"];
      context.setLineDash([2, 3]);
      context.beginPath();
      context.moveTo(x(end), y + 18.5);
      context.lineTo(x(end + slack), y + 18.5);
      context.stroke();
      context.setLineDash([]);
    }
  }

  /** Many spans share a pixel: of those that look the same, one is drawn. @param {CanvasRenderingContext2D} context @param {import("./timeline_lines.js").Line} line @param {number} y @param {(at: number) => number} x */
  #drawLane(context, line, y, x) {
    let last = -1;
    for (const nth of line.spans) {
      const then = this.#then(nth);
      if (!then) continue;
      const left = x(then.began);
      const right = Math.max(left + 1, x(then.ended) - 0.5);
      if (right < this.#names || Math.floor(right) === last) continue;
      last = Math.floor(right);
      context.fillStyle = this.#colours[then.state];
      context.fillRect(left, y + 2, right - left, HEIGHTS.lane - 3);
    }
  }

  /** In the past: where it is. @param {CanvasRenderingContext2D} context @param {number} height */
  #drawMoment(context, height) {
    if (!this.model.past) return;
    const axis = this.#laid.axes.get(this.model.run.generation);
    const head = this.#laid.lines.find((line) => line.kind === "head" && line.generation === this.model.run.generation);
    if (!axis || !head) return;
    const next = this.#laid.lines.find((line) => line.kind === "head" && line.top > head.top);
    const sx = Math.round(this.#scale(axis.generation, this.#scroller.clientWidth)(this.#now())) + 0.5;
    context.strokeStyle = this.#look.accent;
    context.beginPath();
    context.moveTo(sx, head.top - this.#scroller.scrollTop);
    context.lineTo(sx, Math.min(height, (next?.top ?? Infinity) - this.#scroller.scrollTop));
    if (sx >= this.#names) context.stroke();
  }

  #hearPointer() {
    this.hear(this.#canvas, "wheel", (/** @type {WheelEvent} */ event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) this.#seen.pan(Math.sign(event.deltaY || event.deltaX) * 0.1);
      else this.#seen.zoom(Math.exp(-event.deltaY * 0.004), (event.offsetX - this.#names) / (this.clientWidth - this.#names - RIGHT));
      this.redraw();
    });
    this.hear(this.#canvas, "pointerdown", (/** @type {PointerEvent} */ event) => (this.#drag = event.offsetX));
    this.hear(this.#canvas, "pointermove", (/** @type {PointerEvent} */ event) => {
      if (event.buttons === 1 && this.#drag >= 0 && event.pointerType === "mouse") {
        this.#seen.pan((this.#drag - event.offsetX) / (this.clientWidth - this.#names - RIGHT));
        this.#drag = event.offsetX;
        this.redraw();
      } else this.#hover(event);
    });
    this.hear(this.#canvas, "pointerleave", () => (this.#hint.hidden = true));
    this.hear(this.#canvas, "click", (event) => this.#click(event));
    this.hear(document, "keydown", (/** @type {KeyboardEvent} */ event) => {
      const inside = event.target === this.#canvas || event.target === document.body;
      const keys = /** @type {Record<string, () => void>} */ ({
        "+": () => this.#seen.zoom(1.3), "=": () => this.#seen.zoom(1.3), "-": () => this.#seen.zoom(1 / 1.3), 0: () => this.#seen.zoom(1e-9),
        ArrowLeft: () => this.#seen.pan(-0.1), ArrowRight: () => this.#seen.pan(0.1),
      });
      if (!inside || event.ctrlKey || event.metaKey || !keys[event.key]) return;
      keys[event.key]();
      this.redraw();
    });
  }

  /** The span at a place, or -1; of a task's line, its task's last one. @param {MouseEvent} event */
  #spanAt(event) {
    const line = this.#laid.lines[lineAt(this.#laid.lines, event.offsetY + this.#scroller.scrollTop)];
    if (!line || line.kind === "head") return -1;
    const x = this.#scale(line.generation, this.#scroller.clientWidth);
    const within = line.spans.filter((nth) => {
      const then = this.#then(nth);
      return then && x(then.began) - 2 <= event.offsetX && event.offsetX <= x(then.ended) + 2;
    });
    const low = event.offsetY + this.#scroller.scrollTop - line.top > 14;
    const element = within.filter((nth) => this.#found.idx[nth] >= 0);
    if (line.kind === "task") return (low ? element[0] : undefined) ?? within.find((nth) => this.#found.idx[nth] < 0) ?? line.spans[0];
    return within[0] ?? -1;
  }

  /** @param {number} nth */
  #name(nth) {
    const name = this.model.graph.names[this.#found.pos[nth]];
    return this.#found.idx[nth] >= 0 ? `${name}.${this.#found.idx[nth]}` : name;
  }

  /** @param {MouseEvent} event */
  #hover(event) {
    const nth = this.#found ? this.#spanAt(event) : -1;
    const then = nth >= 0 && this.#then(nth);
    this.#hint.hidden = !then;
    if (!then) return;
    const found = this.#found;
    const waited = then.began - then.ready;
    refill(this.#hint, h("b", { class: "name" }, this.#name(nth)), ` ${word(STATES[then.state])}, attempt ${found.attempt[nth]}${found.node[nth] >= 0 ? ` on ${found.nodes[found.node[nth]]}` : ""}: waited ${span(waited)}, took ${span(then.ended - then.began)}`);
    const box = this.getBoundingClientRect();
    Object.assign(this.#hint.style, { left: `${Math.min(event.clientX - box.left + 14, this.clientWidth - 260)}px`, top: `${event.clientY - box.top + 16}px` });
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const nth = this.#found ? this.#spanAt(event) : -1;
    if (nth >= 0) go(changed({ task: this.#name(nth) }));
  }
}

/** The letters of states: those of the API, which a test compares. */
export const LETTER_PLACE = /** @type {Record<string, number>} */ ({ p: PLACE.pending, q: PLACE.queued, d: PLACE.scheduled, w: PLACE.waiting, r: PLACE.running, s: PLACE.succeeded, f: PLACE.failed, c: PLACE.cancelled, k: PLACE.skipped, x: PLACE.dead_letter });

customElements.define("weft-timeline", TimelineView);
