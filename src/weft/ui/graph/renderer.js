// @ts-check
/**
 * Draws a scene by distance: heat strips (a pixel a task, one image), boxes, boxes with names, times and progress.
 * What lies outside of the view is not looked at. Of very many edges an even sample is drawn: more of them would be one
 * grey area, and cost the frame.
 */

import { span } from "../parts/format.js";
import { SHAPES, STATES } from "../parts/states.js";
import { BOX } from "./scene.js";

const STRIPS = 0.13; // below this scale: heat strips
const NAMED = 0.5; // from this scale on: names
const EDGES_MAX = 3000;
const QUIET = new Set(["pending", "skipped"]); // what asks for no attention
const PATHS = /** @type {Record<string, Path2D>} */ (Object.fromEntries(Object.entries(SHAPES).map(([state, path]) => [state, new Path2D(path)])));

export class Renderer {
  #heat = document.createElement("canvas");
  /** @type {ImageData | null} */ #pixels = null;
  /** @type {string[]} */ #colours = [];
  /** @type {string[]} of boxes without names */ #fills = [];
  /** @type {Uint32Array} */ #packed = new Uint32Array(0);
  #look = /** @type {Record<string, string>} */ ({});
  /** @type {import("./scene.js").Scene} */ scene = /** @type {any} */ (null);

  /** @param {import("../data/run_model.js").RunModel | import("../data/workflow_model.js").WorkflowModel} model */
  constructor(model) {
    this.model = model;
  }

  /** Colours come from the style sheet. @param {HTMLElement} element */
  readColours(element) {
    const style = getComputedStyle(element);
    for (const name of ["surface", "raised", "line", "line-strong", "text", "soft", "accent", "font", "quiet"]) this.#look[name] = style.getPropertyValue(`--${name}`).trim();
    this.#colours = STATES.map((state) => style.getPropertyValue(`--${state.replace("_", "-")}`).trim());
    this.#fills = this.#colours.map((colour, place) => (QUIET.has(STATES[place]) ? this.#look.quiet : colour));
    this.#packed = Uint32Array.from(this.#fills.map(packed));
  }

  /** @param {import("./scene.js").Scene} scene */
  use(scene) {
    this.scene = scene;
    this.#heat.width = Math.min(8192, scene.columns * 4);
    this.#heat.height = Math.min(8192, scene.rows);
    const context = /** @type {CanvasRenderingContext2D} */ (this.#heat.getContext("2d"));
    this.#pixels = context.createImageData(this.#heat.width, this.#heat.height);
  }

  /** The states have changed. */
  heat() {
    const pixels = this.#pixels;
    if (pixels === null) return;
    const { scene } = this;
    const { states } = this.model;
    const to = new Uint32Array(pixels.data.buffer);
    const urgency = new Uint8Array(to.length);
    to.fill(0);
    const across = pixels.width / (scene.columns * 4);
    const down = pixels.height / scene.rows;
    for (let pos = 0; pos < states.length; pos++) {
      const left = Math.floor(scene.column[pos] * 4 * across);
      const at = Math.floor(scene.cell[pos] * down) * pixels.width + left;
      const state = states[pos];
      for (let one = at; one < at + (across === 1 ? 3 : 1); one++) {
        if (urgency[one] > state) continue;
        urgency[one] = state;
        to[one] = this.#packed[state];
      }
    }
    this.#heat.getContext("2d")?.putImageData(pixels, 0, 0);
    for (const block of scene.blocks) block.paint(this.#packed);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera
   * @param {number} chosen position, or -1 @param {number} near under the pointer, or -1 @param {number} element of the chosen one, or -1
   */
  draw(context, camera, chosen, near, element = -1) {
    const ratio = devicePixelRatio;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = this.#look.surface;
    context.fillRect(0, 0, context.canvas.width, context.canvas.height);
    context.setTransform(ratio * camera.scale, 0, 0, ratio * camera.scale, -camera.x * camera.scale * ratio, -camera.y * camera.scale * ratio);
    if (camera.scale < STRIPS) this.#drawStrips(context);
    else {
      const view = this.#view(camera);
      this.#drawEdges(context, camera, view);
      for (const pos of [near, chosen]) if (pos >= 0) this.#drawOwnEdges(context, camera, pos);
      this.#drawBoxes(context, camera, view);
    }
    const style = { fills: this.#fills, colours: this.#colours, look: this.#look };
    for (const block of this.scene.blocks) block.draw(context, camera, style, block.pos === chosen ? element : -1);
    for (const pos of [near, chosen]) if (pos >= 0) this.#outline(context, camera, pos, pos === chosen);
  }

  /** @param {CanvasRenderingContext2D} context */
  #drawStrips(context) {
    context.imageSmoothingEnabled = false;
    const { scene } = this;
    const perRow = this.#heat.height / scene.rows;
    let row = 0;
    let down = 0;
    for (let nth = 0; nth <= scene.blocks.length; nth++) {
      const end = nth < scene.blocks.length ? Math.floor(scene.blockRows[nth] / 4) + 1 : scene.rows;
      if (end > row) context.drawImage(this.#heat, 0, row * perRow, this.#heat.width, (end - row) * perRow, 0, row * BOX.rowPitch + down, scene.columns * BOX.columnPitch, (end - row) * BOX.rowPitch);
      row = Math.max(row, end);
      down += scene.blocks[nth]?.height ?? 0;
    }
  }

  /** @param {import("./camera.js").Camera} camera */
  #view(camera) {
    const [left, top] = camera.world(0, 0);
    const [right, bottom] = camera.world(camera.width, camera.height);
    const first = Math.max(0, Math.floor((left - BOX.width) / BOX.columnPitch));
    const last = Math.min(this.scene.columns - 1, Math.floor(right / BOX.columnPitch));
    return { left, top, right, bottom, first, last };
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera @param {any} view */
  #drawEdges(context, camera, view) {
    const { short, long } = this.scene;
    const lists = [long];
    for (let column = Math.max(0, view.first - 1); column <= view.last; column++) lists.push(short[column]);
    const all = lists.reduce((sum, one) => sum + one.length / 5, 0);
    const step = Math.max(1, Math.ceil(all / EDGES_MAX)) * 5;
    const curved = camera.scale >= NAMED;
    context.beginPath();
    for (const list of lists) {
      for (let at = 0; at < list.length; at += step) {
        const y1 = list[at + 1];
        const y2 = list[at + 3];
        if ((y1 < view.top && y2 < view.top) || (y1 > view.bottom && y2 > view.bottom) || list[at + 2] < view.left || list[at] > view.right) continue;
        segment(context, list[at], y1, list[at + 2], y2, curved);
      }
    }
    context.strokeStyle = this.#look["line-strong"];
    context.globalAlpha = step > 5 ? 0.45 : 0.85;
    context.lineWidth = 1 / camera.scale;
    context.stroke();
    context.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera @param {number} pos */
  #drawOwnEdges(context, camera, pos) {
    const own = new Set((this.scene.edgesOf.get(pos) ?? []).slice(0, EDGES_MAX));
    if (!own.size) return;
    context.beginPath();
    for (const list of [...this.scene.short, this.scene.long]) {
      for (let at = 0; at < list.length; at += 5) {
        if (own.has(list[at + 4])) segment(context, list[at], list[at + 1], list[at + 2], list[at + 3], true);
      }
    }
    context.strokeStyle = this.#look.accent;
    context.lineWidth = 1.8 / camera.scale;
    context.stroke();
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera @param {any} view */
  #drawBoxes(context, camera, view) {
    const { scene, model } = this;
    const named = camera.scale >= NAMED;
    for (let column = view.first; column <= view.last; column++) {
      const list = scene.byColumn[column];
      for (let nth = scene.firstBelow(column, view.top - BOX.height); nth < list.length; nth++) {
        const pos = list[nth];
        if (scene.y[pos] > view.bottom) break;
        if (named) this.#drawNamed(context, pos);
        else {
          context.fillStyle = this.#fills[model.states[pos]];
          context.fillRect(scene.x[pos], scene.y[pos], BOX.width, BOX.height);
        }
      }
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {number} pos */
  #drawNamed(context, pos) {
    const { scene, model } = this;
    const x = scene.x[pos];
    const y = scene.y[pos];
    const colour = this.#colours[model.states[pos]];
    context.fillStyle = this.#look.raised;
    context.strokeStyle = colour;
    context.lineWidth = 1.2;
    context.beginPath();
    context.roundRect(x, y, BOX.width, BOX.height, 6);
    context.fill();
    context.stroke();
    this.#drawShape(context, x + 9, y + 9, pos, colour);
    const elements = model.elements.get(pos);
    const took = model.took(pos);
    const long = elements ? `× ${elements.elements}` : Number.isNaN(took) || took < 0 ? "" : span(took);
    const more = model.opens(pos) ? `${long} ${scene.blocks.some((block) => block.pos === pos) ? "▾" : "▸"}` : long;
    context.font = `11px ${this.#look.font}`;
    context.textBaseline = "middle";
    context.textAlign = "right";
    context.fillStyle = this.#look.soft;
    context.fillText(more, x + BOX.width - 9, y + BOX.height / 2 + 0.5);
    const room = BOX.width - 40 - (more ? context.measureText(more).width + 8 : 0);
    context.font = `13px ${this.#look.font}`;
    context.textAlign = "left";
    context.fillStyle = this.#look.text;
    context.fillText(shortened(scene.names[pos], room), x + 31, y + BOX.height / 2 + 0.5);
    if (elements) this.#drawProgress(context, x, y, elements);
  }

  /** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {number} pos @param {string} colour */
  #drawShape(context, x, y, pos, colour) {
    context.save();
    context.translate(x, y);
    context.strokeStyle = colour;
    context.lineWidth = 1.8;
    context.lineCap = "round";
    context.lineJoin = "round";
    context.stroke(PATHS[STATES[this.model.states[pos]]]);
    context.restore();
  }

  /** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y @param {{elements: number, states: Record<string, number>}} counts */
  #drawProgress(context, x, y, { elements, states }) {
    let at = x + 8;
    const width = BOX.width - 16;
    context.fillStyle = this.#look.line;
    context.fillRect(at, y + BOX.height - 5, width, 2.5);
    STATES.forEach((state, place) => {
      if (!states[state] || state === "pending") return;
      const part = (width * states[state]) / Math.max(1, elements);
      context.fillStyle = this.#colours[place];
      context.fillRect(at, y + BOX.height - 5, part, 2.5);
      at += part;
    });
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera @param {number} pos @param {boolean} strong */
  #outline(context, camera, pos, strong) {
    context.strokeStyle = strong ? this.#look.accent : this.#look.text;
    context.lineWidth = (strong ? 3 : 1.5) / Math.max(camera.scale, 0.05);
    context.beginPath();
    context.roundRect(this.scene.x[pos] - 3, this.scene.y[pos] - 3, BOX.width + 6, BOX.height + 6, 8);
    context.stroke();
  }
}

/** @param {CanvasRenderingContext2D} context @param {number} x1 @param {number} y1 @param {number} x2 @param {number} y2 @param {boolean} curved */
function segment(context, x1, y1, x2, y2, curved) {
  context.moveTo(x1, y1);
  if (!curved || y1 === y2) context.lineTo(x2, y2);
  else {
    const half = (x1 + x2) / 2;
    context.bezierCurveTo(half, y1, half, y2, x2, y2);
  }
}

/** The names of tasks are of plain letters: 6.8 of our pixels each, near enough. @param {string} name @param {number} room */
function shortened(name, room) {
  const most = Math.floor(room / 6.8);
  return name.length <= most ? name : `${name.slice(0, Math.max(1, most - 1))}…`;
}

/** #rrggbb as a pixel. @param {string} colour */
function packed(colour) {
  const value = parseInt(colour.slice(1), 16);
  return (255 << 24) | ((value & 255) << 16) | (value & 0xff00) | (value >> 16);
}
