// The columns: what was clustered on and what was left out, and a filter by value that fits nothing again.

import { h, number, refill } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

const DAY = 86400000;  // milliseconds

export class TablePanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {Map<string, any>} */
    this.where = new Map();
    this.el = h("section", { class: "kx-panel", "data-panel": "table", "aria-label": "Table" });
    store.on(["table", "state"], () => { this.#adopt(); this.draw(); });
  }

  #adopt() {
    const where = this.store.get("state")?.filter?.where ?? [];
    this.where = new Map(where.map((/** @type {any} */ one) => [one.column, one]));
  }

  /** @param {string} column @param {any} condition null: none */
  #filter(column, condition) {
    const { store } = this, filter = store.get("state")?.filter ?? { hide: [], noise: true };
    if (condition) this.where.set(column, condition);
    else this.where.delete(column);
    store.act({ do: "filter", where: [...this.where.values()], hide: filter.hide, noise: filter.noise });
  }

  draw() {
    const { store } = this, table = store.get("table");
    if (!table) return;
    refill(this.el,
      h("div", { class: "kx-head" }, h("h2", null, table.name), h("span", { class: "kx-soft" }, `${number(table.n)} rows, ${table.columns.filter((/** @type {any} */ one) => one.used).length} of ${table.columns.length} columns clustered on`),
        this.where.size ? h("button", { type: "button", class: "kx-button", "data-key": "unfilter", onclick: () => { this.where.clear(); store.act({ do: "filter", where: [], hide: store.get("state").filter.hide, noise: store.get("state").filter.noise }); } }, "Show all rows") : null),
      (table.notes ?? []).map((/** @type {string} */ text) => h("p", { class: "kx-note" }, text)),
      h("div", { class: "kx-scroll" }, h("table", { class: "kx-list" }, h("thead", null, h("tr", null, ["Column", "Type", "Missing", "Values", "Show only"].map((text) => h("th", { scope: "col" }, text)))),
        h("tbody", null, table.columns.map((/** @type {any} */ one) => h("tr", { class: one.used ? "" : "kx-unused" },
          h("th", { scope: "row" }, one.name, one.used ? null : h("span", { class: "kx-soft kx-small" }, ` left out${one.reason ? `: ${one.reason}` : ""}`)),
          h("td", null, one.type), h("td", null, one.missing ? number(one.missing) : "–"), h("td", null, this.#values(one)), h("td", null, this.#controls(one))))))));
  }

  /** @param {any} one */
  #values(one) {
    if (one.levels?.length) return `${one.levels.slice(0, 5).join(", ")}${one.levels.length > 5 ? ` and ${one.levels.length - 5} more` : ""}`;
    return one.ends ? `${one.ends[0]} to ${one.ends[1]}` : "–";
  }

  /** @param {any} one */
  #controls(one) {
    const date = one.type === "date";  // a number of days since 1970
    const condition = this.where.get(one.name), disabled = this.store.frozen;
    if (one.levels?.length) {
      return h("select", { "aria-label": `Show only rows with ${one.name}`, "data-key": `level-${one.name}`, disabled, onchange: (/** @type {any} */ event) => this.#filter(one.name, event.target.value === "" ? null : { column: one.name, values: [event.target.value] }) },
        h("option", { value: "" }, "all"), one.levels.map((/** @type {any} */ level) => h("option", { value: String(level), selected: condition?.values?.[0] === String(level) }, String(level))));
    }
    if (one.min === null || one.min === undefined) return null;
    const input = (/** @type {"low" | "high"} */ end, /** @type {string} */ text) => h("input", {
      type: date ? "date" : "number", step: "any", class: "kx-end", "aria-label": `${one.name} ${text}`, placeholder: text, disabled, "data-key": `${end}-${one.name}`, value: condition?.[end] === undefined ? "" : date ? new Date(condition[end] * DAY).toISOString().slice(0, 10) : condition[end],
      onchange: (/** @type {any} */ event) => {
        const next = { ...condition, column: one.name };
        if (event.target.value === "") delete next[end];
        else next[end] = date ? Date.parse(event.target.value) / DAY : Number(event.target.value);
        this.#filter(one.name, next.low === undefined && next.high === undefined ? null : next);
      },
    });
    return h("span", { class: "kx-pair" }, input("low", "from"), input("high", "to"));
  }
}
