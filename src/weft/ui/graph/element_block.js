// @ts-check
/** The inside of a task that is open, the elements of a mapped one or the tasks of a child run: cells below its box, a row of text for each where there are few. */

import { STATES, word } from "../parts/states.js";
import { BOX } from "./scene.js";

const LISTED = 12; // up to so many have a line of their own
const LINE = 18;
const GAP = 6;
const SEPARATE = 5; // pixels of the screen from which on cells are drawn apart from each other
const CELLS_MAX = 4000; // drawn one by one

export class ElementBlock {
  #image = document.createElement("canvas");
  x = 0;
  y = 0;

  /** @param {number} pos of the task @param {string} name @param {import("../data/run_model.js").Opened} inside */
  constructor(pos, name, { states, run, names }) {
    this.pos = pos;
    this.name = name;
    this.states = states;
    this.run = run;
    this.names = names;
    const many = Math.max(1, states.length);
    this.listed = many <= LISTED;
    this.columns = this.listed ? 1 : many <= 64 ? 8 : many <= 512 ? 16 : many <= 2500 ? 32 : many <= 20000 ? 46 : 92;
    this.rows = Math.ceil(many / this.columns);
    this.cell = BOX.width / this.columns;
    this.tall = this.listed ? LINE : this.cell;
    this.height = this.rows * this.tall + 2 * GAP;
    this.#image.width = this.columns;
    this.#image.height = this.rows;
  }

  /** @param {number} idx */
  label(idx) {
    return this.names ? (this.names[idx] ?? "") : `${this.name}.${idx}`;
  }

  /** Below its box. @param {number} x @param {number} y of the box */
  place(x, y) {
    this.x = x;
    this.y = y + BOX.height + GAP;
  }

  /** The index of the element at a point, or -1. @param {number} x @param {number} y */
  at(x, y) {
    const column = Math.floor((x - this.x) / this.cell);
    const row = Math.floor((y - this.y) / this.tall);
    if (column < 0 || column >= this.columns || row < 0 || row >= this.rows) return -1;
    const idx = row * this.columns + column;
    return idx < this.states.length ? idx : -1;
  }

  /** @param {Uint32Array} colours of states, as pixels */
  paint(colours) {
    const context = /** @type {CanvasRenderingContext2D} */ (this.#image.getContext("2d"));
    const pixels = context.createImageData(this.columns, this.rows);
    const to = new Uint32Array(pixels.data.buffer);
    for (let idx = 0; idx < this.states.length; idx++) to[idx] = colours[this.states[idx]];
    context.putImageData(pixels, 0, 0);
  }

  /**
   * @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera
   * @param {{fills: string[], colours: string[], look: Record<string, string>}} style @param {number} chosen an index, or -1
   */
  draw(context, camera, { fills, colours, look }, chosen) {
    const [, top] = camera.world(0, 0);
    const [, bottom] = camera.world(camera.width, camera.height);
    const first = Math.max(0, Math.floor((top - this.y) / this.tall));
    const last = Math.min(this.rows - 1, Math.floor((bottom - this.y) / this.tall));
    if (last < first) return;
    if (this.listed && camera.scale >= 0.5) this.#drawList(context, colours, look);
    else if (this.tall * camera.scale >= SEPARATE && (last - first + 1) * this.columns <= CELLS_MAX) this.#drawCells(context, camera, fills, first, last);
    else {
      context.imageSmoothingEnabled = false;
      context.drawImage(this.#image, this.x, this.y, BOX.width, this.rows * this.tall);
    }
    if (chosen < 0) return;
    context.strokeStyle = look.accent;
    context.lineWidth = 2.5 / camera.scale;
    context.strokeRect(this.x + (chosen % this.columns) * this.cell, this.y + Math.floor(chosen / this.columns) * this.tall, this.cell, this.tall);
  }

  /** @param {CanvasRenderingContext2D} context @param {import("./camera.js").Camera} camera @param {string[]} fills @param {number} first row @param {number} last row */
  #drawCells(context, camera, fills, first, last) {
    const gap = 1 / camera.scale;
    const end = Math.min(this.states.length, (last + 1) * this.columns);
    for (let idx = first * this.columns; idx < end; idx++) {
      context.fillStyle = fills[this.states[idx]];
      context.fillRect(this.x + (idx % this.columns) * this.cell, this.y + Math.floor(idx / this.columns) * this.tall, this.cell - gap, this.tall - gap);
    }
  }

  /** @param {CanvasRenderingContext2D} context @param {string[]} colours @param {Record<string, string>} look */
  #drawList(context, colours, look) {
    context.font = `11px ${look.font}`;
    context.textBaseline = "middle";
    for (let idx = 0; idx < this.states.length; idx++) {
      const y = this.y + idx * LINE;
      context.fillStyle = colours[this.states[idx]];
      context.fillRect(this.x + 2, y + 3, 5, LINE - 6);
      context.textAlign = "left";
      context.fillStyle = look.text;
      context.fillText(this.names ? this.label(idx).slice(0, 18) : this.label(idx).slice(-18), this.x + 13, y + LINE / 2);
      context.textAlign = "right";
      context.fillStyle = colours[this.states[idx]];
      context.fillText(word(STATES[this.states[idx]]), this.x + BOX.width - 4, y + LINE / 2);
    }
    context.textAlign = "left";
  }
}
