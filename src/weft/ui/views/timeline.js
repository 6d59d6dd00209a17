// @ts-check
/** When each task ran: one line a task in the order in which they began, on one axis of time. */

import { Part, h } from "../parts/dom.js";
import { span } from "../parts/format.js";
import { STATES } from "../parts/states.js";
import { changed, go, here } from "../shell/router.js";

const LINE = 22;
const HEAD = 28;
const NAMES = 190;
const STEPS_MS = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 1.8e6, 3.6e6, 1.08e7, 4.32e7, 8.64e7];

export class TimelineView extends Part {
  #canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { role: "img" }));
  #space = h("div", { style: { width: "1px" } });
  /** @type {number[]} */ #order = [];
  #frame = 0;

  /** @param {import("../shell/main.js").App} app @param {import("../data/run_model.js").RunModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
  }

  begin() {
    this.replaceChildren(this.#canvas, this.#space);
    Object.assign(this.style, { overflow: "auto" });
    Object.assign(this.#canvas.style, { position: "sticky", top: "0", touchAction: "pan-y" });
    const sizes = new ResizeObserver(() => this.#redraw());
    sizes.observe(this);
    this.life.addEventListener("abort", () => sizes.disconnect());
    for (const event of ["change", "graph"]) this.hear(this.model, event, () => this.#redraw());
    this.hear(this, "scroll", () => this.#redraw());
    this.hear(window, "theme", () => this.#redraw());
    this.hear(this.#canvas, "click", (event) => this.#click(event));
    this.every(1000, () => this.model.run && !this.model.run.finished_at && this.#redraw());
    this.#redraw();
  }

  #redraw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      this.#draw();
    });
  }

  #sort() {
    const { began } = this.model;
    this.#order = [...began.keys()].filter((pos) => !Number.isNaN(began[pos]));
    this.#order.sort((a, b) => began[a] - began[b] || a - b);
    this.#space.style.height = `${Math.max(0, HEAD + this.#order.length * LINE + 8 - this.clientHeight)}px`;
    this.#canvas.setAttribute("aria-label", `Timeline of ${this.#order.length} tasks that have begun. The table has their times.`);
  }

  #draw() {
    const context = this.#canvas.getContext("2d", { alpha: false });
    const { model, clientWidth: width, clientHeight: height } = this;
    if (!context || !width || !model.run) return;
    this.#sort();
    this.#canvas.width = width * devicePixelRatio;
    this.#canvas.height = height * devicePixelRatio;
    Object.assign(this.#canvas.style, { width: `${width}px`, height: `${height}px` });
    const style = getComputedStyle(this);
    const colour = (/** @type {string} */ name) => style.getPropertyValue(`--${name}`).trim();
    context.scale(devicePixelRatio, devicePixelRatio);
    context.fillStyle = colour("surface");
    context.fillRect(0, 0, width, height);
    const end = Math.max(1, (model.run.finished_at ?? model.now) - model.run.created_at);
    const x = (/** @type {number} */ ms) => NAMES + (ms / end) * (width - NAMES - 70);
    this.#drawAxis(context, end, x, colour);
    context.save();
    context.beginPath();
    context.rect(0, HEAD, width, height);
    context.clip();
    const first = Math.floor(this.scrollTop / LINE);
    const last = Math.min(this.#order.length, first + Math.ceil(height / LINE) + 1);
    const chosen = here().query.get("task");
    for (let nth = first; nth < last; nth++) {
      const pos = this.#order[nth];
      const y = HEAD + nth * LINE - this.scrollTop;
      const state = STATES[model.states[pos]];
      const took = Math.max(0, model.took(pos) || 0);
      if (model.graph.names[pos] === chosen) {
        context.fillStyle = colour("accent-soft");
        context.fillRect(0, y, width, LINE);
      }
      context.fillStyle = colour(state.replace("_", "-"));
      const left = x(model.began[pos]);
      const long = Math.max(2, x(model.began[pos] + took) - left);
      context.beginPath();
      context.roundRect(left, y + 5, long, LINE - 10, 3);
      context.fill();
      context.font = `12px ${colour("font")}`;
      context.textBaseline = "middle";
      context.fillStyle = colour("text");
      const name = model.graph.names[pos];
      context.fillText(name.length > 26 ? `${name.slice(0, 25)}…` : name, 12, y + LINE / 2);
      context.fillStyle = colour("soft");
      context.fillText(span(took), left + long + 6, y + LINE / 2);
    }
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} end @param {(ms: number) => number} x @param {(name: string) => string} colour */
  #drawAxis(context, end, x, colour) {
    const step = STEPS_MS.find((one) => end / one <= 9) ?? STEPS_MS[STEPS_MS.length - 1];
    context.font = `11px ${colour("font")}`;
    context.textBaseline = "middle";
    context.strokeStyle = colour("line");
    context.beginPath();
    for (let at = 0; at <= end; at += step) {
      context.fillStyle = colour("soft");
      context.fillText(at === 0 ? "0" : span(at), x(at) + 4, HEAD / 2);
      context.moveTo(Math.round(x(at)) + 0.5, 0);
      context.lineTo(Math.round(x(at)) + 0.5, this.clientHeight);
    }
    context.stroke();
  }

  /** @param {MouseEvent} event */
  #click(event) {
    const nth = Math.floor((event.offsetY - HEAD + this.scrollTop) / LINE);
    const pos = event.offsetY > HEAD ? this.#order[nth] : undefined;
    if (pos !== undefined) go(changed({ task: this.model.graph.names[pos] }));
  }
}

customElements.define("weft-timeline", TimelineView);
