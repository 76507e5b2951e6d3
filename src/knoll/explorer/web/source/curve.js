// A parameter on the curve that explains it: drag anywhere, or use the arrow keys; the suggestion is marked.

import { h, number, svg } from "./dom.js";
import { tickText, ticks } from "./overlay.js";

const WIDE = 288, HIGH = 132, LEFT = 8, RIGHT = 8, TOP = 12, BOTTOM = 22;

/**
 * @typedef {{ name: string, parameter: string, x_label: string, y_label: string, log_x: boolean, suggested: number | null,
 *   reason: string, curves: string[], x: Float64Array, y: Float64Array, whole: boolean }} Evidence
 */

export class Curve {
  /** @param {Evidence} evidence @param {number} value @param {(value: number, done: boolean) => void} moved */
  constructor(evidence, value, moved) {
    this.evidence = evidence;
    this.moved = moved;
    const { x } = evidence;
    this.low = x[0];
    this.high = x[x.length - 1];
    this.log = evidence.log_x && this.low > 0;
    this.marker = svg("g", { class: "kx-marker" }, svg("line", { y1: TOP - 4, y2: HIGH - BOTTOM }), svg("circle", { r: 6, cy: TOP - 2 }));
    this.picture = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "kx-curve-svg", "aria-hidden": "true" },
      ...this.#axis(), ...this.#lines(), this.#suggestion(), this.marker);
    this.el = h("div", {
      class: "kx-curve", tabIndex: 0, role: "slider", "data-key": `curve-${evidence.parameter}`, "aria-label": `${evidence.parameter}: ${evidence.name}`,
      "aria-valuemin": String(this.low), "aria-valuemax": String(this.high),
      onpointerdown: (/** @type {PointerEvent} */ event) => this.#down(event), onpointermove: (/** @type {PointerEvent} */ event) => this.#drag(event),
      onpointerup: (/** @type {PointerEvent} */ event) => this.#up(event), onpointercancel: () => { this.dragging = false; },
      onkeydown: (/** @type {KeyboardEvent} */ event) => this.#key(event),
    }, this.picture);
    this.show(value);
  }

  /** @param {number} value */
  #share(value) {
    const { low, high, log } = this, at = log ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : (value - low) / (high - low || 1);
    return Math.min(1, Math.max(0, at || 0));
  }

  /** @param {number} share */
  #value(share) {
    const { low, high, log, evidence } = this, value = log ? low * (high / low) ** share : low + share * (high - low);
    return evidence.whole ? Math.round(value) : Number(value.toPrecision(4));
  }

  /** @param {number} value */
  #x(value) {
    return LEFT + this.#share(value) * (WIDE - LEFT - RIGHT);
  }

  #axis() {
    const { low, high, log } = this, at = log ? logTicks(low, high) : ticks(low, high, 5).filter((tick) => !this.evidence.whole || Number.isInteger(tick));
    let last = -Infinity;
    const labels = at.map((tick) => {
      const x = this.#x(tick);
      if (x - last < 30) return null;
      last = x;
      return svg("text", { x: Math.min(WIDE - 12, Math.max(10, x)), y: HIGH - 7, class: "kx-axis" }, tickText(tick, log ? tick : high - low));
    });
    return [svg("line", { x1: LEFT, x2: WIDE - RIGHT, y1: HIGH - BOTTOM, y2: HIGH - BOTTOM, class: "kx-grid" }), ...labels.filter(Boolean)];
  }

  // Each curve over the whole height: their units differ.
  #lines() {
    const { x, y, curves } = this.evidence, m = x.length;
    return curves.slice(0, 3).map((_, k) => {
      const values = [...y.slice(k * m, (k + 1) * m)], known = values.filter(Number.isFinite), low = Math.min(...known), high = Math.max(...known);
      const points = values.map((value, i) => (Number.isFinite(value)
        ? `${this.#x(x[i]).toFixed(1)},${(HIGH - BOTTOM - 3 - ((value - low) / (high - low || 1)) * (HIGH - TOP - BOTTOM - 8)).toFixed(1)}` : null)).filter(Boolean);
      return svg("g", { class: `kx-line kx-line-${k}` }, svg("polyline", { points: points.join(" ") }),
        ...(m <= 40 ? points.map((point) => { const [cx, cy] = String(point).split(","); return svg("circle", { cx, cy, r: 2.2 }); }) : []));
    });
  }

  #suggestion() {
    const { suggested } = this.evidence;
    if (suggested === null || suggested === undefined) return null;
    const x = this.#x(suggested);
    return svg("path", { class: "kx-suggested", d: `M${x - 5} ${HIGH - BOTTOM + 1}h10l-5 -8z` }, svg("title", {}, `suggested: ${number(suggested)}`));
  }

  /** The values of the curves at the marker: of the nearest position that was measured. */
  get values() {
    const { x, y, curves } = this.evidence, m = x.length, at = this.#share(this.value ?? this.low);
    let nearest = 0;
    for (let i = 1; i < m; i++) if (Math.abs(this.#share(x[i]) - at) < Math.abs(this.#share(x[nearest]) - at)) nearest = i;
    return curves.map((_, k) => y[k * m + nearest]);
  }

  /** @param {number} value */
  show(value) {
    this.value = value;
    this.marker.setAttribute("transform", `translate(${this.#x(value)} 0)`);
    this.el.setAttribute("aria-valuenow", String(value));
    this.el.setAttribute("aria-valuetext", `${this.evidence.parameter} ${number(value)}`);
  }

  /** @param {PointerEvent} event */
  #at(event) {
    const box = this.picture.getBoundingClientRect();
    return this.#value(Math.min(1, Math.max(0, ((event.clientX - box.left) / box.width * WIDE - LEFT) / (WIDE - LEFT - RIGHT))));
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0) return;
    this.el.setPointerCapture(event.pointerId);
    this.el.focus({ preventScroll: true });
    event.preventDefault();
    this.dragging = true;
    this.#to(this.#at(event), false);
  }

  /** @param {PointerEvent} event */
  #drag(event) {
    if (this.dragging) this.#to(this.#at(event), false);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (!this.dragging) return;
    this.dragging = false;
    this.#to(this.#at(event), true);
  }

  /** @param {number} value @param {boolean} done */
  #to(value, done) {
    if (value === this.value && !done) return;
    this.show(value);
    this.moved(value, done);
  }

  // Keys move at once; the step of the history is made when they rest.
  /** @param {KeyboardEvent} event */
  #key(event) {
    const steps = /** @type {Record<string, number>} */ ({ ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -8, PageUp: 8 })[event.key];
    const value = event.key === "Home" ? this.low : event.key === "End" ? this.high : steps ? this.#stepped(steps) : null;
    if (value === null) return;
    event.preventDefault();
    event.stopPropagation();
    this.#to(value, false);
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.moved(this.value ?? value, true), 450);
  }

  /** @param {number} steps */
  #stepped(steps) {
    const value = this.value ?? this.low;
    if (this.evidence.whole && !this.log) return Math.min(this.high, Math.max(this.low, value + steps));
    const next = this.#value(Math.min(1, Math.max(0, this.#share(value) + steps / 60)));
    return next === value && this.evidence.whole ? Math.min(this.high, Math.max(this.low, value + Math.sign(steps))) : next;
  }
}

/** @param {number} low @param {number} high */
function logTicks(low, high) {
  const found = [], factors = high / low > 200 ? [1] : high / low > 20 ? [1, 3] : [1, 1.5, 2, 3, 5, 7];
  for (let power = Math.floor(Math.log10(low)); power <= Math.log10(high); power++) {
    for (const factor of factors) {
      const tick = Number((factor * 10 ** power).toPrecision(3));
      if (tick >= low && tick <= high) found.push(tick);
    }
  }
  return found;
}
