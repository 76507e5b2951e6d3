// What is known of a row without asking the server: its cluster, and the values that the map shows.

import { h, number } from "./dom.js";
import { NOISE } from "./paint_gl.js";
import { cssColor } from "./palette.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store @param {number} label @param {boolean} [hollow] */
export const chip = (store, label, hollow = false) =>
  h("span", { class: `kx-chip${label === NOISE || label < 0 ? " kx-noise" : ""}${hollow ? " kx-hollow" : ""}`, color: cssColor(label < 0 ? NOISE : label), "aria-hidden": "true" });

/** @param {Store} store @param {number} row */
export function rowTip(store, row) {
  const label = store.get("labels")[row], table = store.get("table"), view = store.get("view")?.about;
  const axes = view?.kind === "columns" ? [view.x, view.y] : [];
  const rest = table.axes.map((/** @type {any} */ _, /** @type {number} */ at) => at).filter((/** @type {number} */ at) => !axes.includes(at));
  const shown = [...axes, ...rest].slice(0, 6);
  return [
    h("b", null, chip(store, label), ` ${store.name(label)}`), h("span", { class: "kx-soft" }, ` row ${number(table.rows ? table.rows[row] : row)}`),
    h("dl", null, shown.map((at) => [h("dt", null, table.axes[at].name), h("dd", null, number(Number(store.value(row, at).toPrecision(4))))])),
  ];
}
