// Every action has a key; on the map the arrows pan, or lead a cursor that draws the lasso and the box.

/** @typedef {import("./app.js").App} App */

/** @type {{ keys: string[], text: string, run?: (app: App, event: KeyboardEvent) => void, match?: (event: KeyboardEvent) => boolean }[]} */
export const KEYS = [
  { keys: ["?"], text: "Show these keys", run: (app) => app.help.show() },
  { keys: ["m"], text: "Move the map", run: (app) => app.store.set({ tool: "move" }) },
  { keys: ["l"], text: "Lasso", run: (app) => app.draw("lasso") },
  { keys: ["b"], text: "Box", run: (app) => app.draw("box") },
  { keys: ["0"], text: "Show all rows", run: (app) => app.stage.plot.fit() },
  { keys: ["+", "−"], text: "Zoom", match: (event) => "+=-".includes(event.key), run: (app, event) => app.stage.plot.zoom(event.key === "-" ? 1 / 1.3 : 1.3) },
  { keys: ["1", "…", "9"], text: "Select a cluster of the list; with Alt beside the others", match: (event) => /^Digit[1-9]$/.test(event.code) && !event.shiftKey, run: (app, event) => app.mark(Number(event.code.slice(5)) - 1, event.altKey) },
  { keys: ["Esc"], text: "Give up the lasso, close the row, clear the selection", match: (event) => event.key === "Escape", run: (app) => app.escape() },
  { keys: ["["], text: "One step down of the first parameter", run: (app) => app.fit.step(-1) },
  { keys: ["]"], text: "One step up of the first parameter", run: (app) => app.fit.step(1) },
  { keys: ["c"], text: "Cluster the selected rows again", run: (app) => app.selection.again() },
  { keys: ["k"], text: "Make a cluster of the selected rows", run: (app) => app.selection.own() },
  { keys: ["g"], text: "Merge the selected clusters", run: (app) => app.clusters.merge() },
  { keys: ["n"], text: "Name the selected cluster", run: (app) => app.onMarked((label) => app.clusters.rename(label)) },
  { keys: ["h"], text: "Hide or show the selected cluster", run: (app) => app.onMarked((label) => app.clusters.toggle(label)) },
  { keys: ["d"], text: "Compare the selection with the rest", run: (app) => app.compare() },
  { keys: ["u", "Ctrl Z"], text: "Undo", match: (event) => event.key === "u" || (command(event) && event.key.toLowerCase() === "z" && !event.shiftKey), run: (app) => app.store.act({ do: "undo" }) },
  { keys: ["U", "Ctrl Y"], text: "Redo", match: (event) => event.key === "U" || (command(event) && (event.key.toLowerCase() === "y" || (event.key.toLowerCase() === "z" && event.shiftKey))), run: (app) => app.store.act({ do: "redo" }) },
  { keys: ["v"], text: "The next view", run: (app) => app.stage.viewBar.next() },
  { keys: ["t"], text: "Play or pause the tour", run: (app) => app.tour() },
  { keys: ["f"], text: "Find a row", run: (app) => app.findRow() },
  { keys: ["e"], text: "Take it away: labels, model, script, picture", run: (app) => app.exports.show() },
  { keys: ["q"], text: "Stop what is running", run: (app) => { app.store.link.ask({ do: "cancel", of: null }); } },
];

/** @param {KeyboardEvent} event */
const command = (event) => event.ctrlKey || event.metaKey;

/** @param {App} app @param {HTMLElement} host @param {AbortSignal} signal */
export function listen(app, host, signal) {
  // A choice by mouse or finger gives the keys back to the page: else the next key would choose another entry.
  let pointed = false;
  host.addEventListener("pointerdown", () => { pointed = true; }, { signal, capture: true });
  host.addEventListener("keydown", () => { pointed = false; }, { signal, capture: true });
  host.addEventListener("change", ({ target }) => { if (pointed && target instanceof HTMLSelectElement) target.blur(); }, { signal });
  host.addEventListener("keydown", (event) => {
    const { target } = event;
    const typing = target instanceof HTMLInputElement && target.type !== "checkbox" && target.type !== "range";
    if (typing || (target instanceof HTMLSelectElement && event.key.length === 1 && !command(event)) || host.querySelector("dialog[open]")) return;
    if (target === app.stage.host && onMap(app, event)) {
      event.preventDefault();
      return;
    }
    const found = KEYS.find((one) => (one.match ? one.match(event) : !command(event) && !event.altKey && one.keys.includes(event.key)));
    if (!found || (command(event) && !"zyZY".includes(event.key))) return;
    event.preventDefault();
    found.run?.(app, event);
  }, { signal });
}

const ARROWS = /** @type {Record<string, [number, number]>} */ ({ ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] });

/** @param {App} app @param {KeyboardEvent} event */
function onMap(app, event) {
  const { stage, store } = app, { plot, overlay } = stage, arrow = ARROWS[event.key], drawing = store.get("tool") !== "move";
  const { clientWidth: wide, clientHeight: high } = stage.host;
  if (arrow && !drawing) plot.pan(-40 * arrow[0], -40 * arrow[1]);
  else if (arrow) {
    const [x, y] = overlay.marks.cursor ?? [wide / 2, high / 2], step = event.shiftKey ? 4 : 24;
    const cursor = /** @type {[number, number]} */ ([Math.min(wide, Math.max(0, x + step * arrow[0])), Math.min(high, Math.max(0, y + step * arrow[1]))]);
    app.corner(cursor, false);
  } else if (drawing && (event.key === " " || event.key === "Enter")) {
    app.corner(overlay.marks.cursor ?? [wide / 2, high / 2], true, event.key === "Enter", event.altKey ? "remove" : event.ctrlKey ? "add" : "replace");
  } else if (event.key === "Enter") {
    const row = plot.pick(wide / 2, high / 2, Math.max(wide, high));
    if (row >= 0) store.open("row", { row: { at: row, answer: null } });
  } else return false;
  return true;
}
