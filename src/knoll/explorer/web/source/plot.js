// The map: rows in a view under a camera, painted by WebGL2 or, without it, by Canvas 2D.

import { extent, Grid, project } from "./geometry.js";
import { CpuPainter } from "./paint_cpu.js";
import { glPainter } from "./paint_gl.js";
import { greyOf, texels } from "./palette.js";

/** @typedef {import("./types.js").Camera} Camera */
/** @typedef {import("./types.js").Painter} Painter */

const FRAME = 14;  // milliseconds that a picture may take while it moves
const REST = 140;  // milliseconds without a move until all rows are drawn

export class Plot {
  /** `webgl`: "auto" where it runs on a GPU, true wherever there is one, false never. @param {HTMLElement} host @param {{ webgl?: boolean | "auto" }} [options] */
  constructor(host, { webgl = "auto" } = {}) {
    this.host = host;
    this.webgl = webgl;
    /** @type {Float32Array[]} */
    this.columns = [];
    /** @type {Uint16Array} */
    this.labels = new Uint16Array(0);
    /** @type {Uint8Array | null} */
    this.flags = null;  // bit 0: selected, bit 1: not shown
    this.dim = false;  // rows that are not selected are grey
    this.colorOf = /** @type {ReadonlyMap<number, number>} */ (new Map());
    this.ax = new Float32Array(0);
    this.ay = new Float32Array(0);
    this.equal = true;  // one unit for both axes
    /** @type {Camera} */
    this.camera = { x: 0, y: 0, sx: 1, sy: 1 };
    /** @type {Grid | null} */
    this.grid_ = null;
    this.listeners = new Set();
    this.drawn = 0;
    this.milliseconds = 0;
    /** @type {Uint32Array | null} */
    this.sample = null;
    this.abort = new AbortController();
    this.canvas = document.createElement("canvas");
    this.painter = this.#newPainter();
    this.observer = new ResizeObserver(() => this.#resized());
    this.observer.observe(host);
  }

  get rows() {
    return this.labels.length;
  }

  /** Call `seen` after each picture. @param {() => void} seen */
  onDraw(seen) {
    this.listeners.add(seen);
  }

  /** @param {Float32Array[]} columns */
  setColumns(columns) {
    this.columns = columns;
    this.labels = new Uint16Array(columns.length ? columns[0].length : 0);
    this.flags = null;
    this.dim = false;
    this.sample = null;
    this.painter.setColumns(columns);
    this.painter.setPalette(texels(this.colorOf));
    this.#forget();
  }

  /** @param {Uint16Array} labels */
  setLabels(labels) {
    this.labels = labels;
    this.painter.setLabels(labels);
    this.redraw();
  }

  /** @param {Uint8Array} flags bit 0: selected, bit 1: not shown @param {boolean} dim whether the other rows are grey */
  setFlags(flags, dim) {
    this.flags = flags;
    this.dim = dim;
    this.painter.setFlags(flags);
    this.redraw();
  }

  /** @param {ReadonlyMap<number, number>} [colorOf] colour numbers of labels that have another than their own */
  setColors(colorOf = this.colorOf) {
    this.colorOf = colorOf;
    this.painter.setPalette(texels(colorOf));
    this.redraw();
  }

  /** @param {ArrayLike<number>} ax @param {ArrayLike<number>} ay @param {{ equal?: boolean, moving?: boolean }} [how] */
  setView(ax, ay, { equal = this.equal, moving = false } = {}) {
    this.ax = Float32Array.from(ax);
    this.ay = Float32Array.from(ay);
    this.equal = equal;
    this.#forget();
    this.redraw(moving);
  }

  /** The view of another plot of the same rows, with its grid. @param {Plot} other */
  shareView(other) {
    [this.ax, this.ay, this.equal, this.grid_] = [other.ax, other.ay, other.equal, other.grid_];
  }

  #forget() {
    this.grid_ = null;
  }

  /** The rows in the plane, made when they are first asked for. */
  get grid() {
    this.grid_ ??= new Grid(project(this.columns, this.ax), project(this.columns, this.ay));
    return this.grid_;
  }

  /** Show all rows. */
  fit() {
    const { left, right, bottom, top } = this.#bounds(), { width, height } = this.canvas;
    const edge = 26 * this.dense;
    let sx = Math.max(1, width - 2 * edge) / (right - left || 1), sy = Math.max(1, height - 2 * edge) / (top - bottom || 1);
    if (this.equal) sx = sy = Math.min(sx, sy);
    this.camera = { x: (left + right) / 2, y: (bottom + top) / 2, sx, sy };
    this.home = { ...this.camera };
    this.redraw();
  }

  #bounds() {
    if (this.grid_) return this.grid_;
    const [left, right] = extent(project(this.columns, this.ax)), [bottom, top] = extent(project(this.columns, this.ay));
    return { left, right, bottom, top };
  }

  get dense() {
    return window.devicePixelRatio || 1;
  }

  /** From pixels of the page, counted in the host, to the plane. @param {number} x @param {number} y @returns {[number, number]} */
  toPlane(x, y) {
    const { camera, canvas, dense } = this;
    return [camera.x + (x * dense - canvas.width / 2) / camera.sx, camera.y - (y * dense - canvas.height / 2) / camera.sy];
  }

  /** From the plane to pixels of the host. @param {number} x @param {number} y @returns {[number, number]} */
  toHost(x, y) {
    const { camera, canvas, dense } = this;
    return [(canvas.width / 2 + (x - camera.x) * camera.sx) / dense, (canvas.height / 2 - (y - camera.y) * camera.sy) / dense];
  }

  /** @param {number} dx @param {number} dy pixels of the host */
  pan(dx, dy) {
    this.camera.x -= (dx * this.dense) / this.camera.sx;
    this.camera.y += (dy * this.dense) / this.camera.sy;
    this.redraw(true);
  }

  /** The point under (x, y) stays where it is. @param {number} by @param {number} [x] @param {number} [y] */
  zoom(by, x = this.host.clientWidth / 2, y = this.host.clientHeight / 2) {
    const [px, py] = this.toPlane(x, y), home = this.home ?? this.camera;
    const factor = Math.min(Math.max(by, (0.1 * home.sx) / this.camera.sx), (1e5 * home.sx) / this.camera.sx);
    this.camera.sx *= factor;
    this.camera.sy *= factor;
    const [qx, qy] = this.toPlane(x, y);
    this.camera.x += px - qx;
    this.camera.y += py - qy;
    this.redraw(true);
  }

  /** The row at a pixel of the host, −1: none. @param {number} x @param {number} y @param {number} [reach] */
  pick(x, y, reach = 9) {
    const [px, py] = this.toPlane(x, y), r = reach * this.dense;
    return this.grid.pick(px, py, r / this.camera.sx, r / this.camera.sy, (i) => !(this.flags && this.flags[i] & 2));
  }

  /** Flags of the shown rows in a polygon of pixels of the host. @param {[number, number][]} polygon */
  inside(polygon) {
    const flags = this.grid.inside(polygon.map(([x, y]) => this.toPlane(x, y)));
    if (this.flags) for (let i = 0; i < flags.length; i++) if (this.flags[i] & 2) flags[i] = 0;
    return flags;
  }

  /** Diameter of a point in pixels of the canvas, and −log(1 − opacity). */
  get ink() {
    const n = Math.max(1, this.rows), zoomed = this.home ? Math.sqrt(Math.max(1, this.camera.sx / this.home.sx)) : 1;
    const size = Math.min(7, Math.max(1.6, (150 / Math.sqrt(n)) * 1.6 + 0.6) * Math.min(3, zoomed)) * this.dense;
    return { size, tau: Math.min(2, Math.max(0.12, (300 / Math.sqrt(n)) * Math.min(4, zoomed))) };
  }

  /** Draw in the next frame; while the picture moves, a sample if all rows would take too long. @param {boolean} [moving] */
  redraw(moving = false) {
    this.moving = moving;
    clearTimeout(this.rest);
    if (moving) this.rest = setTimeout(() => this.redraw(), REST);
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  draw() {
    if (!this.rows || !this.canvas.width) return;
    const moving = Boolean(this.moving && this.milliseconds > FRAME), { size, tau } = this.ink;
    if (moving && !this.sample) this.#drawSample();
    const begun = performance.now();
    this.painter.draw({
      ax: this.ax, ay: this.ay, camera: this.camera, size, tau, faint: 0.9 * Math.min(tau, 0.8), dim: this.dim,
      grey: greyOf(), moving,
    });
    this.#time(begun, moving);
    this.drawn += 1;
    this.host.dataset.drawn = String(this.drawn);
    this.host.dataset.painter = this.painter.name;
    this.listeners.forEach((seen) => seen());
  }

  // How long a picture of all rows takes. A GPU draws after `draw` has returned: there the time between frames counts.
  /** @param {number} begun @param {boolean} sampled */
  #time(begun, sampled) {
    const last = this.begun ?? -Infinity;
    this.begun = begun;
    if (sampled) return;
    if (this.painter.name === "canvas2d") this.milliseconds = performance.now() - begun;
    else if (this.moving && begun - last < 1500) this.milliseconds = 0.6 * this.milliseconds + 0.4 * Math.max(0, begun - last - 4);
  }

  // A sample by a multiplicative generator: any order of the rows, the same rows each time.
  #drawSample() {
    const count = Math.min(this.rows, Math.max(20000, Math.round((this.rows * FRAME) / this.milliseconds)));
    const rows = new Uint32Array(count);
    let state = 12345;
    for (let i = 0; i < count; i++) {
      state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
      rows[i] = Math.floor((state / 4294967296) * this.rows);
    }
    this.sample = rows;
    this.painter.setSample(rows);
  }

  // ---- the canvas, and what happens when its context is lost ----

  /** @returns {Painter} */
  #newPainter() {
    const canvas = this.canvas;
    const gl = this.webgl ? glPainter(canvas, this.webgl === true) : null;
    canvas.setAttribute("aria-hidden", "true");
    canvas.className = "points";
    if (gl) {
      canvas.addEventListener("webglcontextlost", (event) => { event.preventDefault(); this.#lost(); }, { signal: this.abort.signal });
      this.host.prepend(canvas);
      return gl;
    }
    const plain = this.webgl ? /** @type {HTMLCanvasElement} */ (canvas.cloneNode()) : canvas;  // a context was given away
    this.canvas = plain;
    this.host.prepend(plain);
    return new CpuPainter(plain);
  }

  // A new canvas gets a new context; after three losses, one that cannot be lost.
  #lost() {
    this.losses = (this.losses ?? 0) + 1;
    if (this.losses > 3) this.webgl = false;
    this.#replace();
  }

  #replace() {
    const { width, height } = this.canvas;
    this.canvas.remove();
    this.canvas = document.createElement("canvas");
    this.painter = this.#newPainter();
    Object.assign(this.canvas, { width, height });
    this.painter.setColumns(this.columns);
    this.painter.setPalette(texels(this.colorOf));
    this.painter.setLabels(this.labels);
    if (this.flags) this.painter.setFlags(this.flags);
    if (this.sample) this.painter.setSample(this.sample);
    this.redraw(this.moving);
  }

  #resized() {
    const width = Math.round(this.host.clientWidth * this.dense), height = Math.round(this.host.clientHeight * this.dense);
    if (!width || !height || (width === this.canvas.width && height === this.canvas.height)) return;
    const first = !this.home, same = this.home && this.camera.sx === this.home.sx && this.camera.x === this.home.x;
    const by = Math.min(width / this.canvas.width, height / this.canvas.height);
    Object.assign(this.canvas, { width, height });
    if (first || same) this.fit();
    else if (Number.isFinite(by) && this.home) {  // what was in sight stays in sight
      for (const one of [this.camera, this.home]) Object.assign(one, { sx: one.sx * by, sy: one.sy * by });
    }
    this.draw();  // at once: a resized canvas is empty
  }

  destroy() {
    this.abort.abort();
    this.observer.disconnect();
    clearTimeout(this.rest);
    cancelAnimationFrame(this.waiting ?? 0);
    this.canvas.remove();
  }
}
