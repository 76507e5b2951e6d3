// The plane that is shown: what the server says of it, two columns without asking, and the frames of a tour.

/** @typedef {import("./store.js").Store} Store */
/** @typedef {{ kind: string, ax: Float32Array, ay: Float32Array, frames?: Float32Array[][], positions?: Float32Array[], about: any }} View */

export const TITLES = /** @type {Record<string, string>} */ ({
  principal: "Principal plane", separating: "Separating plane", columns: "Two columns", tour: "Tour", spectral: "Spectral embedding",
  given: "Given coordinates",
});

/** @param {Store} store @param {number} x @param {number} y @returns {View} */
export function columnView(store, x, y) {
  const { axes } = store.get("table"), unit = (/** @type {number} */ at) => Float32Array.from(axes, (_, j) => (j === at ? 1 : 0));
  const about = { kind: "columns", title: "Two columns", x_label: axes[x].name, y_label: axes[y].name, variance: null, text: "", x, y };
  return { kind: "columns", ax: unit(x), ay: unit(y), about };
}

/** @param {Store} store @param {string} kind @param {Record<string, any>} [more] @returns {Promise<View | null>} */
export async function askView(store, kind, more = {}) {
  const answer = await store.act({ do: "view", kind, ...more, slot: "view" });
  if (!answer) return null;
  const { header: { view }, arrays } = answer, d = store.get("points").length;
  if (arrays.positions) {
    const half = arrays.positions.length / 2;
    return { kind, ax: Float32Array.of(1, 0), ay: Float32Array.of(0, 1), positions: [arrays.positions.slice(0, half), arrays.positions.slice(half)], about: view };
  }
  const planes = [];
  for (let at = 0; at + 2 * d <= arrays.axes.length; at += 2 * d) planes.push([arrays.axes.slice(at, at + d), arrays.axes.slice(at + d, at + 2 * d)]);
  return { kind, ax: planes[0][0], ay: planes[0][1], frames: kind === "tour" ? planes : undefined, about: view };
}

/** A plane between two, with axes of the lengths in between, at right angles. @param {Float32Array[]} from @param {Float32Array[]} to @param {number} share */
export function between(from, to, share) {
  const mix = from.map((axis, k) => axis.map((value, j) => value + share * (to[k][j] - value)));
  const lengths = from.map((axis, k) => norm(axis) + share * (norm(to[k]) - norm(axis)));
  const x = scaled(mix[0], lengths[0]), along = dot(mix[1], x) / (dot(x, x) || 1);
  return [x, scaled(mix[1].map((value, j) => value - along * x[j]), lengths[1])];
}

/** @param {Float32Array} a @param {Float32Array} b */
const dot = (a, b) => a.reduce((sum, value, j) => sum + value * b[j], 0);
/** @param {Float32Array} a */
const norm = (a) => Math.sqrt(dot(a, a));
/** @param {Float32Array} a @param {number} length */
const scaled = (a, length) => a.map((value) => (value * length) / (norm(a) || 1));

/** Plays the frames of a tour; each takes two seconds. */
export class Tour {
  /** @param {import("./plot.js").Plot} plot @param {Float32Array[][]} frames @param {(at: number) => void} moved */
  constructor(plot, frames, moved) {
    this.plot = plot;
    this.frames = frames;
    this.moved = moved;
    this.at = 0;
    this.playing = false;
  }

  /** @param {number} at in frames */
  show(at) {
    const count = this.frames.length;
    this.at = ((at % count) + count) % count;
    const whole = Math.floor(this.at), [ax, ay] = between(this.frames[whole], this.frames[(whole + 1) % count], this.at - whole);
    this.plot.setView(ax, ay, { equal: true, moving: true });
    this.moved(this.at);
  }

  play() {
    if (this.playing) return;
    this.playing = true;
    let last = performance.now();
    const step = (/** @type {number} */ now) => {
      if (!this.playing) return;
      this.show(this.at + Math.min(100, now - last) / 2000);
      last = now;
      this.asked = requestAnimationFrame(step);
    };
    this.asked = requestAnimationFrame(step);
  }

  stop() {
    this.playing = false;
    cancelAnimationFrame(this.asked ?? 0);
  }
}
