// @ts-check
/** What part of the picture is seen: a point of it, and how large. */

const NEAR = 2.5;

export class Camera {
  x = 0;
  y = 0;
  scale = 1;
  width = 1;
  height = 1;
  #least = 0.001;

  /** All of it, but never larger than life. @param {number} width @param {number} height */
  fit(width, height) {
    const scale = Math.min(this.width / (width + 80), this.height / (height + 100));
    this.scale = Math.min(1, scale);
    this.#least = Math.min(this.scale, 0.2) / 2;
    this.x = width / 2 - this.width / 2 / this.scale;
    this.y = height / 2 - this.height / 2 / this.scale;
  }

  /** @param {number} factor @param {number} [sx] on the screen @param {number} [sy] */
  zoom(factor, sx = this.width / 2, sy = this.height / 2) {
    const scale = Math.max(this.#least, Math.min(NEAR, this.scale * factor));
    this.x += sx / this.scale - sx / scale;
    this.y += sy / this.scale - sy / scale;
    this.scale = scale;
  }

  /** @param {number} dx on the screen @param {number} dy */
  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
  }

  /** @param {number} x @param {number} y in the middle, if it cannot be seen */
  reveal(x, y) {
    const sx = (x - this.x) * this.scale;
    const sy = (y - this.y) * this.scale;
    if (sx > 40 && sy > 40 && sx < this.width - 40 && sy < this.height - 40) return;
    this.x = x - this.width / 2 / this.scale;
    this.y = y - this.height / 2 / this.scale;
  }

  /** @param {number} sx @param {number} sy @returns {[number, number]} */
  world(sx, sy) {
    return [this.x + sx / this.scale, this.y + sy / this.scale];
  }
}
