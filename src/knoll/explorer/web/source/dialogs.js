// The two dialogs: what can be taken away, and the keys.

import { h, refill } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

const TITLES = /** @type {Record<string, string>} */ ({
  "labels.csv": "Labels, CSV", "labels.parquet": "Labels, Parquet", "selection.csv": "Selected rows, CSV", model: "Fitted model", script: "Python script of this session",
  sql: "Rules as SQL", python: "Rules as Python", page: "This page as one file",
});

/** @param {string} title @param {string} name */
function dialog(title, name) {
  const body = h("div", { class: "kx-dialog-body" });
  const el = h("dialog", { class: "kx-dialog", "aria-label": title, "data-dialog": name, onclick: (/** @type {any} */ event) => { if (event.target === el) el.close(); } },
    h("div", { class: "kx-head" }, h("h2", null, title), h("button", { type: "button", class: "kx-link", onclick: () => el.close() }, "Close")), body);
  return { el, body };
}

/** @param {string} name @param {BlobPart} content @param {string} media */
function download(name, content, media) {
  const url = URL.createObjectURL(new Blob([content], { type: media })), link = h("a", { href: url, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

/** @param {Store} store @param {() => Promise<Blob | null>} picture */
export function exportDialog(store, picture) {
  const { el, body } = dialog("Take it away", "export");
  let folder = /** @type {string | null} */ (null);  // of --out
  const save = async (/** @type {string} */ kind) => {
    const answer = await store.act({ do: "export", kind, to: folder ? "folder" : "download" });
    if (!answer) return;
    const { name, media, path } = answer.header.file;
    if (!folder) download(name, /** @type {any} */ (answer.arrays.file), media);
    el.close();
    store.say(path ? `Written to ${path}.` : `${name} is saved.`);
  };
  const item = (/** @type {string} */ key, /** @type {string} */ text, /** @type {string} */ small, /** @type {() => void} */ act, disabled = false) => h("li", null,
    h("button", { type: "button", class: "kx-button", "data-key": `export-${key}`, disabled, onclick: act }, text), h("span", { class: "kx-soft kx-small" }, small));
  return {
    el,
    async show() {
      const answer = store.frozen ? null : await store.act({ do: "state" });
      if (answer?.header.exports) store.set({ exports: answer.header.exports });
      folder = answer?.header.folder ?? null;
      refill(body, folder ? h("p", { class: "kx-soft" }, `Files are written to ${folder}.`) : null, h("ul", { class: "kx-exports" },
        store.get("exports").map((/** @type {any} */ one) => item(one.kind, TITLES[one.kind] ?? one.kind, one.available ? one.name ?? "" : one.reason ?? "", () => save(one.kind), !one.available || store.frozen)),
        item("picture", "Picture of the map, PNG", "map.png", async () => {
          const blob = await picture();
          if (blob) download("map.png", blob, "image/png");
          el.close();
        })));
      el.showModal();
    },
  };
}

/** @param {{ keys: string[], text: string }[]} keys */
export function helpDialog(keys) {
  const { el, body } = dialog("Keys", "keys");
  body.append(h("table", { class: "kx-keys" }, h("tbody", null, keys.map(({ keys: names, text }) => h("tr", null, h("td", null, names.map((name, at) => [at ? " " : null, h("kbd", null, name)])), h("td", null, text))))),
    h("p", { class: "kx-soft" }, "With the mouse: drag to move, the wheel to zoom; Shift and drag draws a lasso, with Ctrl it adds to the selection, with Alt it takes away. With fingers: one moves or draws, two zoom."));
  return { el, show: () => el.showModal() };
}
