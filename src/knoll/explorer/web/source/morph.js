// A relation of the paper on these rows: a slider from one method to another, with its certificate.

import { counted, h, refill } from "./dom.js";
import { NOISE } from "./paint_gl.js";
import { toLabels } from "./store.js";

/** @typedef {import("./store.js").Store} Store */

export class MorphPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.relation = "";
    this.at = 0;
    /** @type {any} */
    this.found = null;
    this.el = h("section", { class: "kx-panel", "data-panel": "morph", "aria-label": "Morph" });
    store.on(["relations"], () => this.draw());
    store.on(["drawer"], () => { if (store.get("drawer") !== "morph") this.#leave(); else this.draw(); });
  }

  get relations() {
    return this.store.get("relations").map((/** @type {any} */ one) => ({ ...one, title: `${one.source} → ${one.target}` }));
  }

  // The labels of a relation are not part of the state: those of the state come back.
  #leave() {
    if (this.found) this.store.act({ do: "state" });
    this.found = null;
  }

  /** @param {number} at */
  async go(at) {
    this.at = Math.min(1, Math.max(0, at));
    this.draw();
    this.wanted = this.at;
    if (this.flying) return;
    this.flying = true;
    while (this.wanted !== undefined) {
      const wanted = this.wanted;
      this.wanted = undefined;
      const answer = await this.store.act({ do: "morph", relation: this.relation, at: wanted, slot: "morph" });
      if (answer && this.store.get("drawer") === "morph") {
        this.found = answer.header.morph;
        this.store.showLive({ ...answer, header: { ...answer.header, answer: this.#between(answer.arrays.labels) } }, false);
      }
    }
    this.flying = false;
    this.draw();
  }

  // What the list of clusters shows meanwhile: how many rows have each label.
  /** @param {any} raw */
  #between(raw) {
    const sizes = new Map();
    for (const label of toLabels(raw)) sizes.set(label, (sizes.get(label) ?? 0) + 1);
    const noise = (sizes.get(NOISE) ?? 0) / Math.max(1, raw.length);
    sizes.delete(NOISE);
    const clusters = [...sizes].sort(([a], [b]) => a - b).map(([label, size]) => ({ label, size, name: "", by_hand: "" }));
    return { id: "between", title: this.relation, n_clusters: clusters.length, noise, clusters, by_hand: false, how: "", warnings: [] };
  }

  draw() {
    const { relations, found } = this, table = this.store.get("table");
    if (!relations.length) return refill(this.el, h("p", { class: "kx-soft" }, "No relation applies to this table."));
    if (!this.relation) this.relation = relations[0].name;
    return refill(this.el,
      h("div", { class: "kx-head" }, h("label", { class: "kx-field" }, h("select", {
        "data-key": "relation", "aria-label": "From one method to another", onchange: (/** @type {any} */ event) => { this.relation = event.target.value; this.go(0); },
      }, relations.map((/** @type {any} */ one) => h("option", { value: one.name, selected: one.name === this.relation }, one.title)))),
      h("button", { type: "button", class: "kx-button", "data-key": "back", onclick: () => this.go(this.at - 0.1) }, "Step back"),
      h("button", { type: "button", class: "kx-button", "data-key": "step", onclick: () => this.go(this.at + 0.1) }, "Step")),
      h("input", { type: "range", min: 0, max: 1, step: 0.02, value: String(this.at), class: "kx-wide", "data-key": "morph-at", "aria-label": "Position between the methods", oninput: (/** @type {any} */ event) => this.go(Number(event.target.value)) }),
      h("p", { class: "kx-ends" }, ...(([one]) => [h("span", null, one.source), h("span", null, one.target)])(relations.filter((/** @type {any} */ one) => one.name === this.relation))),
      found ? [h("p", { class: "kx-sentence" }, found.text, h("span", { class: "kx-soft" }, ` · step ${found.step + 1} of ${found.steps}`)), h("p", { class: found.holds ? "kx-holds" : "kx-fails" }, found.holds ? "The relation holds on these rows. " : "The relation does not hold here. ", h("span", { class: "kx-soft" }, found.statement ?? "")),
        h("ul", { class: "kx-checks" }, found.measured.map((/** @type {string} */ text) => h("li", { class: "kx-soft kx-small" }, text))),
        found.rows < table.n ? h("p", { class: "kx-note" }, `Fitted and certified on ${counted(found.rows, "row")} drawn at random; each other row has the label of the nearest of them.`) : null]
        : h("p", { class: "kx-soft" }, "Move the slider: the rows show the answer in between, and the certificate says how close the two are."));
  }
}
