// What the page speaks to, in the shape of an anywidget model: `get`, `set`, `on`, `off`, `send`, `save_changes`.
//
// A message is `send(content, callbacks, buffers)`, where content.arrays names the buffers; a frame comes back as
// "msg:custom" (content, buffers), an event of the server as content {event: …}. Link makes promises of both.

import { encode, FrameReader } from "./wire.js";

/** @typedef {import("./wire.js").Header} Header */
/** @typedef {import("./wire.js").Values} Values */
/** @typedef {{ get: (name: string) => any, set: (name: string, value: any) => void, save_changes: () => void,
 *   on: (event: string, heard: (...args: any[]) => void) => void, off: (event: string, heard: (...args: any[]) => void) => void,
 *   send: (content: any, callbacks?: any, buffers?: ArrayBufferView[]) => void }} Model */

class Emitter {
  constructor() {
    /** @type {Map<string, Set<(...args: any[]) => void>>} */
    this.heard = new Map();
    /** @type {Map<string, any>} */
    this.values = new Map();
  }

  /** @param {string} name */
  get(name) {
    return this.values.get(name);
  }

  /** @param {string} name @param {any} value */
  set(name, value) {
    this.values.set(name, value);
    this.emit(`change:${name}`, value);
  }

  save_changes() {}

  /** @param {string} event @param {(...args: any[]) => void} heard */
  on(event, heard) {
    if (!this.heard.has(event)) this.heard.set(event, new Set());
    this.heard.get(event)?.add(heard);
  }

  /** @param {string} event @param {(...args: any[]) => void} heard */
  off(event, heard) {
    this.heard.get(event)?.delete(heard);
  }

  /** @param {string} event @param {...any} args */
  emit(event, ...args) {
    this.heard.get(event)?.forEach((heard) => heard(...args));
  }
}

const plain = (/** @type {Values} */ values) => new DataView(values.buffer, values.byteOffset, values.byteLength);

/** @param {Emitter} model @param {{ header: Header, arrays: Record<string, Values> }[]} frames */
function passOn(model, frames) {
  for (const { header, arrays } of frames) model.emit("msg:custom", header, Object.values(arrays).map(plain));
}

/** The server of `knoll explore`, by POST. */
export class PageModel extends Emitter {
  /** @param {string} token @param {AbortSignal} signal */
  constructor(token, signal) {
    super();
    this.token = token;
    this.signal = signal;
    this.#listen();
  }

  /** @param {Header} content @param {any} [_callbacks] @param {ArrayBufferView[]} [buffers] */
  send(content, _callbacks, buffers = []) {
    this.#ask(content, buffers).catch((error) => {
      if (this.signal.aborted) return;
      const message = error instanceof TypeError ? "The server does not answer. Is `knoll explore` still running?" : String(error.message ?? error);
      this.emit("msg:custom", { seq: content.seq, kind: "error", code: "internal", message, last: true }, []);
    });
  }

  /** @param {Header} content @param {ArrayBufferView[]} buffers */
  async #ask({ arrays = [], ...content }, buffers) {
    const named = Object.fromEntries(arrays.map(({ name }, at) => [name, /** @type {Values} */ (buffers[at])]));
    const body = arrays.length ? /** @type {BodyInit} */ (encode(content, named)) : JSON.stringify(content);
    const type = arrays.length ? "application/x-knoll" : "application/json";
    const answer = await fetch("api/ask", {
      method: "POST", body, headers: { "Content-Type": type, "X-Knoll-Token": this.token }, signal: this.signal, credentials: "omit",
    });
    if (!answer.ok || !answer.body) throw new Error(refused(answer.status, await answer.text()));
    const reader = new FrameReader(), stream = answer.body.getReader();
    let ended = false;
    for (let piece = await stream.read(); !piece.done; piece = await stream.read()) {
      const frames = reader.push(piece.value);
      ended ||= frames.some(({ header }) => header.last);
      passOn(this, frames);
    }
    if (!ended) throw new Error("The answer of the server broke off.");
  }

  async #listen() {
    let after = 0, failures = 0;
    while (!this.signal.aborted) {
      try {
        const answer = await fetch(`api/events?after=${after}`, { headers: { "X-Knoll-Token": this.token }, signal: this.signal, credentials: "omit" });
        if (!answer.ok) throw new Error(String(answer.status));
        const { last, events } = await answer.json();
        after = last;
        failures = 0;
        for (const event of events) this.emit("msg:custom", { event }, []);
        if (events.some((/** @type {any} */ event) => event.kind === "end")) return;
      } catch {
        if (this.signal.aborted) return;
        failures += 1;
        if (failures >= 3) {
          this.emit("msg:custom", { event: { kind: "end" } }, []);
          return;
        }
        await new Promise((done) => { setTimeout(done, 500 * failures); });
      }
    }
  }
}

/** @param {number} status @param {string} text */
function refused(status, text) {
  if (status === 403) return "The server refuses this page: open the address that `knoll explore` printed.";
  if (status === 413) return "The message is too large for the server.";
  if (status === 429) return "The server has too much to do; try again in a moment.";
  return text.slice(0, 300) || `The server answered ${status}.`;
}

/** A page that was exported: it has the answers to some questions, in base64. */
export class FrozenModel extends Emitter {
  /** @param {string} text */
  constructor(text) {
    super();
    const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
    this.frames = new FrameReader().push(bytes);
  }

  /** @param {Header} content */
  send({ seq, slot: _slot, ...content }) {
    const asked = canonical(content), found = this.frames.filter(({ header }) => canonical(header.ask) === asked);
    const error = { seq, kind: "error", code: "frozen", message: "This page is a copy without a server: it can show, but not compute.", last: true };
    queueMicrotask(() => {
      if (!found.length) this.emit("msg:custom", error, []);
      passOn(this, found.map(({ header, arrays }) => ({ header: { ...header, seq }, arrays })));
    });
  }
}

/** JSON with sorted keys. @param {any} value @returns {string} */
function canonical(value) {
  return JSON.stringify(value, (_key, inner) =>
    inner && typeof inner === "object" && !Array.isArray(inner) ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1))) : inner);
}
