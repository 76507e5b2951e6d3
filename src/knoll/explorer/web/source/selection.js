// The selected rows: cluster them again, make a cluster of them, move them, compare them with the rest.

import { counted, h, refill } from "./dom.js";
import { verdictText } from "./recommended.js";
import { chip } from "./tip.js";

/** @typedef {import("./store.js").Store} Store */

/** What a verdict is of. @param {any} selection */
const of = (selection) => `${selection?.size} ${selection?.origin}`;

export class SelectionPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {any} */
    this.refit = null;
    this.el = h("section", { class: "kx-panel kx-selection", "data-panel": "clusters", "aria-label": "Selection", "aria-live": "polite" });
    store.on(["state", "selected", "labels", "refitting"], () => this.draw());
  }

  clear() {
    if (this.store.frozen) return this.store.set({ selected: null, marked: new Set() });
    return this.store.act({ do: "select", none: true });
  }

  /** The selected rows once more, with the judgement of all methods. @param {boolean | "auto"} [apply] whether they are divided */
  async again(apply = "auto") {
    const { store } = this, size = store.get("state")?.selection?.size ?? 0;
    if (!size) return store.say("Select rows first: with the lasso, the box, or a cluster of the list.");
    store.set({ refitting: { size } });
    const answer = await store.act({ do: "refit", apply });
    this.refit = answer ? { ...answer.header.refit, of: of(store.get("state")?.selection) } : null;
    store.set({ refitting: null });
    return undefined;
  }

  draw() {
    const { store } = this, selection = store.get("state")?.selection, running = store.get("refitting");
    const refit = this.refit?.of === of(selection) ? this.refit : null;  // of these rows
    if (!selection?.size && !refit) return refill(this.el, h("p", { class: "kx-soft kx-small" }, "Nothing is selected. Draw with the lasso, or press a cluster."));
    const locked = store.frozen || Boolean(running);
    const button = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act, primary = false) =>
      h("button", { type: "button", class: `kx-button${primary ? " kx-primary" : ""}`, "data-key": key, title, disabled: locked, onclick: act }, text);
    return refill(this.el,
      selection?.size ? [
        h("div", { class: "kx-head" }, h("h2", null, `${counted(selection.size, "row")} selected`), h("button", { type: "button", class: "kx-link", "data-key": "clear", onclick: () => this.clear() }, "Clear")),
        h("p", { class: "kx-soft kx-small" }, selection.origin, this.#mixture()),
        h("div", { class: "kx-actions" },
          button("again", "Cluster again", "These rows alone, by all methods (c)", () => this.again(), true),
          button("own", "Make a cluster", "Of the selected rows, by hand (k)", () => this.own()),
          button("rest", "Compare with the rest", "Columns by effect size (d)", () => store.open("groups", { groups: { a: "selection", b: "rest" } })),
          this.#move(locked)),
      ] : null,
      running ? h("div", { class: "kx-card" }, h("p", null, `Clustering ${counted(running.size, "row")} again …`), h("progress", { "aria-label": "Clustering again" }),
        h("button", { type: "button", class: "kx-button", "data-key": "stop", onclick: () => store.link.ask({ do: "cancel", of: null }) }, "Stop")) : null,
      refit && !running ? this.#verdict(refit) : null);
  }

  own() {
    return this.store.act({ do: "split", group: "selection" });
  }

  #mixture() {
    const { store } = this, selected = store.get("selected"), labels = store.get("labels");
    if (!selected || selected.length !== labels.length) return null;
    const counts = new Map();
    for (let i = 0; i < labels.length; i++) if (selected[i]) counts.set(labels[i], (counts.get(labels[i]) ?? 0) + 1);
    const largest = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 4);
    return h("span", { class: "kx-mix" }, largest.map(([label, count]) => h("span", null, chip(store, label), ` ${store.name(label)} ${count.toLocaleString("en").replaceAll(",", "\u202f")}`)));
  }

  /** @param {boolean} disabled */
  #move(disabled) {
    const { store } = this;
    return h("select", {
      class: "kx-button", "aria-label": "Move the rows to", "data-key": "move", disabled, onchange: (/** @type {any} */ event) => {
        if (event.target.value !== "") store.act({ do: "move", group: "selection", to: Number(event.target.value) });
      },
    }, h("option", { value: "" }, "Move to …"), store.clusters.map(({ label }) => h("option", { value: String(label) }, store.name(label))), h("option", { value: "-1" }, "noise"));
  }

  /** @param {any} refit */
  #verdict(refit) {
    const none = refit.verdict === "none" || refit.n_clusters < 2;
    return h("article", { class: `kx-card ${none ? "kx-none" : "kx-likely"}`, role: "status" },
      h("div", { class: "kx-head" }, h("h3", null, none ? "No clusters in here" : `${counted(refit.n_clusters, "cluster")} in ${counted(refit.rows, "row")}`),
        h("button", { type: "button", class: "kx-link", "data-key": "seen", onclick: () => { this.refit = null; this.draw(); } }, "Close")),
      h("p", { class: "kx-verdict" }, verdictText(refit)),
      h("details", null, h("summary", null, "Why"), h("ul", null, (refit.reasons ?? []).map((/** @type {string} */ text) => h("li", null, text)))),
      none && refit.n_clusters > 1 && this.store.get("state")?.selection?.size === refit.rows ? h("button", { type: "button", class: "kx-button", "data-key": "anyway", onclick: () => this.again(true) }, `Divide them in ${refit.n_clusters} anyway`) : null);
  }
}
