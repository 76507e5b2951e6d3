// The choice of a view: planes the server finds, two columns, a tour that plays, given coordinates.

import { h, icon, refill } from "./dom.js";
import { ICONS } from "./icons.js";
import { askView, columnView, TITLES, Tour } from "./views.js";

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./views.js").View} View */

const FROZEN = ["columns", "principal", "separating"];  // views of a page without a server

export class ViewBar {
  /** @param {Store} store @param {import("./plot.js").Plot} plot @param {import("./overlay.js").Overlay} overlay */
  constructor(store, plot, overlay) {
    this.store = store;
    this.plot = plot;
    this.overlay = overlay;
    this.el = h("div", { class: "kx-views" });
    /** @type {View | null} */
    this.view = null;
    /** @type {Tour | null} */
    this.tour = null;
    this.axes = /** @type {[number, number]} */ ([0, 0]);  // the last two columns
    /** @type {any} */
    this.given = null;  // the names of the last two given coordinates
    store.on(["views"], () => this.draw());
  }

  /** The view that the page begins with. */
  first() {
    const { axes } = this.store.get("table");
    this.axes = /** @type {[number, number]} */ ([0, Math.min(1, axes.length - 1)]);
    this.choose(axes.length > 2 ? "principal" : "columns");
  }

  get kinds() {
    const kinds = this.store.get("views").filter((/** @type {string} */ kind) => (this.store.frozen ? FROZEN.includes(kind) : kind !== "given" || this.numbers.length > 1));
    return kinds.length ? kinds : ["principal", "columns"];
  }

  /** Columns of numbers, first those that were not clustered on: such as coordinates of another program. */
  get numbers() {
    const found = (this.store.get("table")?.columns ?? []).filter((/** @type {any} */ one) => one.min !== null && one.min !== undefined);
    return [...found.filter((/** @type {any} */ one) => !one.used), ...found.filter((/** @type {any} */ one) => one.used)].map((one) => one.name);
  }

  /** @param {string} kind @param {any} [more] */
  async choose(kind, more) {
    const { store } = this, { axes } = store.get("table");
    this.stop();
    if (kind === "columns") {
      const [x, y] = this.axes = /** @type {[number, number]} */ (more ?? this.axes);
      this.show(columnView(store, x, y));
      if (store.frozen) return;
      const asked = await askView(store, "columns", { x, y });  // how far it can be trusted
      if (asked && this.view?.kind === "columns" && this.view.about.x === x && this.view.about.y === y) {
        Object.assign(this.view.about, asked.about, { kind: "columns", x, y });
        store.set({ view: this.view });
      }
      return;
    }
    if (kind === "given") this.given = more ?? this.given ?? this.numbers.slice(0, 2);
    const asked = await askView(store, kind, kind === "given" ? { x: this.given[0], y: this.given[1] } : kind === "tour" ? { frames: 12 } : {});
    if (!asked) return this.draw();
    this.show(asked);
    if (asked.frames) this.#startTour(asked.frames);
  }

  /** @param {View} view */
  show(view) {
    const { store, plot } = this, columns = view.positions ?? store.get("points");
    this.view = view;
    if (plot.columns !== columns) {
      const { labels, flags, dim } = plot;
      plot.setColumns(columns);
      plot.setLabels(labels);
      if (flags) plot.setFlags(flags, dim);
    }
    const { axes } = store.get("table");
    plot.setView(view.ax, view.ay, { equal: view.kind !== "columns" });
    plot.fit();
    this.overlay.set({ scales: view.kind === "columns" ? [{ axis: axes[view.about.x], vertical: false }, { axis: axes[view.about.y], vertical: true }] : [] });
    store.set({ view });
    this.draw();
  }

  /** @param {Float32Array[][]} frames */
  #startTour(frames) {
    this.tour = new Tour(this.plot, frames, (at) => { if (this.slider) this.slider.value = String(at); });
    this.draw();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) this.play(true);
  }

  /** @param {boolean} on */
  play(on) {
    if (on) this.tour?.play();
    else this.tour?.stop();
    this.draw();
  }

  stop() {
    this.tour?.stop();
    this.tour = null;
  }

  /** The next kind of view, for the keyboard. */
  next() {
    const kinds = this.kinds.filter((/** @type {string} */ kind) => kind !== "given");
    this.choose(kinds[(kinds.indexOf(this.view?.kind ?? "") + 1) % kinds.length]);
  }

  draw() {
    const { store } = this, table = store.get("table"), kind = this.view?.kind ?? "principal";
    if (!table) return;
    refill(this.el,
      h("label", { class: "kx-field" }, h("span", null, "View"), h("select", {
        "data-key": "view", onchange: (/** @type {any} */ event) => this.choose(event.target.value),
      }, this.kinds.map((/** @type {string} */ one) => h("option", { value: one, selected: one === kind }, TITLES[one] ?? one)))),
      kind === "columns" ? this.#columns(table) : null,
      kind === "given" ? this.#given() : null,
      kind === "tour" && this.tour ? this.#player(this.tour) : null);
  }

  /** @param {any} table */
  #columns(table) {
    const { x, y } = this.view?.about ?? { x: 0, y: 0 };
    const select = (/** @type {number} */ at, /** @type {string} */ text, /** @type {(at: number) => [number, number]} */ chosen) => h("select", {
      "aria-label": text, "data-key": text, onchange: (/** @type {any} */ event) => this.choose("columns", chosen(Number(event.target.value))),
    }, table.axes.map((/** @type {any} */ axis, /** @type {number} */ j) => h("option", { value: String(j), selected: j === at }, axis.name)));
    return h("span", { class: "kx-pair" },
      select(x, "Column across", (at) => [at, y]),
      h("button", { type: "button", class: "kx-tool", title: "Exchange the axes", "data-key": "swap", onclick: () => this.choose("columns", [y, x]) }, icon(ICONS.swap), h("span", { class: "kx-unseen" }, "Exchange the axes")),
      select(y, "Column upwards", (at) => [x, at]));
  }

  #given() {
    const [x, y] = this.given;
    const select = (/** @type {string} */ now, /** @type {string} */ text, /** @type {(name: string) => [string, string]} */ chosen) => h("select", {
      "aria-label": text, "data-key": text, onchange: (/** @type {any} */ event) => this.choose("given", chosen(event.target.value)),
    }, this.numbers.map((name) => h("option", { value: name, selected: name === now }, name)));
    return h("span", { class: "kx-pair" }, select(x, "Coordinate across", (name) => [name, y]), select(y, "Coordinate upwards", (name) => [x, name]));
  }

  /** @param {Tour} tour */
  #player(tour) {
    this.slider = h("input", {
      type: "range", min: 0, max: tour.frames.length, step: 0.01, "aria-label": "Position in the tour", "data-key": "tour-at",
      oninput: (/** @type {any} */ event) => { this.tour?.stop(); tour.show(Number(event.target.value)); },
    });
    this.slider.value = String(tour.at);
    return h("span", { class: "kx-pair" }, h("button", {
      type: "button", class: "kx-tool", "data-key": "play", title: tour.playing ? "Pause (t)" : "Play (t)", onclick: () => this.play(!tour.playing),
    }, icon(tour.playing ? ICONS.pause : ICONS.play), h("span", { class: "kx-unseen" }, tour.playing ? "Pause" : "Play")), this.slider);
  }
}
