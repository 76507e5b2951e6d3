// Rows in the plane: projection, a grid over the projected rows, the row at a point, the rows in a polygon.

/** The rows' coordinates in a view. @param {Float32Array[]} columns @param {ArrayLike<number>} axis */
export function project(columns, axis) {
  const rows = columns.length ? columns[0].length : 0, out = new Float32Array(rows);
  columns.forEach((column, c) => {
    const by = axis[c];
    if (by === 0) return;
    for (let i = 0; i < rows; i++) out[i] += by * column[i];
  });
  return out;
}

/** Smallest and largest finite value. @param {ArrayLike<number>} values @returns {[number, number]} */
export function extent(values) {
  let low = Infinity, high = -Infinity;
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    if (value < low) low = value;
    if (value > high && value < Infinity) high = value;
  }
  return low <= high ? [low, high] : [0, 1];
}

/** Projected rows sorted into square cells of a raster. */
export class Grid {
  /** @param {Float32Array} x @param {Float32Array} y */
  constructor(x, y) {
    this.left = this.right = this.bottom = this.top = 0;
    this.x = x;
    this.y = y;
    const [left, right] = extent(x), [bottom, top] = extent(y);
    Object.assign(this, { left, right, bottom, top });
    const side = Math.max(1, Math.min(1024, Math.round(Math.sqrt(x.length / 4))));
    this.side = side;
    this.wide = (this.right - this.left) / side || 1;
    this.high = (this.top - this.bottom) / side || 1;
    const cells = new Uint32Array(x.length), starts = new Uint32Array(side * side + 1);
    for (let i = 0; i < x.length; i++) {
      cells[i] = this.#row(y[i]) * side + this.#column(x[i]);
      starts[cells[i] + 1]++;
    }
    for (let c = 0; c < side * side; c++) starts[c + 1] += starts[c];
    this.starts = starts.slice();
    this.rows = new Uint32Array(x.length);
    for (let i = 0; i < x.length; i++) this.rows[starts[cells[i]]++] = i;
  }

  /** @param {number} x */
  #column(x) {
    return Math.min(this.side - 1, Math.max(0, Math.floor((x - this.left) / this.wide) || 0));
  }

  /** @param {number} y */
  #row(y) {
    return Math.min(this.side - 1, Math.max(0, Math.floor((y - this.bottom) / this.high) || 0));
  }

  /**
   * The nearest row within `rx` to the sides and `ry` up and down, −1: none.
   * @param {number} x @param {number} y @param {number} rx @param {number} ry @param {(row: number) => boolean} shown
   */
  pick(x, y, rx, ry, shown) {
    let best = -1, least = 1;
    for (let r = this.#row(y - ry); r <= this.#row(y + ry); r++) {
      for (let at = this.starts[r * this.side + this.#column(x - rx)], end = this.starts[r * this.side + this.#column(x + rx) + 1]; at < end; at++) {
        const i = this.rows[at], over = (this.x[i] - x) / rx, up = (this.y[i] - y) / ry, far = over * over + up * up;
        if ((far < least || (far === least && best >= 0 && i < best)) && shown(i)) [best, least] = [i, far];
      }
    }
    return best;
  }

  /**
   * Flags of the rows in a polygon, by the even-odd rule. A cell that no edge touches is decided once.
   * @param {[number, number][]} polygon @returns {Uint8Array}
   */
  inside(polygon) {
    const flags = new Uint8Array(this.x.length), { side, starts, rows } = this;
    if (polygon.length < 3) return flags;
    const touched = this.#touched(polygon), bottom = this.#row(Math.min(...polygon.map((p) => p[1])));
    const top = this.#row(Math.max(...polygon.map((p) => p[1])));
    const left = this.#column(Math.min(...polygon.map((p) => p[0]))), right = this.#column(Math.max(...polygon.map((p) => p[0])));
    for (let r = bottom; r <= top; r++) {
      let within = -1;  // of the cells since the last touched one; −1: not known
      for (let c = left; c <= right; c++) {
        const cell = r * side + c;
        if (touched[cell]) {
          within = -1;
          for (let at = starts[cell]; at < starts[cell + 1]; at++) {
            const i = rows[at];
            flags[i] = evenOdd(polygon, this.x[i], this.y[i]) ? 1 : 0;
          }
          continue;
        }
        if (within < 0) within = evenOdd(polygon, this.left + (c + 0.5) * this.wide, this.bottom + (r + 0.5) * this.high) ? 1 : 0;
        if (within) for (let at = starts[cell]; at < starts[cell + 1]; at++) flags[rows[at]] = 1;
      }
    }
    return flags;
  }

  /** Cells that an edge may touch, one wider: rounding decides nothing. @param {[number, number][]} polygon */
  #touched(polygon) {
    const touched = new Uint8Array(this.side * this.side);
    polygon.forEach(([x0, y0], at) => {
      const [x1, y1] = polygon[(at + 1) % polygon.length];
      const low = this.#row(Math.min(y0, y1) - this.high), high = this.#row(Math.max(y0, y1) + this.high);
      for (let r = low; r <= high; r++) {
        const [from, to] = reach(x0, y0, x1, y1, this.bottom + (r - 1) * this.high, this.bottom + (r + 2) * this.high);
        if (!(from <= to)) continue;
        const first = r * this.side + this.#column(from - this.wide), last = r * this.side + this.#column(to + this.wide);
        touched.fill(1, first, last + 1);
      }
    });
    return touched;
  }
}

/** The x that a segment covers between two heights. @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {number} low @param {number} high @returns {[number, number]} */
function reach(x0, y0, x1, y1, low, high) {
  if (Math.max(y0, y1) < low || Math.min(y0, y1) > high) return [Infinity, -Infinity];
  if (y0 === y1) return [Math.min(x0, x1), Math.max(x0, x1)];
  const at = (/** @type {number} */ y) => x0 + ((x1 - x0) * (Math.min(Math.max(y, Math.min(y0, y1)), Math.max(y0, y1)) - y0)) / (y1 - y0);
  const [a, b] = [at(low), at(high)];
  return [Math.min(a, b), Math.max(a, b)];
}

/** @param {[number, number][]} polygon @param {number} x @param {number} y */
export function evenOdd(polygon, x, y) {
  let within = false;
  for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
    const [x0, y0] = polygon[a], [x1, y1] = polygon[b];
    if (y0 > y !== y1 > y && x < x0 + ((x1 - x0) * (y - y0)) / (y1 - y0)) within = !within;
  }
  return within;
}
