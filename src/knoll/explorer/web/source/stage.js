// The map with its tools, the choice of a view, the tip beside a row, and what the view says of itself.

import { counted, h, icon, percent, refill } from "./dom.js";
import { Gestures } from "./gestures.js";
import { ICONS } from "./icons.js";
import { Overlay } from "./overlay.js";
import { NOISE } from "./paint_gl.js";
import { cssColor, onScheme } from "./palette.js";
import { Plot } from "./plot.js";
import { rowTip } from "./tip.js";
import { ViewBar } from "./viewbar.js";

/** @typedef {import("./store.js").Store} Store */

const TOOLS = /** @type {const} */ ([["move", "Move", "m"], ["lasso", "Lasso", "l"], ["box", "Box", "b"]]);

export class Stage {
  /** @param {Store} store @param {AbortSignal} signal @param {{ webgl?: boolean | "auto" }} options */
  constructor(store, signal, options) {
    this.store = store;
    this.hovered = -1;  // the row under the mouse
    this.host = h("div", {
      class: "kx-map", tabIndex: 0, role: "application", "aria-label": "Map of the rows", "aria-describedby": "kx-map-help", "data-key": "map",
    });
    this.tip = h("div", { class: "kx-tip", hidden: true });
    this.status = h("p", { class: "kx-status", "aria-live": "polite" });
    this.tools = h("div", { class: "kx-tools", role: "toolbar", "aria-label": "Tools of the map" });
    this.plot = new Plot(this.host, options);
    this.overlay = new Overlay(this.plot);
    this.viewBar = new ViewBar(store, this.plot, this.overlay);
    this.second = h("div", { class: "kx-second", hidden: true });
    this.host.append(this.tip);
    this.el = h("section", { class: "kx-stage", "aria-label": "Map" },
      h("div", { class: "kx-stage-bar" }, this.tools, this.viewBar.el),
      h("div", { class: "kx-maps" }, this.host, this.second),
      this.status,
      h("p", { id: "kx-map-help", class: "kx-unseen" }, "Arrow keys move the map, plus and minus zoom; with the lasso or the box they move a cursor, Space sets a corner, Enter closes. Press ? for all keys."));
    this.gestures = new Gestures(this.plot, {
      hover: (row, x, y) => this.#hover(row, x, y),
      press: (row) => this.#press(row),
      select: (flags, mode) => this.select(flags, mode),
      outline: (polygon) => this.overlay.set({ outline: polygon, cursor: null }),
    }, signal);
    store.on(["points"], () => this.#points());
    store.on(["labels"], () => { if (this.plot.rows === store.rows) this.plot.setLabels(store.get("labels")); });
    store.on(["selected", "shown"], () => this.#flags());
    store.on(["tool"], () => this.#tools());
    store.on(["row"], () => this.#row());
    store.on(["view", "preview", "labels", "shown"], () => this.#status());
    onScheme(() => { this.plot.setColors(); store.set({ scheme: {} }); }, signal);
    this.#tools();
  }

  #points() {
    const { store, plot } = this;
    plot.setColumns(store.get("points"));
    if (store.rows === plot.rows) plot.setLabels(store.get("labels"));
    else store.set({ labels: new Uint16Array(plot.rows).fill(NOISE) });
    this.viewBar.first();
  }

  #flags() {
    const selected = this.store.get("selected"), shown = this.store.get("shown"), flags = new Uint8Array(this.plot.rows);
    if (selected) flags.set(selected);
    if (shown) for (let i = 0; i < flags.length; i++) flags[i] |= shown[i] ? 0 : 2;
    this.plot.setFlags(flags, Boolean(selected));
  }

  #tools() {
    const tool = this.store.get("tool");
    this.gestures.tool = tool;
    this.host.dataset.tool = tool;
    if (tool === "move") this.overlay.set({ cursor: null });
    refill(this.tools, TOOLS.map(([name, title, key]) => h("button", {
      type: "button", class: "kx-tool", "aria-pressed": String(tool === name), title: `${title} (${key})`, "data-key": `tool-${name}`,
      onclick: () => this.store.set({ tool: name }),
    }, icon(ICONS[name]), h("span", { class: "kx-unseen" }, title))),
    h("button", { type: "button", class: "kx-tool", title: "Show all (0)", "data-key": "fit", onclick: () => this.plot.fit() }, icon(ICONS.fit), h("span", { class: "kx-unseen" }, "Show all")));
  }

  /** @param {Uint8Array} flags @param {string} mode */
  select(flags, mode) {
    const view = this.store.get("view"), tool = this.gestures.dragging === "box" ? "box" : "lasso";
    return this.store.selectRows(flags, mode, `${tool} in ${(view?.about.title ?? "the map").toLowerCase()}`);
  }

  /** @param {number} row @param {number} x @param {number} y */
  #hover(row, x, y) {
    this.tip.hidden = row < 0;
    if (row !== this.hovered) {
      this.hovered = row;
      if (row >= 0) refill(this.tip, rowTip(this.store, row));
      this.#row();
    }
    if (row < 0) return;
    const { clientWidth: wide, clientHeight: high } = this.host, { offsetWidth, offsetHeight } = this.tip;
    this.tip.style.transform = `translate(${Math.round(x + 14 + offsetWidth > wide ? Math.max(0, x - 14 - offsetWidth) : x + 14)}px, ${Math.round(y + 14 + offsetHeight > high ? Math.max(0, y - 14 - offsetHeight) : y + 14)}px)`;
  }

  /** @param {number} row */
  #press(row) {
    this.host.focus({ preventScroll: true });
    if (row >= 0) this.store.open("row", { row: { at: row, answer: null } });
    else if (this.store.get("row")) this.store.set({ row: null });
  }

  #row() {
    const row = this.store.get("row"), found = row?.answer, { hovered } = this, d = this.store.get("points").length;
    const path = [];
    if (found?.arrays.path) for (let at = 0; at < found.arrays.path.length; at += d) path.push(found.arrays.path.slice(at, at + d));
    const rows = [...new Set([row?.at ?? -1, hovered])].filter((at) => at >= 0);
    this.overlay.set({ rows, near: row && found ? [...found.arrays.neighbors] : [], path: this.viewBar.view?.positions ? [] : path });
  }

  #status() {
    const { store } = this, view = store.get("view")?.about, preview = store.get("preview");
    this.host.classList.toggle("kx-preview", preview);
    const said = [];
    if (preview) said.push(h("b", { class: "kx-flag" }, "Preview"), " of a sample; the exact labels follow. ");
    if (view) {
      const { variance, kept } = view, known = (/** @type {any} */ value) => value !== null && value !== undefined;
      if (known(variance)) said.push("This view shows ", h("b", null, percent(Math.min(1, variance))), " of the variance. ");
      if (known(kept)) said.push(h("b", null, `${(10 * kept).toFixed(1)} of a row’s 10 nearest rows`), " are among its 30 nearest here. ");
      if (view.text) said.push(view.text);
    }
    const shown = store.get("state")?.shown, table = store.get("table");
    if (table && shown !== undefined && shown < table.n) said.push(" ", h("b", null, counted(table.n - shown, "row")), " filtered out.");
    if (table && table.drawn < table.n) said.push(" ", h("b", null, `${counted(table.drawn, "row")} drawn`), " of ", counted(table.n, "row"), ".");
    refill(this.status, said);
  }

  // ---- a second map: another answer, under the same camera ----

  /** @param {Uint16Array | null} labels @param {ReadonlyMap<number, number>} colorOf @param {string} title @param {string} first */
  beside(labels, colorOf, title, first) {
    this.second.hidden = !labels;
    this.host.dataset.title = labels ? first : "";
    this.second.dataset.title = title;
    if (!labels) {
      this.other?.destroy();
      this.other = null;
      return;
    }
    if (!this.other) {
      const other = new Plot(this.second, { webgl: this.plot.webgl });
      this.other = other;
      other.setColumns(this.plot.columns);
      this.plot.onDraw(() => this.#follow());
    }
    this.other.setLabels(labels);
    this.other.setColors(colorOf);
    this.#follow();
  }

  #follow() {
    const { other, plot } = this;
    if (!other) return;
    if (other.columns !== plot.columns) {
      other.setColumns(plot.columns);
      other.setLabels(other.labels);
    }
    if (other.ax !== plot.ax || other.ay !== plot.ay) other.shareView(plot);
    other.camera = { ...plot.camera };
    other.home = plot.home;
    if (plot.flags) other.setFlags(plot.flags, plot.dim);
    other.redraw(Boolean(plot.moving));
  }

  /** The picture of the map, as shown. @returns {Promise<Blob | null>} */
  picture() {
    this.plot.moving = false;
    this.plot.draw();
    const { canvas } = this.plot, flat = document.createElement("canvas");
    Object.assign(flat, { width: canvas.width, height: canvas.height });
    const pen = /** @type {CanvasRenderingContext2D} */ (flat.getContext("2d"));
    pen.fillStyle = getComputedStyle(this.host).backgroundColor;
    pen.fillRect(0, 0, flat.width, flat.height);
    pen.drawImage(canvas, 0, 0);
    pen.drawImage(this.overlay.canvas, 0, 0);
    this.#legend(pen);
    return new Promise((done) => { flat.toBlob(done, "image/png"); });
  }

  /** @param {CanvasRenderingContext2D} pen */
  #legend(pen) {
    const { dense } = this.plot;
    pen.scale(dense, dense);
    pen.font = '12px system-ui, "DejaVu Sans", Arial, sans-serif';
    pen.textBaseline = "middle";
    this.store.clusters.slice(0, 24).forEach(({ label }, at) => {
      pen.fillStyle = cssColor(label);
      pen.fillRect(14, 14 + 18 * at, 10, 10);
      pen.fillStyle = getComputedStyle(this.host).color;
      pen.fillText(this.store.name(label), 30, 19.5 + 18 * at);
    });
  }

  destroy() {
    this.viewBar.stop();
    this.other?.destroy();
    this.overlay.destroy();
    this.plot.destroy();
  }
}
