// Colours of clusters: Okabe and Ito's, as in the report; after seven clusters darker, then lighter ones.

import { NOISE } from "./paint_gl.js";

const LIGHT = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#5d3a9b"];
const DARK = ["#3aa0e0", "#f0b429", "#2cc494", "#e08fbd", "#8fd0f5", "#f57f3a", "#a98be0"];
const night = matchMedia("(prefers-color-scheme: dark)");

export const isDark = () => night.matches;

/** Call `changed` when light turns into dark, and back. @param {() => void} changed @param {AbortSignal} signal */
export function onScheme(changed, signal) {
  night.addEventListener("change", changed, { signal });
}

/** @param {string} hex @returns {[number, number, number]} */
const bytes = (hex) => /** @type {[number, number, number]} */ ([1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16)));

/** @param {number} label a colour number, or NOISE @returns {[number, number, number]} */
export function rgb(label) {
  if (label === NOISE) return isDark() ? [128, 134, 145] : [154, 154, 154];
  const base = bytes((isDark() ? DARK : LIGHT)[label % 7]), round = Math.floor(label / 7) % 3;
  if (round === 0) return base;
  const toward = round === 1 ? 0 : 255, share = round === 1 ? 0.38 : 0.42;
  return /** @type {[number, number, number]} */ (base.map((value) => Math.round(value + share * (toward - value))));
}

/** @param {number} label */
export const cssColor = (label) => `rgb(${rgb(label).join(" ")})`;

export const greyOf = () => (isDark() ? [74, 80, 91] : [190, 194, 201]);

/** Texels for a painter: the colour of each label. @param {ReadonlyMap<number, number>} colorOf label → colour number, where it is another one */
export function texels(colorOf) {
  const out = new Uint8Array(256 * 256 * 4), cycle = Array.from({ length: 21 }, (_, k) => rgb(k));
  for (let label = 0; label < 65536; label++) {
    const [r, g, b] = label === NOISE ? rgb(NOISE) : cycle[(colorOf.get(label) ?? label) % 21];
    out.set([r, g, b, 255], 4 * label);
  }
  return out;
}
