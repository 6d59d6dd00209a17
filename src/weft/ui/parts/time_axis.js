// @ts-check
/** An axis of time on a canvas: where a moment is, what is at a place, and how it is zoomed. */

import { span } from "./format.js";

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 3e4, 6e4, 1.2e5, 3e5, 6e5, 1.8e6, 3.6e6, 1.08e7, 4.32e7, 8.64e7];

/** What part of an axis is seen, as fractions of it. */
export class TimeWindow {
  from = 0;
  to = 1;

  /** @param {number} factor larger than 1: nearer @param {number} [at] the fraction of the window that stays */
  zoom(factor, at = 0.5) {
    const wide = Math.min(1, Math.max(1e-4, (this.to - this.from) / factor));
    const middle = this.from + (this.to - this.from) * at;
    this.from = Math.min(1 - wide, Math.max(0, middle - wide * at));
    this.to = this.from + wide;
  }

  /** @param {number} by a part of what is seen */
  pan(by) {
    const wide = this.to - this.from;
    this.from = Math.min(1 - wide, Math.max(0, this.from + by * wide));
    this.to = this.from + wide;
  }
}

/** From a time to a place on the screen. @param {number} from @param {number} to @param {TimeWindow} seen @param {number} left @param {number} width */
export function scaleOf(from, to, seen, left, width) {
  const perMs = width / ((to - from) * (seen.to - seen.from));
  const origin = left - seen.from * (to - from) * perMs;
  return (/** @type {number} */ at) => origin + (at - from) * perMs;
}

/** Ticks with labels: times since `from`, or of the clock. @param {CanvasRenderingContext2D} context @param {(at: number) => number} x @param {{from: number, to: number, left: number, right: number, top: number, bottom: number, label?: (at: number) => string}} box */
export function drawTicks(context, x, { from, to, left, right, top, bottom, label = (at) => (at === 0 ? "0" : span(at)) }) {
  const perMs = (x(to) - x(from)) / (to - from);
  const step = STEPS_MS.find((one) => one * perMs >= 84) ?? STEPS_MS[STEPS_MS.length - 1];
  const first = Math.max(0, Math.floor(((left - x(from)) / perMs) / step));
  context.beginPath();
  for (let at = first * step; at <= to - from; at += step) {
    const sx = Math.round(x(from + at)) + 0.5;
    if (sx > right) break;
    if (sx < left) continue;
    const text = label(at);
    if (sx + 4 + context.measureText(text).width <= right) context.fillText(text, sx + 4, top + 10);
    context.moveTo(sx, top);
    context.lineTo(sx, bottom);
  }
  context.stroke();
}
