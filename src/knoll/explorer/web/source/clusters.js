// The clusters: a press selects their rows, and what can be done with those that are selected.

import { counted, h, icon, percent, refill } from "./dom.js";
import { ICONS } from "./icons.js";
import { NOISE } from "./paint_gl.js";
import { chip } from "./tip.js";

/** @typedef {import("./store.js").Store} Store */

const FIRST = 40;  // clusters that are listed before "show all"

export class ClusterPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.all = false;
    this.naming = /** @type {number | null} */ (null);  // the cluster whose name is being typed
    this.stability = new Map();
    this.list = h("div", { class: "kx-clusters" });
    this.el = h("section", { class: "kx-panel", "data-panel": "clusters", "aria-label": "Clusters" }, this.list);
    store.on(["state", "live", "marked", "scheme", "shown"], () => this.draw());
    // on the list, which stays: the first press of the two draws the items anew
    this.list.addEventListener("dblclick", (/** @type {MouseEvent} */ event) => {
      const label = Number(/** @type {HTMLElement} */ (event.target).closest("[data-label]")?.getAttribute("data-label") ?? -1);
      if (label >= 0 && !store.frozen && !store.get("live")) this.rename(label);
    });
  }

  /** Select the rows of a cluster; with `add` beside those that are selected. @param {number} label @param {boolean} add */
  mark(label, add) {
    const { store } = this, marked = new Set(add ? store.get("marked") : []);
    const before = store.get("marked");
    if (add ? marked.has(label) : before.size === 1 && before.has(label)) marked.delete(label);
    else marked.add(label);
    store.set({ marked });
    if (store.frozen) {  // nothing is asked: the rows are shown, and that is all
      const wanted = new Set([...marked].map((one) => (one < 0 ? NOISE : one)));
      return store.set({ selected: wanted.size ? Uint8Array.from(store.get("labels"), (/** @type {number} */ one) => Number(wanted.has(one))) : null });
    }
    return store.act(marked.size ? { do: "select", clusters: [...marked] } : { do: "select", none: true });
  }

  merge() {
    const clusters = [...this.store.get("marked")].filter((label) => label >= 0);
    if (clusters.length > 1) return this.store.act({ do: "merge", clusters });
    this.store.say("Select two or more clusters to merge: Ctrl or Shift adds one to the selection.");
    return null;
  }

  /** @param {number} label */
  toggle(label) {
    const { store } = this, filter = store.get("state")?.filter ?? { where: [], hide: [], noise: true };
    if (label < 0) return store.act({ do: "filter", where: filter.where, hide: filter.hide, noise: !filter.noise });
    const hide = filter.hide.includes(label) ? filter.hide.filter((/** @type {number} */ one) => one !== label) : [...filter.hide, label];
    return store.act({ do: "filter", where: filter.where, hide, noise: filter.noise });
  }

  /** Type a name where the name stands. @param {number} label */
  rename(label) {
    this.naming = label;
    this.draw();
    const input = /** @type {HTMLInputElement | null} */ (this.list.querySelector("input.kx-name-input"));
    input?.focus();
    input?.select();
  }

  async measure() {
    const answer = await this.store.act({ do: "stability", slot: "stability" });
    if (!answer) return;
    this.stability = new Map(answer.header.stability.map((/** @type {any} */ one) => [one.label, one.jaccard]));
    this.measured = this.store.answer?.id;
    this.draw();
  }

  draw() {
    if (this.naming !== null && this.list.querySelector(`[data-naming="${this.naming}"]`)) return undefined;  // a name is being typed
    const { store } = this, { answer, clusters } = store, marked = store.get("marked"), filter = store.get("state")?.filter ?? { hide: [], noise: true };
    if (!answer) return refill(this.list, h("h2", null, "Clusters"), h("p", { class: "kx-soft" }, "None yet."));
    const n = store.get("table").n, largest = Math.max(1, ...clusters.map((one) => one.size), answer.noise * n), shown = this.all ? clusters : clusters.slice(0, FIRST);
    const noise = Math.round(answer.noise * n), locked = store.frozen || Boolean(store.get("live"));
    return refill(this.list,
      h("div", { class: "kx-head" }, h("h2", null, counted(answer.n_clusters, "cluster")),
        h("button", { type: "button", class: "kx-link", "data-key": "stability", disabled: locked || !clusters.length, title: "Refit to halves of the rows", onclick: () => this.measure() }, "Stability")),
      h("ul", null, shown.map((one) => this.#item(one, largest, marked.has(one.label), filter.hide.includes(one.label), locked)),
        noise ? this.#item({ label: -1, name: "noise", size: noise, by_hand: "" }, largest, marked.has(-1), filter.noise === false, locked) : null),
      clusters.length > shown.length ? h("button", { type: "button", class: "kx-link", onclick: () => { this.all = true; this.draw(); } }, `Show all ${clusters.length}`) : null,
      this.#actions(marked, locked));
  }

  /** @param {import("./store.js").Cluster} one @param {number} largest @param {boolean} marked @param {boolean} hidden @param {boolean} locked */
  #item({ label, size, by_hand }, largest, marked, hidden, locked) {
    const { store } = this, name = store.name(label), share = size / store.get("table").n;
    const jaccard = this.measured === store.answer?.id ? this.stability.get(label) : undefined;
    const text = label === this.naming ? this.#input(label, name) : h("button", {
      type: "button", class: "kx-name", "aria-pressed": String(marked), "data-key": `cluster-${label}`, "data-label": String(label), disabled: locked && !store.frozen,
      title: "Select these rows; with Ctrl or Shift, add them. Press twice to rename",
      onclick: (/** @type {MouseEvent} */ event) => this.mark(label, event.ctrlKey || event.metaKey || event.shiftKey),
    }, chip(store, label), h("span", { class: "kx-name-text" }, name), h("span", { class: "kx-size" }, counted(size, "row")),
    h("span", { class: "kx-bar", share: Math.max(0.004, size / largest), "aria-hidden": "true" }));
    return h("li", { class: `${marked ? "kx-marked" : ""}${hidden ? " kx-off" : ""}` }, text,
      h("span", { class: "kx-item-tools" },
        h("button", { type: "button", class: "kx-tool", "aria-pressed": String(!hidden), disabled: locked, title: hidden ? `Show ${name}` : `Hide ${name}`, "data-key": `eye-${label}`, onclick: () => this.toggle(label) },
          icon(hidden ? ICONS.hidden : ICONS.eye), h("span", { class: "kx-unseen" }, hidden ? `Show ${name}` : `Hide ${name}`)),
        label >= 0 ? h("button", { type: "button", class: "kx-tool", disabled: locked, title: `Rename ${name}`, "data-key": `pen-${label}`, onclick: () => this.rename(label) },
          icon(ICONS.pen), h("span", { class: "kx-unseen" }, `Rename ${name}`)) : null),
      by_hand || jaccard !== undefined ? h("p", { class: "kx-small kx-soft kx-origin", title: by_hand }, by_hand ? `by hand: ${by_hand}` : "", by_hand && jaccard !== undefined ? " · " : "",
        jaccard === undefined ? "" : `stability ${jaccard === null ? "–" : percent(jaccard)}`) : h("span", { class: "kx-unseen" }, percent(share)));
  }

  /** @param {number} label @param {string} name */
  #input(label, name) {
    const done = (/** @type {string | null} */ text) => {
      if (this.naming !== label) return;
      this.naming = null;
      this.list.replaceChildren();
      if (text !== null && text.trim() !== name) this.store.act({ do: "rename", cluster: label, name: text.trim() });
      this.draw();
      /** @type {HTMLElement | null} */ (this.list.querySelector(`[data-key="cluster-${label}"]`))?.focus();
    };
    return h("input", {
      class: "kx-name-input", "data-naming": String(label), value: name, maxLength: 80, "aria-label": `Name of ${name}`, onblur: (/** @type {any} */ event) => done(event.target.value),
      onkeydown: (/** @type {any} */ event) => {
        event.stopPropagation();
        if (event.key === "Enter" || event.key === "Escape") event.preventDefault();  // it must not press what has the focus next
        if (event.key === "Enter") done(event.target.value);
        else if (event.key === "Escape") done(null);
      },
    });
  }

  /** @param {Set<number>} marked @param {boolean} locked */
  #actions(marked, locked) {
    const clusters = [...marked].filter((label) => label >= 0);
    if (!clusters.length) return null;
    const button = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act, enabled = true) =>
      h("button", { type: "button", class: "kx-button", "data-key": key, title, disabled: locked || !enabled, onclick: act }, text);
    return h("div", { class: "kx-actions" },
      button("merge", "Merge", "Make one of the selected clusters (g)", () => this.merge(), clusters.length > 1),
      button("split", "Split in two", "By k-means, on all columns", () => this.store.act({ do: "split", cluster: clusters[0], into: 2 }), clusters.length === 1),
      button("portrait", clusters.length === 2 ? "Compare the two" : "What sets it apart", "Columns by effect size (d)", () => this.store.open("groups", {
        groups: { a: { cluster: clusters[0] }, b: clusters.length === 2 ? { cluster: clusters[1] } : "rest" },
      }), clusters.length === 2 || (clusters.length === 1 && this.store.clusters.length > 1)));
  }
}
