// The same picture without WebGL: the sums of paint_gl.js in arrays, shown by Canvas 2D.

import { project } from "./geometry.js";

/** @typedef {import("./types.js").Scene} Scene */

export class CpuPainter {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    this.name = "canvas2d";
    this.bytes = 0;
    this.calls = 0;
    /** @type {Float32Array[]} */
    this.columns = [];
    this.rows = 0;
    /** @type {Uint16Array} */
    this.labels = new Uint16Array(0);
    /** @type {Uint8Array} */
    this.flags = new Uint8Array(0);
    /** @type {Uint32Array | null} */
    this.sample = null;
    /** @type {Uint8Array} */
    this.palette = new Uint8Array(256 * 256 * 4);
    this.sums = new Float32Array(0);
    /** @type {ArrayLike<number> | null} */
    this.ax = null;
    /** @type {ArrayLike<number> | null} */
    this.ay = null;
    /** @type {Float32Array | null} */
    this.x = null;
    /** @type {Float32Array | null} */
    this.y = null;
  }

  /** @param {Float32Array[]} columns */
  setColumns(columns) {
    this.columns = columns;
    this.rows = columns.length ? columns[0].length : 0;
    this.labels = new Uint16Array(this.rows);
    this.flags = new Uint8Array(this.rows);
    this.x = this.y = null;
  }

  /** @param {Uint16Array} labels */
  setLabels(labels) {
    this.labels = labels;
  }

  /** Bit 0: selected, bit 1: not shown. @param {Uint8Array} flags */
  setFlags(flags) {
    this.flags = flags;
  }

  /** @param {Uint32Array} rows */
  setSample(rows) {
    this.sample = rows;
  }

  /** @param {Uint8Array} texels */
  setPalette(texels) {
    this.palette = texels;
  }

  /** @param {Scene} scene */
  draw(scene) {
    const { width, height } = this.canvas, sampled = scene.moving && this.sample && this.sample.length < this.rows;
    if (this.sums.length !== 4 * width * height) this.sums = new Float32Array(4 * width * height);
    else this.sums.fill(0);
    this.#project(scene);
    this.#stamp(sampled ? this.sample : null, scene, width, height);
    this.#show(width, height);
    this.calls += 1;
  }

  // Coordinates in the plane; they are kept while the view stays.
  /** @param {Scene} scene */
  #project({ ax, ay }) {
    if (this.x && this.ax === ax && this.ay === ay) return;
    this.ax = ax;
    this.ay = ay;
    this.x = project(this.columns, ax);
    this.y = project(this.columns, ay);
  }

  /** @param {Uint32Array | null} rows null: all @param {Scene} scene @param {number} width @param {number} height */
  #stamp(rows, { camera, size, tau, faint, dim, grey }, width, height) {
    const { sums, flags, labels, palette } = this, xs = /** @type {Float32Array} */ (this.x), ys = /** @type {Float32Array} */ (this.y);
    const half = 0.5 * size + 0.5, { sx, sy } = camera, x0 = width / 2 - camera.x * sx, y0 = height / 2 + camera.y * sy;
    const count = rows ? rows.length : this.rows;
    for (let at = 0; at < count; at++) {
      const i = rows ? rows[at] : at, entry = 4 * labels[i], x = x0 + xs[i] * sx, y = y0 - ys[i] * sy;
      if (flags[i] & 2 || !(x > -half && y > -half && x < width + half && y < height + half)) continue;
      const away = dim && (flags[i] & 1) === 0, weight = away ? faint : tau;
      const r = away ? grey[0] : palette[entry], g = away ? grey[1] : palette[entry + 1], b = away ? grey[2] : palette[entry + 2];
      const left = Math.max(0, Math.ceil(x - half - 0.5)), right = Math.min(width - 1, Math.floor(x + half - 0.5));
      const top = Math.max(0, Math.ceil(y - half - 0.5)), bottom = Math.min(height - 1, Math.floor(y + half - 0.5));
      for (let row = top; row <= bottom; row++) {
        const down = row + 0.5 - y;
        for (let column = left; column <= right; column++) {
          const over = column + 0.5 - x, cover = half - Math.sqrt(over * over + down * down);
          if (cover <= 0) continue;
          const t = cover < 1 ? weight * cover : weight, pixel = 4 * (row * width + column);
          sums[pixel] += r * t;
          sums[pixel + 1] += g * t;
          sums[pixel + 2] += b * t;
          sums[pixel + 3] += t;
        }
      }
    }
  }

  /** @param {number} width @param {number} height */
  #show(width, height) {
    const image = this.pen.createImageData(width, height), out = image.data, { sums } = this;
    for (let at = 0; at < sums.length; at += 4) {
      const sum = sums[at + 3];
      if (!(sum > 0)) continue;
      out[at] = sums[at] / sum + 0.5;
      out[at + 1] = sums[at + 1] / sum + 0.5;
      out[at + 2] = sums[at + 2] / sum + 0.5;
      out[at + 3] = 255 * (1 - Math.exp(-sum)) + 0.5;
    }
    this.pen.putImageData(image, 0, 0);
  }

  finish() {}  // drawn when `draw` returns
}
