// What is drawn over the points: ticks of the axes, the lasso, a cursor for keys, a row with its neighbours and its path.

/** @typedef {import("./plot.js").Plot} Plot */

/**
 * @typedef {{ axis: { name: string, center: number, spread: number }, vertical: boolean }} Scale
 * @typedef {{ outline: [number, number][], cursor: [number, number] | null, rows: number[], near: number[], path: Float32Array[],
 *   scales: Scale[] }} Marks
 */

export class Overlay {
  /** @param {Plot} plot */
  constructor(plot) {
    this.plot = plot;
    this.canvas = document.createElement("canvas");
    this.canvas.className = "points over";
    this.canvas.setAttribute("aria-hidden", "true");
    plot.host.append(this.canvas);
    /** @type {Marks} */
    this.marks = { outline: [], cursor: null, rows: [], near: [], path: [], scales: [] };
    plot.onDraw(() => this.draw());
  }

  /** @param {Partial<Marks>} marks */
  set(marks) {
    Object.assign(this.marks, marks);
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.draw(); });
  }

  /** Coordinates of the host. @param {number} row @returns {[number, number]} */
  place(row) {
    const { grid } = this.plot;
    return this.plot.toHost(grid.x[row], grid.y[row]);
  }

  draw() {
    const { plot, canvas, marks } = this, { dense } = plot;
    if (canvas.width !== plot.canvas.width || canvas.height !== plot.canvas.height) {
      Object.assign(canvas, { width: plot.canvas.width, height: plot.canvas.height });
    }
    const pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d")), style = getComputedStyle(plot.host);
    pen.setTransform(dense, 0, 0, dense, 0, 0);
    pen.clearRect(0, 0, canvas.width, canvas.height);
    const ink = style.getPropertyValue("--ink").trim() || "#000", soft = style.getPropertyValue("--soft").trim() || "#555";
    const accent = style.getPropertyValue("--blue").trim() || "#0072b2", paper = style.getPropertyValue("--card").trim() || "#fff";
    pen.font = '11px system-ui, "DejaVu Sans", Arial, sans-serif';
    marks.scales.forEach((scale) => this.#ticks(pen, scale, soft));
    if (marks.path.length) this.#path(pen, marks.path, ink);
    this.#rows(pen, marks, ink, paper);
    this.#outline(pen, marks, accent);
  }

  /** @param {CanvasRenderingContext2D} pen @param {Scale} scale @param {string} color */
  #ticks(pen, { axis, vertical }, color) {
    const { plot } = this, { clientWidth: wide, clientHeight: high } = plot.host, length = vertical ? high : wide;
    const value = (/** @type {number} */ at) => plot.toPlane(vertical ? 0 : at, vertical ? at : 0)[vertical ? 1 : 0] * axis.spread + axis.center;
    const [low, top] = [value(vertical ? length - 34 : 44), value(vertical ? 12 : length - 12)];
    pen.fillStyle = color;
    pen.textBaseline = vertical ? "middle" : "alphabetic";
    pen.textAlign = vertical ? "left" : "center";
    for (const tick of ticks(low, top, Math.max(2, Math.floor(length / 110)))) {
      const inside = (tick - axis.center) / axis.spread, [x, y] = plot.toHost(inside, inside);
      const at = Math.round(vertical ? y : x);
      pen.fillRect(vertical ? 0 : at, vertical ? at : high - 5, vertical ? 5 : 1, vertical ? 1 : 5);
      pen.fillText(tickText(tick, top - low), vertical ? 9 : at, vertical ? at : high - 9);
    }
  }

  /** @param {CanvasRenderingContext2D} pen @param {Marks} marks @param {string} ink @param {string} paper */
  #rows(pen, { rows, near }, ink, paper) {
    if (!rows.length || rows[0] >= this.plot.rows) return;
    const [x, y] = this.place(rows[0]);
    pen.strokeStyle = ink;
    pen.lineWidth = 1;
    pen.globalAlpha = 0.55;
    for (const other of near) {
      const [u, v] = this.place(other);
      pen.beginPath();
      pen.moveTo(x, y);
      pen.lineTo(u, v);
      pen.stroke();
      ring(pen, u, v, 4);
    }
    pen.globalAlpha = 1;
    for (const row of rows) {
      const [u, v] = this.place(row);
      pen.strokeStyle = paper;
      pen.lineWidth = 4;
      ring(pen, u, v, 7);
      pen.strokeStyle = ink;
      pen.lineWidth = 1.8;
      ring(pen, u, v, 7);
    }
  }

  /** The climb of Mean Shift. @param {CanvasRenderingContext2D} pen @param {Float32Array[]} path @param {string} ink */
  #path(pen, path, ink) {
    const { ax, ay } = this.plot, dot = (/** @type {Float32Array} */ p, /** @type {Float32Array} */ axis) => p.reduce((sum, v, j) => sum + v * (axis[j] ?? 0), 0);
    const points = path.map((p) => this.plot.toHost(dot(p, ax), dot(p, ay)));
    pen.strokeStyle = ink;
    pen.lineWidth = 1.6;
    pen.beginPath();
    points.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
    pen.stroke();
    const [x, y] = points[points.length - 1];
    pen.fillStyle = ink;
    pen.fillRect(x - 3, y - 3, 6, 6);
  }

  /** @param {CanvasRenderingContext2D} pen @param {Marks} marks @param {string} color */
  #outline(pen, { outline, cursor }, color) {
    pen.strokeStyle = color;
    pen.fillStyle = color;
    pen.lineWidth = 1.5;
    if (outline.length > 1) {
      pen.beginPath();
      outline.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
      pen.closePath();
      pen.globalAlpha = 0.1;
      pen.fill();
      pen.globalAlpha = 1;
      pen.setLineDash([5, 3]);
      pen.stroke();
      pen.setLineDash([]);
    }
    if (!cursor) return;
    const [x, y] = cursor;
    pen.beginPath();
    for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
      pen.moveTo(x + 4 * dx, y + 4 * dy);
      pen.lineTo(x + 13 * dx, y + 13 * dy);
    }
    pen.stroke();
  }

  destroy() {
    cancelAnimationFrame(this.waiting ?? 0);
    this.canvas.remove();
  }
}

/** @param {CanvasRenderingContext2D} pen @param {number} x @param {number} y @param {number} r */
function ring(pen, x, y, r) {
  pen.beginPath();
  pen.arc(x, y, r, 0, 2 * Math.PI);
  pen.stroke();
}

/** Round values between two ends, about `count` of them. @param {number} low @param {number} high @param {number} count */
export function ticks(low, high, count) {
  if (!(high > low)) return [];
  const raw = (high - low) / count, power = 10 ** Math.floor(Math.log10(raw)), step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999) ?? raw;
  const found = [];
  for (let at = Math.ceil(low / step); at * step <= high && found.length < 40; at++) found.push(Number((at * step).toPrecision(12)));
  return found;
}

/** @param {number} value @param {number} span */
export function tickText(value, span) {
  if (value === 0) return "0";
  const size = Math.max(Math.abs(value), 1e-3 * span);
  if (size >= 1e6 || size < 1e-4) return value.toExponential(1).replace("-", "−");
  return String(Number(value.toPrecision(6))).replace("-", "−");
}
