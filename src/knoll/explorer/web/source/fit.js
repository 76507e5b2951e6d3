// The method and its parameters, each on its evidence where there is some; labels follow while one is dragged.

import { counted, duration, h, number, percent, refill, sentence } from "./dom.js";
import { Curve } from "./curve.js";
import { Live } from "./live.js";
import { recommendationCard } from "./recommended.js";

/** @typedef {import("./store.js").Store} Store */

const TREE = /** @type {Record<string, string[]>} */ ({ dbscan: ["eps", "min_samples"], hdbscan: ["min_cluster_size", "min_samples"] });

export class FitPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.live = new Live(store);
    this.card = h("div", { class: "kx-card-host" });
    this.chooser = h("div");
    this.controls = h("div", { class: "kx-controls" });
    this.working = h("div", { class: "kx-working", role: "status", hidden: true }, h("progress", { "aria-label": "Working" }), h("span", { class: "kx-soft kx-small" }, "Working on all rows …"),
      h("button", { type: "button", class: "kx-link", title: "Stop (q)", onclick: () => store.link.ask({ do: "cancel", of: null }) }, "Stop"));
    this.summary = h("div", { class: "kx-answer", "aria-live": "polite" });
    this.el = h("section", { class: "kx-panel", "data-panel": "fit", "aria-label": "Method and parameters" }, this.card, this.chooser, this.working, this.controls, this.summary);
    this.method = "";
    /** @type {Record<string, any>} */
    this.values = {};
    /** @type {Map<string, Curve>} */
    this.curves = new Map();
    // What takes long says so, and can be stopped.
    let patience = 0;
    store.on(["busy"], () => {
      clearTimeout(patience);
      if (store.get("busy")) patience = setTimeout(() => { this.working.hidden = false; }, 700);
      else this.working.hidden = true;
    });
    store.on(["recommendation", "progress", "state"], () => {
      const open = Boolean(this.card.querySelector("details")?.open);
      refill(this.card, recommendationCard(store));
      const details = this.card.querySelector("details");
      if (details) details.open = open;
    });
    store.on(["methods"], () => { this.#chooser(); this.#adopt(); });
    store.on(["state", "live"], () => { this.#adopt(); this.#summary(); });
  }

  get definition() {
    return this.store.get("methods").find((/** @type {any} */ one) => one.name === this.method);
  }

  // The controls show the answer on screen, whoever asked for it.
  #adopt() {
    const answer = this.store.get("state")?.answer;
    if (!answer || this.store.get("live") || answer.id === this.adopted) return;
    const known = this.store.get("methods").find((/** @type {any} */ one) => one.name === answer.method);
    if (!known) return;
    this.adopted = answer.id;
    const before = this.method;
    this.method = answer.method;
    this.values = { ...defaults(known), ...answer.parameters };
    if (before !== this.method) this.#chooser();
    if (before !== this.method || !this.controls.childElementCount) this.#controls();
    else this.#show();
  }

  #chooser() {
    const methods = this.store.get("methods");
    if (!methods.length) return;
    refill(this.chooser, h("label", { class: "kx-field kx-method" }, h("span", null, "Method"), h("select", {
      "data-key": "method", disabled: this.store.frozen, onchange: (/** @type {any} */ event) => this.choose(event.target.value),
    }, this.method ? null : h("option", { value: "", selected: true, disabled: true }, "Choose a method"),
    methods.map((/** @type {any} */ one) => h("option", { value: one.name, selected: one.name === this.method }, one.slow ? `${one.title} (on fewer rows)` : one.title)))));
  }

  /** A method with its suggested parameters. @param {string} name */
  async choose(name) {
    this.method = name;
    this.values = defaults(this.definition);
    this.#chooser();
    const evidence = await this.#controls();
    if (this.method !== name) return;
    for (const { parameter, suggested } of evidence) if (suggested !== null && suggested !== undefined) this.values[parameter] = suggested;
    this.#show();
    this.commit();
  }

  /** @returns {Promise<any[]>} the evidence of its parameters */
  async #controls() {
    const { store, definition, method } = this;
    this.curves.clear();
    refill(this.controls, definition.parameters.map((/** @type {any} */ one) => this.#control(one)));
    if (store.frozen) return [];
    const found = [];
    for (const parameter of definition.parameters.filter((/** @type {any} */ one) => one.curve)) {
      const others = Object.fromEntries(Object.entries(this.values).filter(([name, value]) => name !== parameter.name && value !== null));
      const answer = await store.act({ do: "curve", method, parameter: parameter.name, parameters: others, slot: `curve-${parameter.name}` });
      if (!answer || this.method !== method) continue;
      const evidence = { ...answer.header.curve, x: answer.arrays.x, y: answer.arrays.y, whole: parameter.type === "int" };
      if (evidence.x.length > 1) this.#draw(parameter, evidence);
      found.push(evidence);
    }
    return found;
  }

  /** @param {any} parameter @param {import("./curve.js").Evidence} evidence */
  #draw(parameter, evidence) {
    const host = this.controls.querySelector(`[data-parameter="${parameter.name}"] .kx-evidence`);
    if (!host) return;
    const curve = new Curve(evidence, this.values[parameter.name] ?? evidence.suggested ?? evidence.x[0], (value, done) => this.#moved(parameter.name, value, done));
    this.curves.set(parameter.name, curve);
    refill(host, curve.el, h("p", { class: "kx-legend" }), evidence.reason ? h("p", { class: "kx-soft kx-small" }, sentence(evidence.reason)) : null);
    this.#legend(parameter.name);
  }

  // What the curves are, and their values where the marker stands.
  /** @param {string} name */
  #legend(name) {
    const curve = this.curves.get(name), host = this.controls.querySelector(`[data-parameter="${name}"] .kx-legend`);
    if (!curve || !host) return;
    const values = curve.values;
    refill(host, curve.evidence.curves.slice(0, 3).map((/** @type {string} */ one, /** @type {number} */ k) =>
      h("span", { class: `kx-key kx-line-${k}` }, one, " ", h("b", null, Number.isFinite(values[k]) ? number(Number(values[k].toPrecision(3))) : "–"))));
  }

  /** @param {any} parameter */
  #control(parameter) {
    const { name, type, choices } = parameter, disabled = this.store.frozen, id = `kx-p-${name}`;
    const change = (/** @type {any} */ value, done = true) => this.#moved(name, value, done);
    let input;
    if (type === "choice") {
      input = h("select", { id, disabled, "data-key": id, onchange: (/** @type {any} */ event) => change(event.target.value) },
        choices.map((/** @type {string} */ one) => h("option", { value: one, selected: one === this.values[name] }, one)));
    } else if (type === "flag") {
      input = h("input", { id, disabled, type: "checkbox", "data-key": id, checked: Boolean(this.values[name]), onchange: (/** @type {any} */ event) => change(event.target.checked) });
    } else {
      input = h("input", {
        id, disabled, type: "number", "data-key": id, step: type === "int" ? 1 : "any", min: parameter.low ?? "", max: parameter.high ?? "", placeholder: "from the data",
        value: short(this.values[name]), onchange: (/** @type {any} */ event) => change(event.target.value === "" ? null : Number(event.target.value)),
      });
    }
    return h("div", { class: `kx-parameter${parameter.curve ? " kx-has-curve" : ""}`, "data-parameter": name },
      h("label", { for: id }, readable(name)), input, parameter.curve ? h("div", { class: "kx-evidence" }) : null);
  }

  #show() {
    for (const parameter of this.definition?.parameters ?? []) {
      const input = /** @type {any} */ (this.controls.querySelector(`#kx-p-${parameter.name}`)), value = this.values[parameter.name];
      if (!input) continue;
      if (parameter.type === "flag") input.checked = Boolean(value);
      else if (document.activeElement !== input || input.tagName === "SELECT") input.value = short(value);
      if (value !== null && value !== undefined) this.curves.get(parameter.name)?.show(value);
      this.#legend(parameter.name);
    }
  }

  /** @param {string} name @param {any} value @param {boolean} done */
  #moved(name, value, done) {
    this.values[name] = value;
    this.#show();
    if (done) this.commit();
    else this.live.drag(this.message);
  }

  /** The question of these controls; the density tree answers for DBSCAN and HDBSCAN. */
  get message() {
    const { method, values } = this, usual = defaults(this.definition), tree = TREE[method];
    const parameters = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== ""));
    const set = Object.keys(parameters).filter((name) => parameters[name] !== usual[name] && !tree?.includes(name));
    if (tree && !set.length && tree.every((name) => parameters[name] !== undefined)) return { do: "cut", ...Object.fromEntries(tree.map((name) => [name, parameters[name]])) };
    return { do: "fit", method, parameters };
  }

  commit() {
    return this.live.commit(this.message);
  }

  /** One step of the first parameter with a curve, for the keyboard. @param {number} steps */
  step(steps) {
    const [curve] = this.curves.values();
    curve?.el.dispatchEvent(new KeyboardEvent("keydown", { key: steps > 0 ? "ArrowRight" : "ArrowLeft" }));
  }

  #summary() {
    const { answer } = this.store, state = this.store.get("state");
    if (!answer) return refill(this.summary, h("p", { class: "kx-soft" }, this.store.get("progress") || this.store.get("recommendation")?.running ? "The recommendation will be shown here; or choose a method." : "Nothing is clustered yet. Choose a method."));
    const facts = [
      h("b", null, counted(answer.n_clusters, "cluster")), answer.noise > 0 ? `, ${percent(answer.noise)} noise` : "",
      !answer.by_hand && answer.seconds !== null && answer.seconds !== undefined ? h("span", { class: "kx-soft" }, ` · ${duration(answer.seconds)}`) : "",
    ];
    return refill(this.summary, h("p", { class: "kx-facts" }, facts),
      answer.by_hand ? h("p", { class: "kx-note" }, "Changed by hand: no method’s answer any more.") : null,
      answer.how && answer.how !== "all rows" ? h("p", { class: "kx-note" }, answer.how) : null,
      (answer.warnings ?? []).map((/** @type {string} */ text) => h("p", { class: "kx-note" }, text)),
      state?.attempts > 1 ? h("p", { class: "kx-soft kx-small" }, `${counted(state.attempts, "setting")} tried so far; the log and the export say so.`) : null);
  }
}

/** The text of a value in a field: a suggestion has more digits than anybody reads. @param {any} value */
const short = (value) => (typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value ?? "");

/** @param {any} definition @returns {Record<string, any>} */
const defaults = (definition) => Object.fromEntries((definition?.parameters ?? []).map((/** @type {any} */ one) => [one.name, one.default]));

/** @param {string} name */
const readable = (name) => ({ eps: "ε (eps)", n_clusters: "clusters", n_components: "components", sigma: "σ (sigma)" })[name] ?? name.replaceAll("_", " ");
