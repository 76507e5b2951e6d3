// One row: its values, why it is where it is, and the rows that are nearest to it in all columns.

import { h, number, percent, refill } from "./dom.js";
import { chip } from "./tip.js";

/** @typedef {import("./store.js").Store} Store */

export class RowPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.el = h("section", { class: "kx-panel", "data-panel": "row", "aria-label": "Row" });
    store.on(["row"], () => this.#ask());
    store.on(["state", "labels"], () => { if (store.get("row")) this.draw(); });
    this.draw();
  }

  async #ask() {
    const { store } = this, row = store.get("row");
    this.draw();
    if (!row || row.answer) return;
    const answer = await store.act({ do: "explain_row", row: this.#tableRow(row.at), slot: "row" });
    if (answer && store.get("row")?.at === row.at) store.set({ row: { at: row.at, answer: { ...answer, arrays: { ...answer.arrays, neighbors: this.#drawn(answer.arrays.neighbors) } } } });
  }

  /** @param {number} at */
  #tableRow(at) {
    const rows = this.store.get("table").rows;
    return rows ? rows[at] : at;
  }

  /** Those of some rows of the table that are drawn. @param {Int32Array} rows */
  #drawn(rows) {
    const drawn = this.store.get("table").rows;
    if (!drawn) return [...rows];
    return [...rows].map((row) => drawn.indexOf(row)).filter((at) => at >= 0);
  }

  /** @param {string} text */
  async find(text) {
    const { store } = this;
    if (!text) return;
    const answer = await store.act({ do: "find_row", id: text });
    const [row] = answer?.header.rows ?? [], drawn = store.get("table").rows, at = row === undefined ? -1 : drawn ? drawn.indexOf(row) : row;
    if (at >= 0) store.set({ row: { at, answer: null } });
    else if (answer) store.say(`There is no row ${text}.`);
  }

  draw() {
    const { store } = this, row = store.get("row"), found = row?.answer?.header.row;
    const find = h("form", { class: "kx-find", onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); this.find(/** @type {any} */ (event.target).elements.id.value.trim()); } },
      h("label", { class: "kx-field" }, h("span", null, "Find a row"), h("input", { name: "id", type: "search", "data-key": "find", placeholder: "number or id", autocomplete: "off" })), h("button", { class: "kx-button", type: "submit" }, "Find"));
    if (!row) return refill(this.el, find, h("p", { class: "kx-soft" }, "Press a point of the map, or Enter for the one in its middle."));
    const label = store.get("labels")[row.at];
    return refill(this.el, find,
      h("div", { class: "kx-head" }, h("h2", null, `Row ${found?.id ?? this.#tableRow(row.at)}`), h("span", null, chip(store, label), ` ${store.name(label)}`), found?.kind ? h("span", { class: "kx-tag" }, found.kind) : null,
        h("button", { type: "button", class: "kx-link", "data-key": "unpin", onclick: () => store.set({ row: null }) }, "Close")),
      found ? this.#explained(found, row.answer.arrays) : h("progress", { "aria-label": "Asking" }));
  }

  /** @param {any} found @param {any} arrays */
  #explained(found, arrays) {
    const { store } = this;
    return [
      found.text ? h("p", { class: "kx-sentence" }, found.text) : null,
      h("div", { class: "kx-row-parts" },
        h("div", null, h("h3", null, "Values"), h("table", { class: "kx-cells" }, h("tbody", null, found.cells.map((/** @type {any} */ one) => h("tr", null, h("th", { scope: "row" }, one.column), h("td", null, cell(one.value))))))),
        found.clusters?.length ? h("div", null, h("h3", null, found.clusters[0].share === undefined ? "Nearest clusters" : "Most probable clusters"), h("ul", null, found.clusters.slice(0, 5).map((/** @type {any} */ one) =>
          h("li", null, chip(store, one.label), ` ${store.name(one.label)} `, h("b", null, one.share === undefined ? number(Number(one.distance.toPrecision(3))) : percent(one.share)))))) : null,
        h("div", null, h("h3", null, "Nearest rows, in all columns"), h("ol", { class: "kx-near" }, arrays.neighbors.map((/** @type {number} */ at, /** @type {number} */ k) => h("li", null,
          h("button", { type: "button", class: "kx-link", "data-key": `near-${k}`, onclick: () => store.set({ row: { at, answer: null } }) }, chip(store, store.get("labels")[at]), ` ${this.#tableRow(at)}`),
          h("span", { class: "kx-soft kx-small" }, ` ${number(Number(arrays.distances[k].toPrecision(3)))}`)))))),
    ];
  }
}

/** @param {any} value */
const cell = (value) => (typeof value === "number" ? number(Number(value.toPrecision(6))) : value === null || value === undefined ? "–" : String(value));
