// Frames: length of the header, header in JSON, arrays (docs/guide/explorer-protocol.md).

/** @typedef {Uint8Array | Uint16Array | Int32Array | Uint32Array | Float32Array | Float64Array} Values */
/** @typedef {{ name: string, dtype: string, shape: number[], offset: number, bytes: number }} Entry */
/** @typedef {Record<string, any> & { arrays?: Entry[] }} Header */

/** @type {Record<string, new (buffer: ArrayBuffer, offset: number, length: number) => Values>} */
const TYPES = {
  uint8: Uint8Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array,
};
const MAX_HEADER = 1 << 26;

/** @param {Header} message @param {Record<string, Values>} arrays @returns {Uint8Array} */
export function encode(message, arrays) {
  let offset = 0;
  const entries = Object.entries(arrays).map(([name, values]) => {
    const entry = { name, dtype: dtypeOf(values), shape: [values.length], offset, bytes: values.byteLength };
    offset += 8 * Math.ceil(values.byteLength / 8);
    return entry;
  });
  const text = new TextEncoder().encode(JSON.stringify({ ...message, arrays: entries }));
  const length = 8 * Math.ceil((text.length + 4) / 8) - 4, frame = new Uint8Array(4 + length + offset);
  new DataView(frame.buffer).setUint32(0, length, true);
  frame.fill(32, 4, 4 + length);
  frame.set(text, 4);
  Object.values(arrays).forEach((values, at) => {
    frame.set(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), 4 + length + entries[at].offset);
  });
  return frame;
}

/** Collects pieces of bytes and gives whole frames. */
export class FrameReader {
  constructor() {
    this.bytes = new Uint8Array(0);
    this.filled = 0;
    this.size = 0;  // of the first frame; 0: not known yet
  }

  /** @param {Uint8Array} piece @returns {{ header: Header, arrays: Record<string, Values> }[]} */
  push(piece) {
    this.#append(piece);
    const frames = [];
    for (this.#measure(); this.size && this.size <= this.filled; this.#measure()) {
      frames.push(decode(this.bytes.slice(0, this.size)));
      this.bytes.copyWithin(0, this.size, this.filled);
      this.filled -= this.size;
      this.size = 0;
    }
    return frames;
  }

  /** @param {Uint8Array} piece */
  #append(piece) {
    const needed = Math.max(this.filled + piece.length, this.size);
    if (needed > this.bytes.length) {
      const larger = new Uint8Array(Math.max(needed, Math.min(2 * this.bytes.length, needed + (1 << 24))));
      larger.set(this.bytes.subarray(0, this.filled));
      this.bytes = larger;
    }
    this.bytes.set(piece, this.filled);
    this.filled += piece.length;
  }

  #measure() {
    if (this.size || this.filled < 4) return;
    const length = new DataView(this.bytes.buffer).getUint32(0, true);
    if (length > MAX_HEADER) throw new Error("The answer is damaged: its header is too long.");
    if (this.filled < 4 + length) return;
    const { arrays = [] } = header(this.bytes, length);
    const end = arrays.reduce((most, { offset, bytes }) => Math.max(most, offset + bytes), 0);
    this.size = 4 + length + 8 * Math.ceil(end / 8);  // the last array is padded, too
  }
}

/** @param {Uint8Array} bytes @param {number} length @returns {Header} */
function header(bytes, length) {
  return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes.subarray(4, 4 + length)));
}

/** @param {Uint8Array} frame bytes of its own buffer */
export function decode(frame) {
  const length = new DataView(frame.buffer, frame.byteOffset).getUint32(0, true), found = header(frame, length);
  /** @type {Record<string, Values>} */
  const arrays = {};
  for (const { name, dtype, shape, offset, bytes } of found.arrays ?? []) {
    const start = 4 + length + offset;
    if (offset < 0 || start + bytes > frame.length) throw new Error("The answer is damaged: an array does not fit.");
    arrays[name] = typed(frame.subarray(start, start + bytes), dtype, shape);
  }
  return { header: found, arrays };
}

/** @param {Uint8Array} bytes @param {string} dtype @param {number[]} shape @returns {Values} */
export function typed(bytes, dtype, shape) {
  const type = TYPES[dtype], count = shape.reduce((a, b) => a * b, 1);
  if (!type || count * dtypeBytes(dtype) !== bytes.length) throw new Error("The answer is damaged: an array has another size.");
  const whole = bytes.byteOffset % 8 === 0 ? bytes : bytes.slice();
  return new type(/** @type {ArrayBuffer} */ (whole.buffer), whole.byteOffset, count);
}

const dtypeBytes = (/** @type {string} */ dtype) => Number(dtype.replace(/[a-z]+/, "")) / 8;

/** @param {Values} values @returns {string} */
export const dtypeOf = (values) => Object.keys(TYPES).find((key) => values instanceof TYPES[key]) ?? "uint8";

/** One number 0 or 1 per row, from bits. @param {Uint8Array} mask @param {number} rows */
export function fromBits(mask, rows) {
  const out = new Uint8Array(rows);
  for (let i = 0; i < rows; i++) out[i] = (mask[i >> 3] >> (i & 7)) & 1;
  return out;
}

/** @param {Uint8Array} flags @returns {Uint8Array} */
export function toBits(flags) {
  const mask = new Uint8Array(Math.ceil(flags.length / 8));
  for (let i = 0; i < flags.length; i++) if (flags[i]) mask[i >> 3] |= 1 << (i & 7);
  return mask;
}
