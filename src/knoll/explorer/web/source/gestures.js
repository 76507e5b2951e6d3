// What hands do on the map: drag to move, lasso or box; wheel and pinch to zoom; hover and press for a row.

/** @typedef {import("./plot.js").Plot} Plot */
/** @typedef {"move" | "lasso" | "box"} Tool */
/** @typedef {"replace" | "add" | "remove"} Mode */

/**
 * @typedef {{
 *   hover: (row: number, x: number, y: number) => void,
 *   press: (row: number) => void,
 *   select: (flags: Uint8Array, mode: Mode) => void,
 *   outline: (polygon: [number, number][]) => void,
 * }} Hands
 */

export class Gestures {
  /** @param {Plot} plot @param {Hands} hands @param {AbortSignal} signal */
  constructor(plot, hands, signal) {
    this.plot = plot;
    this.hands = hands;
    this.tool = /** @type {Tool} */ ("move");
    /** @type {Map<number, { x: number, y: number }>} */
    this.touches = new Map();
    /** @type {[number, number][] | null} */
    this.polygon = null;
    this.travelled = 0;
    const { host } = plot, how = { signal };
    host.addEventListener("pointerdown", (event) => this.#down(event), how);
    host.addEventListener("pointermove", (event) => this.#move(event), how);
    host.addEventListener("pointerup", (event) => this.#up(event), how);
    host.addEventListener("pointercancel", (event) => this.#cancel(event), how);
    host.addEventListener("pointerleave", () => hands.hover(-1, 0, 0), how);
    host.addEventListener("wheel", (event) => this.#wheel(event), { signal, passive: false });
    host.addEventListener("dblclick", (event) => { if (this.tool === "move") plot.zoom(event.shiftKey ? 0.5 : 2, ...this.#at(event)); }, how);
  }

  /** @param {MouseEvent} event @returns {[number, number]} */
  #at(event) {
    const box = this.plot.host.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  /** @param {PointerEvent} event */
  #down(event) {
    if (event.button !== 0 || (event.target instanceof Element && event.target.closest("button, select, input, a"))) return;
    const [x, y] = this.#at(event);
    try { this.plot.host.setPointerCapture(event.pointerId); } catch { /* a pointer that has gone */ }
    this.touches.set(event.pointerId, { x, y });
    this.travelled = 0;
    const tool = event.shiftKey && this.tool === "move" ? "lasso" : this.tool;
    this.dragging = tool;
    this.polygon = this.touches.size === 1 && tool !== "move" ? [[x, y]] : null;
    this.hands.hover(-1, 0, 0);
  }

  /** @param {PointerEvent} event */
  #move(event) {
    const [x, y] = this.#at(event), last = this.touches.get(event.pointerId);
    if (!last) {
      if (event.pointerType === "mouse") this.#hover(x, y);
      return;
    }
    this.travelled += Math.hypot(x - last.x, y - last.y);
    if (this.touches.size === 2) this.#pinch(event.pointerId, x, y, last);
    else if (this.polygon) this.#extend(x, y);
    else if (this.touches.size === 1) this.plot.pan(x - last.x, y - last.y);
    this.touches.set(event.pointerId, { x, y });
  }

  /** @param {number} x @param {number} y */
  #hover(x, y) {
    cancelAnimationFrame(this.asked ?? 0);
    this.asked = requestAnimationFrame(() => this.hands.hover(this.plot.pick(x, y), x, y));
  }

  /** @param {number} id @param {number} x @param {number} y @param {{ x: number, y: number }} last */
  #pinch(id, x, y, last) {
    const other = [...this.touches].find(([key]) => key !== id)?.[1];
    if (!other) return;
    this.polygon = null;
    this.hands.outline([]);
    const was = Math.hypot(last.x - other.x, last.y - other.y), is = Math.hypot(x - other.x, y - other.y);
    this.plot.pan((x - last.x) / 2, (y - last.y) / 2);
    if (was > 1 && is > 1) this.plot.zoom(is / was, (x + other.x) / 2, (y + other.y) / 2);
  }

  /** @param {number} x @param {number} y */
  #extend(x, y) {
    const polygon = /** @type {[number, number][]} */ (this.polygon), [x0, y0] = polygon[0];
    if (this.dragging === "box") this.polygon = [[x0, y0], [x, y0], [x, y], [x0, y]];
    else if (Math.hypot(x - polygon[polygon.length - 1][0], y - polygon[polygon.length - 1][1]) > 2) polygon.push([x, y]);
    this.hands.outline(this.polygon ?? []);
  }

  /** @param {PointerEvent} event */
  #up(event) {
    if (!this.touches.delete(event.pointerId)) return;
    const [x, y] = this.#at(event), polygon = this.polygon;
    this.polygon = null;
    if (this.travelled < 5) this.hands.press(this.plot.pick(x, y, event.pointerType === "mouse" ? 9 : 18));
    else if (polygon && polygon.length > 2) {
      this.hands.select(this.plot.inside(polygon), event.altKey ? "remove" : event.ctrlKey || event.metaKey ? "add" : "replace");
    }
    if (polygon) this.hands.outline([]);
  }

  /** @param {PointerEvent} event */
  #cancel(event) {
    this.touches.delete(event.pointerId);
    this.abandon();
  }

  /** Give up the lasso or box that is being drawn. */
  abandon() {
    const drawn = this.polygon !== null;
    this.polygon = null;
    this.hands.outline([]);
    return drawn;
  }

  /** @param {WheelEvent} event */
  #wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.plot.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0016)), ...this.#at(event));
  }
}
