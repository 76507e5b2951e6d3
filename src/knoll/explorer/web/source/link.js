// Questions and answers over a model: `ask` is a promise of the last frame, with the arrays of all frames.

import { dtypeOf, typed } from "./wire.js";

/** @typedef {import("./model.js").Model} Model */
/** @typedef {import("./wire.js").Header} Header */
/** @typedef {import("./wire.js").Values} Values */
/** @typedef {{ header: Header, arrays: Record<string, any> }} Answer */

export class Refusal extends Error {
  /** @param {Header} header */
  constructor(header) {
    super(header.message ?? "The server could not answer.");
    this.code = header.code ?? "internal";
  }
}

export class Link {
  /** @param {Model} model @param {(event: Header) => void} onEvent */
  constructor(model, onEvent) {
    this.model = model;
    this.onEvent = onEvent;
    this.next = 1;
    /** @type {Map<number, { arrays: Record<string, any>, header: Header, done: (answer: Answer) => void, failed: (error: Error) => void, frame?: (answer: Answer) => void }>} */
    this.open = new Map();
    this.heard = (/** @type {Header} */ content, /** @type {DataView[]} */ buffers) => this.#hear(content, buffers);
    model.on("msg:custom", this.heard);
  }

  /**
   * @param {Header} message @param {{ arrays?: Record<string, Values>, frame?: (answer: Answer) => void }} [how] `frame` sees
   * frames that are not the last
   * @returns {Promise<Answer>}
   */
  ask(message, { arrays = {}, frame } = {}) {
    const seq = this.next++, entries = Object.entries(arrays).map(([name, values]) => ({ name, dtype: dtypeOf(values), shape: [values.length] }));
    return new Promise((done, failed) => {
      this.open.set(seq, { arrays: {}, header: {}, done, failed, frame });
      this.model.send({ ...message, seq, ...(entries.length ? { arrays: entries } : {}) }, undefined, Object.values(arrays));
    });
  }

  /** @param {Header} content @param {DataView[]} buffers */
  #hear(content, buffers) {
    if (content.event) return this.onEvent(content.event);
    const asked = this.open.get(content.seq);
    if (!asked) return undefined;
    const arrays = Object.fromEntries((content.arrays ?? []).map(({ name, dtype, shape }, at) => {
      const { buffer, byteOffset, byteLength } = buffers[at];
      return [name, typed(new Uint8Array(buffer, byteOffset, byteLength), dtype, shape)];
    }));
    Object.assign(asked.arrays, arrays);
    Object.assign(asked.header, content);
    if (content.kind === "error") asked.failed(new Refusal(content));
    else if (content.last) asked.done({ header: asked.header, arrays: asked.arrays });
    else asked.frame?.({ header: content, arrays });
    if (content.last) this.open.delete(content.seq);
    return undefined;
  }

  close() {
    this.model.off("msg:custom", this.heard);
    this.open.clear();
  }
}
