// Two answers against each other: side by side on the map, and how their clusters cross.

import { counted, h, number, refill } from "./dom.js";
import { toLabels } from "./store.js";
import { chip } from "./tip.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {any} one an answer, as a choice shows it */
function answerText({ title, n_clusters, parameters, origin }) {
  const set = Object.entries(parameters ?? {}).filter(([, value]) => typeof value === "number").slice(0, 2);
  const text = set.map(([name, value]) => `${name} ${number(Number(/** @type {number} */ (value).toPrecision(3)))}`).join(", ");
  return `${title}, ${counted(n_clusters, "cluster")}${text ? ` (${text})` : ""}${origin === "recommended" ? " · compared" : ""}`;
}

export class AnswersPanel {
  /** @param {Store} store @param {import("./stage.js").Stage} stage */
  constructor(store, stage) {
    this.store = store;
    this.stage = stage;
    this.pair = ["", ""];
    this.found = /** @type {any} */ (null);
    this.side = false;
    this.el = h("section", { class: "kx-panel", "data-panel": "answers", "aria-label": "Two answers" });
    store.on(["state", "scheme"], () => this.#follow());
    store.on(["drawer"], () => { if (store.get("drawer") === "answers") this.ask(); else this.#beside(false); });
  }

  get answers() {
    return this.store.get("state")?.answers ?? [];
  }

  #follow() {
    const ids = this.answers.map((/** @type {any} */ one) => one.id), shown = this.store.get("state")?.answer?.id;
    if (!this.side && shown && ids.includes(shown)) this.pair[0] = shown;
    if (!ids.includes(this.pair[0])) this.pair[0] = ids[0] ?? "";
    if (!ids.includes(this.pair[1]) || this.pair[1] === this.pair[0]) {
      const others = ids.filter((/** @type {string} */ id) => id !== this.pair[0]), best = this.store.get("recommendation")?.recommendation?.answer;
      this.pair[1] = others.includes(best) ? best : others.pop() ?? "";
    }
    if (this.store.get("drawer") === "answers") this.draw();
  }

  async ask() {
    const [a, b] = this.pair;
    this.found = null;
    this.draw();
    if (!a || !b || a === b) return;
    const answer = await this.store.act({ do: "contingency", a, b, slot: "contingency" });
    if (!answer) return;
    this.found = { ...answer.header.contingency, counts: answer.arrays.counts, labels: toLabels(answer.arrays.other) };
    this.draw();
    if (this.side) this.#beside(true);
  }

  /** @param {boolean} on */
  async #beside(on) {
    const { store, stage } = this, [a, b] = this.pair;
    this.side = on;
    if (!on || !this.found) return stage.beside(null, new Map(), "", "");
    const title = (/** @type {string} */ id) => this.answers.find((/** @type {any} */ one) => one.id === id)?.title ?? "";
    if (store.get("state")?.answer?.id !== a) await store.act({ do: "show", answer: a });
    const colorOf = new Map(Object.entries(this.found.match ?? {}).map(([label, to]) => [Number(label), Number(to)]));
    stage.beside(this.found.labels, colorOf, `B · ${title(b)}`, `A · ${title(a)}`);
    return undefined;
  }

  draw() {
    const { store, found } = this;
    if (this.answers.length < 2) return refill(this.el, h("p", { class: "kx-soft" }, "There is one answer so far. Try another method or another parameter, then compare the two."));
    return refill(this.el,
      h("div", { class: "kx-head" }, this.#choice(0), h("span", { class: "kx-soft" }, "against"), this.#choice(1),
        h("label", { class: "kx-check" }, h("input", { type: "checkbox", "data-key": "side", checked: this.side, disabled: !found, onchange: (/** @type {any} */ event) => this.#beside(event.target.checked) }), " side by side on the map")),
      found ? this.#table(found) : h("progress", { "aria-label": "Crossing" }),
      found ? h("div", { class: "kx-actions" }, h("p", null, "Agreement: ARI ", h("b", null, found.ari.toFixed(3)), ", AMI ", h("b", null, found.ami.toFixed(3))),
        h("button", { type: "button", class: "kx-button", "data-key": "differ", disabled: store.frozen || !found.differ, onclick: () => store.act({ do: "select", differ: { a: this.pair[0], b: this.pair[1] }, origin: "rows that differ" }) },
          `Select the ${counted(found.differ, "row")} that differ`)) : null);
  }

  /** @param {number} side */
  #choice(side) {
    return h("label", { class: "kx-field" }, h("span", null, "AB"[side]), h("select", {
      "data-key": `answer-${side}`, onchange: (/** @type {any} */ event) => { this.pair[side] = event.target.value; this.ask(); },
    }, this.answers.map((/** @type {any} */ one) => h("option", { value: one.id, selected: one.id === this.pair[side] }, answerText(one)))));
  }

  /** @param {any} found */
  #table({ a, b, counts, match }) {
    const { store } = this, most = Math.max(1, ...counts), clusters = (/** @type {string} */ id) => this.answers.find((/** @type {any} */ one) => one.id === id)?.title;
    const name = (/** @type {number} */ label) => (label < 0 ? "noise" : String(label));
    const select = (/** @type {number} */ i, /** @type {number} */ j) => store.act({ do: "select", cells: { a: this.pair[0], b: this.pair[1], cells: [[a[i], b[j]]] }, origin: `${name(a[i])} of A and ${name(b[j])} of B` });
    return h("div", { class: "kx-scroll" }, h("table", { class: "kx-matrix" },
      h("caption", null, `Rows by cluster of A (${clusters(this.pair[0])}, down) and of B (${clusters(this.pair[1])}, across)`),
      h("thead", null, h("tr", null, h("th", { scope: "col" }, "A \\ B"), b.map((/** @type {number} */ label) => h("th", { scope: "col" }, chip(store, match?.[label] ?? label), ` ${name(label)}`)))),
      h("tbody", null, a.map((/** @type {number} */ label, /** @type {number} */ i) => h("tr", null, h("th", { scope: "row" }, chip(store, label), ` ${name(label)}`),
        b.map((/** @type {number} */ _, /** @type {number} */ j) => {
          const count = counts[i * b.length + j];
          return h("td", null, h("button", { type: "button", disabled: store.frozen || !count, share: Math.sqrt(count / most), "data-key": `cell-${i}-${j}`, title: `Select the ${counted(count, "row")} of ${name(a[i])} in A and ${name(b[j])} in B`, onclick: () => select(i, j) }, number(count)));
        }))))));
  }
}

