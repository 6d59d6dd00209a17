// @ts-check
/** The picture of a run's graph, or of a workflow's: drawn when something has changed, moved by pointer, wheel and keys. */

import { Part, h, refill } from "../parts/dom.js";
import { count, span } from "../parts/format.js";
import { STATES, shape, word } from "../parts/states.js";
import { address, changed, go, here } from "../shell/router.js";
import { Camera } from "./camera.js";
import { Renderer } from "./renderer.js";
import { ElementBlock } from "./element_block.js";
import { BOX, Scene } from "./scene.js";

const STEP = 60;
const TOGGLE = 60; // the right part of the box of a task with something inside: opens and closes it
const CLICK = 5; // pixels that a pointer may move between down and up

export class GraphView extends Part {
  camera = new Camera();
  #canvas = /** @type {HTMLCanvasElement} */ (h("canvas", { tabindex: "0", role: "img" }));
  #legend = h("div", { class: "legend" });
  #hint = h("div", { class: "hint", hidden: true });
  #renderer;
  #near = -1;
  #chosen = -1;
  #element = -1;
  #frame = 0;
  #touched = false; // a person moved it: it stays where it is
  /** Frames drawn, and how long the last took; for measurements. */
  drawn = 0;
  firstDrawn = 0;
  took = 0;
  /** @type {Map<number, {x: number, y: number}>} */ #pointers = new Map();
  #moved = 0;

  /** @param {import("../shell/main.js").App} app @param {import("../data/run_model.js").RunModel | import("../data/workflow_model.js").WorkflowModel} model */
  constructor(app, model) {
    super();
    this.app = app;
    this.model = model;
    this.#renderer = new Renderer(model);
  }

  begin() {
    const tool = (/** @type {string} */ text, /** @type {string} */ label, /** @type {() => void} */ act) => h("button", { "aria-label": label, on: { click: act } }, text);
    refill(this, this.#canvas, this.#legend, this.#hint, h("div", { class: "graph-tools" },
      tool("+", "Zoom in", () => this.#zoom(1.3)), tool("−", "Zoom out", () => this.#zoom(1 / 1.3)), tool("All", "Show all of it", () => this.fit())));
    this.hear(this.model, "graph", () => this.#use());
    this.hear(this.model, "change", () => this.#changed());
    this.hear(this.model, "elements", () => this.#useBlocks());
    this.hear(window, "theme", () => this.#coloured());
    this.hear(matchMedia("(prefers-color-scheme: dark)"), "change", () => this.#coloured());
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(this);
    this.life.addEventListener("abort", () => sizes.disconnect());
    this.#hearPointer();
    this.#hearKeys();
    this.every(1000, () => {
      if (!this.model.run || this.model.run.finished_at || document.hidden) return;
      if (this.camera.scale >= 0.5) this.redraw();
      if ([...this.model.opened.values()].some((one) => one.run)) this.model.readOpen();
    });
    this.#use();
  }

  #use() {
    if (this.model.graph === null) return;
    this.#renderer.use(new Scene(this.model.graph, this.#blocks()));
    this.#resize();
    this.fit();
    this.#coloured();
  }

  #blocks() {
    return [...this.model.opened].map(([pos, inside]) => new ElementBlock(pos, this.model.graph.names[pos], inside));
  }

  /** Elements have come, changed or gone; what is seen stays where it is. */
  #useBlocks() {
    if (!this.#renderer.scene) return;
    this.#renderer.use(new Scene(this.model.graph, this.#blocks()));
    this.#renderer.heat();
    if (this.#touched) this.redraw();
    else this.fit();
  }

  /** Which tasks are open is part of the address. */
  #open() {
    const names = new Set((here().query.get("open") ?? "").split(",").filter(Boolean));
    this.model.open([...names]);
    return names;
  }

  /** @param {number} pos */
  #toggle(pos) {
    const names = this.#open();
    const name = this.model.graph.names[pos];
    if (!names.delete(name)) names.add(name);
    go(changed({ open: [...names].join(",") }));
  }

  #coloured() {
    this.#renderer.readColours(this);
    this.#changed();
  }

  #resize() {
    const { clientWidth, clientHeight } = this;
    if (!clientWidth) return;
    this.#canvas.width = clientWidth * devicePixelRatio;
    this.#canvas.height = clientHeight * devicePixelRatio;
    this.camera.width = clientWidth;
    this.camera.height = clientHeight;
    if (!this.#touched) this.fit();
    this.redraw();
  }

  /** All of it in the view. */
  fit() {
    const { scene } = this.#renderer;
    if (!scene || !this.clientWidth) return;
    this.camera.fit(scene.width, scene.height);
    this.#touched = false;
    this.redraw();
  }

  #changed() {
    if (!this.#renderer.scene) return;
    this.#open();
    const name = here().query.get("task");
    this.#element = /\.\d+$/.test(name ?? "") ? Number(name?.split(".").at(-1)) : -1;
    const chosen = name === null ? -1 : (this.model.position(name) ?? -1);
    if (chosen !== this.#chosen && chosen >= 0) this.camera.reveal(this.#renderer.scene.x[chosen] + BOX.width / 2, this.#renderer.scene.y[chosen]);
    this.#chosen = chosen;
    this.#renderer.heat();
    this.#showLegend();
    this.redraw();
  }

  #showLegend() {
    const { counts } = this.model;
    const shown = [...STATES].reverse().filter((_, nth) => counts[STATES.length - 1 - nth] > 0);
    const words = shown.map((state) => `${counts[STATES.indexOf(state)]} ${word(state)}`).join(", ");
    refill(this.#legend, shown.map((state) => h("span", { class: `state state-${state}` }, shape(state), count(counts[STATES.indexOf(state)]), h("span", { class: "word" }, ` ${word(state)}`))));
    this.#canvas.setAttribute("aria-label", `Graph of ${count(this.model.states.length)} tasks${words && `: ${words}. The table has all of them`}.`);
  }

  redraw() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => {
      this.#frame = 0;
      this.draw();
    });
  }

  draw() {
    const context = this.#canvas.getContext("2d", { alpha: false });
    if (!context || !this.#renderer.scene) return;
    const began = performance.now();
    this.#renderer.draw(context, this.camera, this.#chosen, this.#near, this.#element);
    this.took = performance.now() - began;
    this.firstDrawn ||= performance.now();
    this.drawn++;
  }

  /** @param {number} factor @param {number} [x] @param {number} [y] */
  #zoom(factor, x, y) {
    this.#touched = true;
    this.camera.zoom(factor, x, y);
    this.redraw();
  }

  /** @param {number} dx @param {number} dy */
  #pan(dx, dy) {
    this.#touched = true;
    this.camera.pan(dx, dy);
    this.redraw();
  }

  #hearPointer() {
    const canvas = this.#canvas;
    this.hear(canvas, "wheel", (/** @type {WheelEvent} */ event) => {
      event.preventDefault();
      this.#zoom(Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0015)), event.offsetX, event.offsetY);
    });
    this.hear(canvas, "pointerdown", (/** @type {PointerEvent} */ event) => {
      canvas.setPointerCapture(event.pointerId);
      this.#pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      this.#moved = 0;
    });
    this.hear(canvas, "pointermove", (/** @type {PointerEvent} */ event) => this.#move(event));
    const up = (/** @type {PointerEvent} */ event) => {
      const known = this.#pointers.delete(event.pointerId);
      if (known && event.type === "pointerup" && this.#moved < CLICK) this.#click(event);
    };
    this.hear(canvas, "pointerup", up);
    this.hear(canvas, "pointercancel", up);
    this.hear(canvas, "pointerleave", () => this.#hover(-1, 0, 0));
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const before = this.#pointers.get(event.pointerId);
    const now = { x: event.offsetX, y: event.offsetY };
    if (!before) return this.#hover(this.#taskAt(now.x, now.y), now.x, now.y);
    const others = [...this.#pointers].filter(([id]) => id !== event.pointerId).map(([, at]) => at);
    this.#pointers.set(event.pointerId, now);
    this.#moved += Math.abs(now.x - before.x) + Math.abs(now.y - before.y);
    if (others.length) {
      const apart = (/** @type {{x: number, y: number}} */ at) => Math.hypot(at.x - others[0].x, at.y - others[0].y);
      this.#zoom(apart(now) / Math.max(1, apart(before)), (now.x + others[0].x) / 2, (now.y + others[0].y) / 2);
    } else this.#pan(now.x - before.x, now.y - before.y);
  }

  /** @param {number} x @param {number} y */
  #taskAt(x, y) {
    return this.#renderer.scene ? this.#renderer.scene.at(...this.camera.world(x, y)) : -1;
  }

  /** @param {number} pos @param {number} x @param {number} y */
  #hover(pos, x, y) {
    const found = pos < 0 && this.#renderer.scene ? this.#renderer.scene.elementAt(...this.camera.world(x, y)) : null;
    this.#canvas.style.cursor = pos >= 0 || found ? "pointer" : "grab";
    this.#hint.hidden = pos < 0 && !found;
    if (pos >= 0 || found) {
      const took = found ? NaN : this.model.took(pos);
      const state = STATES[found ? found.block.states[found.idx] : this.model.states[pos]];
      const name = found ? found.block.label(found.idx) : this.model.graph.names[pos];
      refill(this.#hint, this.model.run && [shape(state), ` ${word(state)} `], h("b", { class: "name" }, name), Number.isNaN(took) ? "" : ` ${span(took)}`);
      Object.assign(this.#hint.style, { left: `${Math.min(x + 14, this.clientWidth - 220)}px`, top: `${y + 16}px` });
    }
    if (pos === this.#near) return;
    this.#near = pos;
    this.redraw();
  }

  /** @param {PointerEvent} event */
  #click(event) {
    const pos = this.#taskAt(event.offsetX, event.offsetY);
    const { scene } = this.#renderer;
    const [x, y] = this.camera.world(event.offsetX, event.offsetY);
    if (pos >= 0 && this.model.opens(pos) && x > scene.x[pos] + BOX.width - TOGGLE) return this.#toggle(pos);
    const found = pos < 0 ? scene?.elementAt(x, y) : null;
    if (found) return go(found.block.run ? address(["runs", found.block.run], { task: found.block.label(found.idx) }) : changed({ task: found.block.label(found.idx) }));
    go(changed({ task: pos < 0 ? null : this.model.graph.names[pos] }));
  }

  #hearKeys() {
    const keys = /** @type {Record<string, () => void>} */ ({
      ArrowLeft: () => this.#pan(STEP, 0), ArrowRight: () => this.#pan(-STEP, 0), ArrowUp: () => this.#pan(0, STEP), ArrowDown: () => this.#pan(0, -STEP),
      "+": () => this.#zoom(1.3), "=": () => this.#zoom(1.3), "-": () => this.#zoom(1 / 1.3), 0: () => this.fit(),
      o: () => this.#chosen >= 0 && this.model.opens(this.#chosen) && this.#toggle(this.#chosen),
    });
    this.hear(document, "keydown", (/** @type {KeyboardEvent} */ event) => {
      const inside = event.target === this.#canvas || event.target === document.body;
      if (!inside || event.ctrlKey || event.metaKey || !keys[event.key]) return;
      event.preventDefault();
      keys[event.key]();
    });
  }
}

customElements.define("weft-graph", GraphView);
