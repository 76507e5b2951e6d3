// The explorer: render({ model, el }), as anywidget calls it; the page calls it too.

import { AnswersPanel } from "./answers.js";
import { ClusterPanel } from "./clusters.js";
import { exportDialog, helpDialog } from "./dialogs.js";
import { counted, h, icon, refill, sentence } from "./dom.js";
import { FitPanel } from "./fit.js";
import { GroupsPanel } from "./groups.js";
import { ICONS } from "./icons.js";
import { KEYS, listen } from "./keys.js";
import { LogPanel } from "./log.js";
import { MorphPanel } from "./morph.js";
import { start } from "./page.js";
import { RowPanel } from "./row.js";
import { SelectionPanel } from "./selection.js";
import { Stage } from "./stage.js";
import { Store } from "./store.js";
import { TablePanel } from "./table.js";

const TABS = /** @type {const} */ ([["fit", "Method"], ["clusters", "Clusters"], ["groups", "A against B"], ["row", "Row"], ["answers", "Two answers"], ["morph", "Morph"], ["table", "Table"], ["log", "Log"]]);
const BELOW = TABS.slice(2);

export class App {
  /** @param {import("./model.js").Model} model @param {HTMLElement} el @param {{ webgl?: boolean | "auto" }} [options] */
  constructor(model, el, options = {}) {
    this.abort = new AbortController();
    const { signal } = this.abort;
    this.store = new Store(model);
    const { store } = this;
    this.stage = new Stage(store, signal, options);
    this.fit = new FitPanel(store);
    this.clusters = new ClusterPanel(store);
    this.selection = new SelectionPanel(store);
    this.panels = /** @type {Record<string, { el: HTMLElement, draw?: () => void }>} */ ({
      groups: new GroupsPanel(store), row: new RowPanel(store), answers: new AnswersPanel(store, this.stage), morph: new MorphPanel(store), table: new TablePanel(store), log: new LogPanel(store),
    });
    this.exports = exportDialog(store, () => this.stage.picture());
    this.help = helpDialog(KEYS);
    this.bar = h("header", { class: "kx-top" });
    this.busy = h("span", { class: "kx-busy", "data-on": "false", "aria-hidden": "true" });
    this.tabs = h("div", { class: "kx-tabs", role: "tablist", "aria-label": "Panels" });
    this.drawer = h("div", { class: "kx-drawer" }, this.tabs, h("div", { class: "kx-drawer-body" }, Object.values(this.panels).map((one) => one.el)));
    this.message = h("div", { class: "kx-message", role: "status", hidden: true });
    this.root = h("div", { class: "kx", "data-state": "opening", "data-lm-suppress-shortcuts": "true" }, this.bar,
      h("div", { class: "kx-body" }, h("aside", { class: "kx-left", "aria-label": "Method" }, this.fit.el), h("main", { class: "kx-middle" }, this.stage.el), h("aside", { class: "kx-right", "aria-label": "Clusters" }, this.selection.el, this.clusters.el), this.drawer),
      this.message, this.exports.el, this.help.el);
    el.replaceChildren(this.root);
    /** @type {[number, number][]} */
    this.corners = [];
    store.on(["table", "state", "ended"], () => this.#bar());
    store.on(["busy"], () => { this.busy.dataset.on = String(store.get("busy") > 0); });
    store.on(["drawer", "panel"], () => this.#tabs());
    store.on(["message"], () => this.#message());
    store.on(["labels", "state", "selected", "preview", "view"], () => this.#mark());
    listen(this, this.root, signal);
    this.#tabs();
    this.#bar();
    this.open();
  }

  async open() {
    const { store } = this;
    const answer = await store.act({ do: "open" }, { frame: ({ header, arrays }) => this.#part(header, arrays) });
    if (!answer) {
      this.root.dataset.state = "failed";
      return;
    }
    const { methods, views, relations, exports } = answer.header;
    store.set({ methods, views, relations, exports });
    this.root.dataset.state = "open";
    await store.recommended();
  }

  /** @param {import("./wire.js").Header} header @param {Record<string, any>} arrays */
  #part(header, arrays) {
    const { store } = this;
    if (header.table) store.set({ table: header.table });
    if (!arrays.points) return;
    const d = store.get("table").axes.length, n = arrays.points.length / Math.max(1, d);
    const points = Array.from({ length: d }, (_, j) => arrays.points.subarray(j * n, (j + 1) * n));
    if (arrays.rows) store.get("table").rows = arrays.rows;
    store.set({ points, labels: new Uint16Array(n).fill(65535) });
  }

  #bar() {
    const { store } = this, table = store.get("table"), state = store.get("state"), off = store.frozen;
    const button = (/** @type {string} */ key, /** @type {any} */ path, /** @type {string} */ title, /** @type {() => void} */ act, disabled = false) =>
      h("button", { type: "button", class: "kx-tool", title, disabled, "data-key": key, onclick: act }, icon(path), h("span", { class: "kx-unseen" }, title));
    refill(this.bar, h("h1", null, h("span", { class: "kx-brand" }, "knoll"), table ? h("span", { class: "kx-name-of-table" }, table.name) : null),
      table ? h("span", { class: "kx-soft kx-size-of-table" }, `${counted(table.n, "row")} · ${counted(table.columns.filter((/** @type {any} */ one) => one.used).length, "column")}`) : h("span", { class: "kx-soft" }, "Reading the table …"),
      this.busy,
      store.get("ended") ? h("span", { class: "kx-flag", role: "status" }, "The server has stopped: what you see stays, nothing new is computed.") : null,
      off ? h("span", { class: "kx-tag" }, "a copy without a server") : null,
      h("span", { class: "kx-top-tools" },
        button("undo", ICONS.undo, "Undo (u)", () => store.act({ do: "undo" }), off || !state?.undo), button("redo", ICONS.redo, "Redo (U)", () => store.act({ do: "redo" }), off || !state?.redo),
        h("button", { type: "button", class: "kx-button", "data-key": "export", title: "Take it away (e)", disabled: !table, onclick: () => this.exports.show() }, icon(ICONS.save), "Export"),
        button("help", ICONS.help, "Keys (?)", () => this.help.show())));
  }

  #tabs() {
    const { store } = this, drawer = store.get("drawer"), panel = store.get("panel");
    this.root.dataset.panel = panel;
    this.root.dataset.drawer = drawer ? "open" : "closed";
    for (const [name, one] of Object.entries(this.panels)) {
      one.el.hidden = name !== drawer;
      one.el.id = `kx-panel-${name}`;
    }
    refill(this.tabs, TABS.map(([name, title]) => h("button", {
      type: "button", role: "tab", class: `kx-tab${BELOW.some(([other]) => other === name) ? "" : " kx-narrow"}`, "data-key": `tab-${name}`, "data-name": name, "aria-selected": String(drawer === name), "data-current": String(panel === name),
      onclick: () => (drawer === name && this.wide ? store.set({ drawer: "", panel: "clusters" }) : store.open(name)),
    }, title)), drawer ? h("button", { type: "button", class: "kx-tool kx-shut", title: "Close the panel", "data-key": "shut", onclick: () => store.set({ drawer: "", panel: "clusters" }) }, icon(ICONS.close), h("span", { class: "kx-unseen" }, "Close the panel")) : null);
    if (drawer) this.panels[drawer]?.draw?.();
  }

  get wide() {
    return this.root.clientWidth > 860;
  }

  #message() {
    const message = this.store.get("message");
    clearTimeout(this.fading);
    this.message.hidden = !message;
    if (!message) return;
    this.message.dataset.kind = message.kind;
    refill(this.message, h("span", null, sentence(message.text)), h("button", { type: "button", class: "kx-link", onclick: () => this.store.set({ message: null }) }, "Close"));
    this.fading = setTimeout(() => this.store.set({ message: null }), message.kind === "error" ? 9000 : 5000);
  }

  // What tests and assistive technology wait for.
  #mark() {
    const { store } = this;
    this.root.dataset.step = String(store.get("state")?.step ?? "");
    this.root.dataset.selected = String(store.get("state")?.selection?.size ?? 0);
    this.root.dataset.view = store.get("view")?.kind ?? "";
    this.root.dataset.preview = String(store.get("preview"));
  }

  // ---- what keys do ----

  /** @param {"lasso" | "box"} tool */
  draw(tool) {
    const { clientWidth, clientHeight } = this.stage.host;
    this.store.set({ tool });
    this.corners = [];
    this.stage.host.focus();
    this.stage.overlay.set({ cursor: [clientWidth / 2, clientHeight / 2], outline: [] });  // a pointer takes it away
  }

  /** A corner of the lasso or the box at the cursor. @param {[number, number]} at @param {boolean} fixed @param {boolean} [last] @param {string} [mode] */
  corner(at, fixed, last = false, mode = "replace") {
    const box = this.store.get("tool") === "box", { overlay } = this.stage;
    if (fixed && !(last && this.corners.length > 2)) this.corners.push(at);
    const [[x0, y0] = at] = this.corners;
    const outline = box ? /** @type {[number, number][]} */ ([[x0, y0], [at[0], y0], at, [x0, at[1]]]) : [...this.corners, at];
    overlay.set({ cursor: at, outline: this.corners.length ? outline : [] });
    if (!(fixed && (box ? this.corners.length === 2 : last && this.corners.length > 2))) return;
    this.stage.gestures.dragging = box ? "box" : "lasso";
    this.stage.select(this.stage.plot.inside(outline), mode);
    this.corners = [];
    overlay.set({ outline: [] });
  }

  escape() {
    const { store, stage } = this;
    if (this.corners.length || stage.gestures.abandon()) {
      this.corners = [];
      stage.overlay.set({ outline: [] });
    } else if (store.get("row")) store.set({ row: null });
    else if (store.get("selected")) this.selection.clear();
    else store.set({ tool: "move", drawer: "", panel: "clusters" });
  }

  /** @param {number} at @param {boolean} add */
  mark(at, add) {
    const cluster = this.store.clusters[at];
    if (cluster) this.clusters.mark(cluster.label, add);
  }

  /** @param {(label: number) => void} act */
  onMarked(act) {
    const [label] = this.store.get("marked");
    if (label === undefined || label < 0) this.store.say("Select a cluster first: press it in the list, or its number.");
    else act(label);
  }

  compare() {
    const { store } = this, marked = [...store.get("marked")].filter((label) => label >= 0);
    if (marked.length) store.open("groups", { groups: { a: { cluster: marked[0] }, b: marked.length === 2 ? { cluster: marked[1] } : "rest" } });
    else if (store.get("state")?.selection?.size) store.open("groups", { groups: { a: "selection", b: "rest" } });
    else store.open("groups");
  }

  tour() {
    const { viewBar } = this.stage;
    if (viewBar.tour) viewBar.play(!viewBar.tour.playing);
    else viewBar.choose("tour");
  }

  findRow() {
    this.store.open("row");
    queueMicrotask(() => /** @type {HTMLElement | null} */ (this.root.querySelector("[data-key=find]"))?.focus());
  }

  destroy() {
    this.abort.abort();
    this.stage.destroy();
    this.store.link.close();
    this.root.remove();
  }
}

/** @param {{ model: import("./model.js").Model, el: HTMLElement }} view @returns {() => void} */
export function render({ model, el }) {
  const app = new App(model, el);
  /** @type {any} */ (el).knoll = app;  // for people with a console, and for tests
  return () => app.destroy();
}

export default { render };

const host = document.getElementById("knoll");
if (host?.dataset.page !== undefined) start(host, render);
