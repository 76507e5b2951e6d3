// The recommendation of compare, beside whatever is set by hand: verdict, reasons, and a way back to it.

import { counted, h, percent } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

/** @param {Store} store */
export function recommendationCard(store) {
  const progress = store.get("progress"), header = store.get("recommendation"), found = header?.recommendation;
  if (!found) return waiting(store, progress ?? (header?.running ? header : null));
  const state = store.get("state"), answer = found.answers?.find((/** @type {any} */ one) => one.id === found.answer);
  const title = state?.answers.find((/** @type {any} */ one) => one.id === found.answer)?.title ?? answer?.method ?? "";
  const shown = state?.answer?.id === found.answer;
  return h("article", { class: `kx-card kx-${found.verdict === "none" ? "none" : "likely"}` },
    h("h3", null, found.answer ? `${title}, ${counted(answer?.n_clusters ?? 0, "cluster")}` : "No clusters"),
    h("p", { class: "kx-verdict" }, verdictText(found)),
    h("details", null, h("summary", null, "Why"), h("ul", null, (found.reasons ?? []).map((/** @type {string} */ text) => h("li", null, text))),
      found.caution ? h("p", { class: "kx-note" }, found.caution) : null, alternatives(store, found)),
    found.answer && !shown ? h("button", { type: "button", class: "kx-button", "data-key": "recommended", onclick: () => store.act({ do: "show", answer: found.answer }) }, "Show the recommendation") : null);
}

/** @param {any} found a recommendation, or the verdict on a selection */
export function verdictText({ verdict, level, confidence }) {
  const text = verdict === "none" ? "No clear clusters: the labels divide one cloud" : verdict === "unclear" ? `Unclear whether there are clusters · ${level}` : `Recommended · ${level}`;
  return confidence === null || confidence === undefined ? text : `${text}, confidence ${percent(confidence)}`;
}

/** @param {Store} store @param {any} progress */
function waiting(store, progress) {
  if (!progress) {
    if (store.frozen || !store.get("table")) return null;
    return h("article", { class: "kx-card" }, h("h3", null, "Recommendation"), h("p", { class: "kx-soft" }, "All methods are tried and judged, in the background."),
      h("button", { type: "button", class: "kx-button", "data-key": "recommend", onclick: () => recommend(store) }, "Find the best answer"));
  }
  return h("article", { class: "kx-card" }, h("h3", null, "Comparing the methods"),
    h("progress", { max: 1, value: progress.fraction ?? 0, "aria-label": "Progress of the comparison" }), h("p", { class: "kx-soft kx-small" }, progress.stage ?? ""));
}

/** @param {Store} store @param {any} found */
function alternatives(store, found) {
  const others = (found.answers ?? []).filter((/** @type {any} */ one) => one.id && one.id !== found.answer).slice(0, 6);
  if (!others.length) return null;
  const titles = new Map((store.get("state")?.answers ?? []).map((/** @type {any} */ one) => [one.id, one.title]));
  return [h("p", { class: "kx-soft kx-small" }, "Other answers:"), h("ul", { class: "kx-others" }, others.map((/** @type {any} */ one) => h("li", null, h("button", {
    type: "button", class: "kx-link", onclick: () => store.act({ do: "show", answer: one.id }),
  }, `${titles.get(one.id) ?? one.method}, ${counted(one.n_clusters, "cluster")}`))))];
}

/** @param {Store} store */
export async function recommend(store) {
  const answer = await store.act({ do: "recommend" });
  if (answer) store.set({ recommendation: answer.header, progress: answer.header.running ? { fraction: 0, stage: "" } : null });
}
