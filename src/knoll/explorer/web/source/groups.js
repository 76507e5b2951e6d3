// A against B: the columns that differ most, both distributions, and the rule that tells them apart.

import { copy, counted, h, number, percent, refill, sentence, svg } from "./dom.js";
import { cssColor } from "./palette.js";

/** @typedef {import("./store.js").Store} Store */

const COLUMNS = 12;  // shown before "all columns"

export class GroupsPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.found = /** @type {any} */ (null);
    this.all = false;
    this.el = h("section", { class: "kx-panel", "data-panel": "groups", "aria-label": "A against B" });
    store.on(["groups"], () => this.ask());
    store.on(["state", "scheme"], () => this.draw());
    store.on(["drawer"], () => { if (store.get("drawer") === "groups") this.#begin(); });
  }

  // Without a choice: the selected rows, or the first cluster, against all other rows.
  #begin() {
    const { store } = this, state = store.get("state"), n = store.get("table")?.n ?? 0, size = state?.selection?.size ?? 0;
    if (store.get("groups")) return;
    const [first] = store.clusters;
    if (size && size < n) store.set({ groups: { a: "selection", b: "rest" } });
    else if (first && first.size < n) store.set({ groups: { a: { cluster: first.label }, b: "rest" } });
  }

  /** @param {any} group */
  #color(group) {
    if (typeof group === "object" && group.cluster !== undefined) return cssColor(group.cluster);
    return group === "selection" ? "var(--blue)" : "var(--noise)";
  }

  async ask() {
    const groups = this.store.get("groups");
    if (!groups) return;
    this.found = null;
    this.waiting = true;
    this.draw();
    const message = groups.b === "rest" ? { do: "compare_groups", a: groups.a } : { do: "compare_groups", ...groups };
    const answer = await this.store.act({ ...message, slot: "groups" });
    this.waiting = false;
    if (answer) this.found = answer.header.groups;
    this.draw();
  }

  draw() {
    const { store, found } = this, groups = store.get("groups") ?? {};
    if (!store.clusters.length && !store.get("selected")) return refill(this.el, h("p", { class: "kx-soft" }, "Cluster or select rows first."));
    return refill(this.el, h("div", { class: "kx-head" }, this.#choice("a", groups), h("span", { class: "kx-soft" }, "against"), this.#choice("b", groups),
      found ? h("span", { class: "kx-soft kx-small" }, `${number(found.a.size)} and ${number(found.b.size)} rows`) : null),
      this.waiting ? h("progress", { "aria-label": "Comparing" }) : null,
      found ? this.#result(found, groups) : this.waiting ? null : h("p", { class: "kx-soft" }, "Choose two groups: clusters, the selected rows, or all the rest."));
  }

  /** @param {"a" | "b"} side @param {any} groups */
  #choice(side, groups) {
    const { store } = this, options = /** @type {[string, any][]} */ (store.clusters.map(({ label }) => [store.name(label), { cluster: label }]));
    if (store.get("state")?.selection?.size) options.push([`the selection (${number(store.get("state").selection.size)})`, "selection"]);
    if (side === "b") options.push(["all other rows", "rest"]);
    const at = options.findIndex(([, value]) => JSON.stringify(value) === JSON.stringify(groups[side]));
    return h("label", { class: "kx-field" }, h("span", null, h("span", { class: "kx-chip", color: this.#color(groups[side] ?? "rest") }), ` ${side.toUpperCase()}`), h("select", {
      "data-key": `group-${side}`, onchange: (/** @type {any} */ event) => {
        const next = { b: "rest", ...groups, [side]: options[Number(event.target.value)][1] };
        if (next.a) store.set({ groups: next });
      },
    }, at < 0 ? h("option", { value: "", selected: true, disabled: true }, "choose") : null, options.map(([text], k) => h("option", { value: String(k), selected: k === at }, text))));
  }

  /** @param {any} found @param {any} groups */
  #result(found, groups) {
    const columns = this.all ? found.columns : found.columns.slice(0, COLUMNS);
    return [
      found.sentence ? h("p", { class: "kx-sentence" }, sentence(found.sentence)) : null,
      (found.notes ?? []).map((/** @type {string} */ text) => h("p", { class: "kx-note" }, text)),
      h("div", { class: "kx-columns" }, columns.map((/** @type {any} */ column) => this.#column(column, groups))),
      found.columns.length > columns.length ? h("button", { type: "button", class: "kx-link", onclick: () => { this.all = true; this.draw(); } }, `All ${found.columns.length} columns`) : null,
      this.#rules(found), this.#examples(found.examples),
      h("p", { class: "kx-soft kx-small" }, "Sizes of effects, no p-values: clusters that were found in these columns differ in them by construction."),
    ];
  }

  /** @param {any} column @param {any} groups */
  #column(column, groups) {
    const colors = [this.#color(groups.a), this.#color(groups.b)];
    return h("article", { class: `kx-column${column.distinctive ? " kx-distinct" : ""}` },
      h("h3", null, column.column, h("span", { class: "kx-effect", title: "effect size" }, number(Number((column.effect ?? NaN).toPrecision(2))))),
      column.levels?.length ? levels(column.levels, colors) : column.counts_a ? histogram(column, colors) : null,
      h("p", { class: "kx-small" }, column.text, column.used === false ? h("span", { class: "kx-soft" }, " (not clustered on)") : null));
  }

  /** @param {any} found */
  #rules(found) {
    if (!found.rules?.length) return null;
    const button = (/** @type {string} */ text, /** @type {string} */ what) => h("button", {
      type: "button", class: "kx-button", onclick: async () => this.store.say(await copy(what) ? `${text}: copied.` : "The browser keeps the clipboard closed: mark the text and copy it."),
    }, `Copy ${text}`);
    return h("div", { class: "kx-rules" }, h("h3", null, found.sketch ? "A rough sketch of A" : "A in rules", h("span", { class: "kx-soft" }, ` · agrees with ${percent(found.fidelity)} of the rows`)),
      h("ul", null, found.rules.map((/** @type {any} */ rule) => h("li", null, h("span", { class: "kx-rule" }, rule.text), h("span", { class: "kx-soft kx-small" }, ` holds ${percent(rule.coverage)} of A; ${percent(rule.precision)} of its rows are A`)))),
      h("div", { class: "kx-actions" }, found.sentence ? button("sentence", found.sentence) : null, found.sql ? button("SQL", found.sql) : null, found.python ? button("Python", found.python) : null));
  }

  /** @param {any} examples */
  #examples(examples) {
    if (!examples) return null;
    const kinds = ["typical", "border", "unusual"].filter((kind) => examples[kind]?.length);
    if (!kinds.length) return null;
    return h("div", { class: "kx-examples" }, kinds.map((kind) => h("div", null, h("h3", null, `${kind[0].toUpperCase()}${kind.slice(1)} rows`), h("ul", null, examples[kind].slice(0, 5).map((/** @type {any} */ one) => h("li", null,
      h("button", { type: "button", class: "kx-link", onclick: () => this.store.open("row", { row: { at: one.row, answer: null } }) }, String(one.id ?? one.row)), one.reason ? h("span", { class: "kx-soft kx-small" }, ` ${one.reason}`) : null))))));
  }
}

/** Both distributions, each as shares of its group. @param {any} column @param {string[]} colors */
function histogram({ edges, ends, counts_a, counts_b, a, b }, colors) {
  const wide = 240, high = 64, most = [counts_a, counts_b].map((counts) => counts.reduce((/** @type {number} */ s, /** @type {number} */ v) => s + v, 0) || 1);
  const shares = [counts_a, counts_b].map((counts, k) => counts.map((/** @type {number} */ count) => count / most[k])), top = Math.max(...shares.flat(), 1e-9);
  const low = edges[0], span = edges[edges.length - 1] - low || 1, x = (/** @type {number} */ value) => Math.min(wide, Math.max(0, ((value - low) / span) * wide));
  const area = (/** @type {number[]} */ heights) => `M0 ${high}${heights.map((share, i) => `L${x(edges[i]).toFixed(1)} ${(high - (share / top) * (high - 6)).toFixed(1)}L${x(edges[i + 1]).toFixed(1)} ${(high - (share / top) * (high - 6)).toFixed(1)}`).join("")}L${wide} ${high}Z`;
  const median = (/** @type {any} */ quartiles, /** @type {string} */ color) => (quartiles ? svg("line", { x1: x(quartiles[1]), x2: x(quartiles[1]), y1: 4, y2: high, stroke: color, "stroke-width": 1.6, "stroke-dasharray": "3 2" }) : null);
  return h("div", { class: "kx-histogram" }, svg("svg", { viewBox: `0 0 ${wide} ${high + 1}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    svg("path", { d: area(shares[1]), fill: colors[1], "fill-opacity": 0.4 }), svg("path", { d: area(shares[0]), fill: colors[0], "fill-opacity": 0.55 }), median(b, colors[1]), median(a, colors[0])),
  h("p", { class: "kx-ends" }, ends.map((/** @type {string} */ text) => h("span", null, text))));
}

/** @param {{ value: string, a: number, b: number }[]} rows @param {string[]} colors */
function levels(rows, colors) {
  return h("table", { class: "kx-levels" }, h("tbody", null, rows.slice(0, 6).map(({ value, a, b }) => h("tr", null, h("th", { scope: "row" }, String(value)),
    [a, b].map((share, k) => h("td", null, h("span", { class: "kx-meter", share, color: colors[k] }), percent(share)))))));
}
