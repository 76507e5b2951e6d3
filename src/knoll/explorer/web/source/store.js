// What the page knows. Panels listen to names; everything that comes from the server enters by `apply`.

import { Link, Refusal } from "./link.js";
import { NOISE } from "./paint_gl.js";
import { fromBits, toBits } from "./wire.js";

/** @typedef {import("./link.js").Answer} Answer */
/** @typedef {import("./wire.js").Header} Header */

/** @typedef {{ label: number, name: string, size: number, by_hand: string }} Cluster */

const WHOLE = ["open", "state"];  // answers with every array of the state

export class Store {
  /** @param {import("./model.js").Model} model */
  constructor(model) {
    this.link = new Link(model, (event) => this.#event(event));
    /** @type {Record<string, any>} */
    this.values = {
      table: null, points: [], state: null, live: null, preview: false, labels: new Uint16Array(0), selected: null, shown: null,
      methods: [], views: [], relations: [], exports: [], recommendation: null, hover: -1, row: null, view: null, busy: 0,
      message: null, ended: false, marked: new Set(), tool: "move", panel: "clusters", drawer: "",
    };
    /** @type {Map<string, Set<() => void>>} */
    this.listeners = new Map();
    this.changed = new Set();
  }

  /** @param {string} name @returns {any} */
  get(name) {
    return this.values[name];
  }

  /** Listeners are called once for all that changed before the next microtask. @param {Record<string, any>} values */
  set(values) {
    Object.assign(this.values, values);
    if (!this.changed.size) queueMicrotask(() => this.#tell());
    Object.keys(values).forEach((name) => this.changed.add(name));
  }

  #tell() {
    const names = [...this.changed], heard = new Set();
    this.changed.clear();
    for (const name of names) this.listeners.get(name)?.forEach((listener) => heard.add(listener));
    heard.forEach((listener) => listener());
  }

  /** @param {string[]} names @param {() => void} listener */
  on(names, listener) {
    for (const name of names) {
      if (!this.listeners.has(name)) this.listeners.set(name, new Set());
      this.listeners.get(name)?.add(listener);
    }
  }

  /** Show a panel: below the map, or on a phone instead of the others. @param {string} name @param {Record<string, any>} [values] */
  open(name, values = {}) {
    this.set({ ...values, panel: name, ...(name === "fit" || name === "clusters" ? {} : { drawer: name }) });
  }

  get frozen() {
    return Boolean(this.values.table?.frozen);
  }

  get rows() {
    return this.values.labels.length;
  }

  /** The answer on screen: one that is being dragged, or the committed one. @returns {any} */
  get answer() {
    return this.values.live ?? this.values.state?.answer ?? null;
  }

  /** @returns {Cluster[]} */
  get clusters() {
    return this.answer?.clusters ?? [];
  }

  /** @param {number} label */
  name(label) {
    if (label === -1 || label === NOISE) return "noise";
    return this.clusters.find((one) => one.label === label)?.name || `cluster ${label}`;
  }

  /** Rows in the same units of each axis. @param {number} row @param {number} axis */
  value(row, axis) {
    const { center, spread } = this.values.table.axes[axis];
    return this.values.points[axis][row] * spread + center;
  }

  /**
   * Ask and take over what has changed; an error becomes a message on the page, except that a newer question replaced it.
   * @param {Header} message @param {Parameters<Link["ask"]>[1]} [how] @returns {Promise<Answer | null>}
   */
  async act(message, how) {
    this.set({ busy: this.values.busy + 1 });
    try {
      const answer = await this.link.ask(message, how);
      this.apply(answer);
      return answer;
    } catch (error) {
      const code = error instanceof Refusal ? error.code : "internal";
      if (code !== "superseded" && code !== "cancelled") this.say(/** @type {Error} */ (error).message, "error");
      return null;
    } finally {
      this.set({ busy: this.values.busy - 1 });
    }
  }

  /** @param {Answer} answer */
  apply({ header, arrays }) {
    const { state } = header, before = this.values.state;
    if (state && before && !WHOLE.includes(header.do)) {
      if (state.version < before.version) return;  // overtaken by the answer to a later question, which asked for the whole state
      if (state.version > before.version + 1) this.act({ do: "state" });  // what is between is missing
    } else if (state && before && state.version < before.version) {
      this.act({ do: "state" });
      return;
    }
    if (arrays.labels) this.set({ labels: toLabels(arrays.labels) });
    if (arrays.selection) this.set({ selected: state?.selection?.size ? fromBits(arrays.selection, this.rows) : null });
    if (arrays.shown) this.set({ shown: state && state.shown >= this.values.table.n ? null : fromBits(arrays.shown, this.rows) });
    if (!state) return;
    this.set({ state, live: null, preview: false });
    this.set({ marked: new Set(state.selection?.clusters ?? []) });
    if (!state.selection?.size) this.set({ selected: null });
  }

  /** Show labels that are not part of the state: while a slider is dragged. @param {Answer} answer @param {boolean} preview */
  showLive({ header, arrays }, preview) {
    if (arrays.labels) this.set({ labels: toLabels(arrays.labels) });
    if (header.answer) this.set({ live: header.answer });
    this.set({ preview });
  }

  /** @param {Uint8Array} flags @param {string} mode @param {string} origin */
  selectRows(flags, mode, origin) {
    this.set({ marked: new Set() });
    if (this.frozen) return this.set({ selected: flags.some(Boolean) ? flags : null });
    return this.act({ do: "select", mode, origin }, { arrays: { mask: toBits(flags) } });
  }

  /** @param {string} text @param {"error" | "note"} [kind] */
  say(text, kind = "note") {
    this.set({ message: { text, kind } });
  }

  /** @param {Header} event */
  #event(event) {
    if (event.kind === "state" && event.version > (this.values.state?.version ?? -1)) this.act({ do: "state" });
    else if (event.kind === "recommend") this.set({ progress: event, ...(event.done ? { progress: null } : {}) });
    else if (event.kind === "end") this.set({ ended: true });
    if (event.kind === "recommend" && event.done) this.recommended();
  }

  async recommended() {
    const answer = await this.act({ do: "recommendation" });
    if (!answer) return;
    this.set({ recommendation: answer.header });
    const id = answer.header.recommendation?.answer;  // it may be new: the page has the state from before
    if (id && !this.values.state?.answers.some((/** @type {any} */ one) => one.id === id)) await this.act({ do: "state" });
  }
}

/** @param {Uint16Array | Int32Array} labels @returns {Uint16Array} */
export function toLabels(labels) {
  if (labels instanceof Uint16Array) return labels;
  return Uint16Array.from(labels, (label) => (label < 0 ? NOISE : label % NOISE));
}
