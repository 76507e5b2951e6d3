// Every step with its Python line: go back to any, and take the script along.

import { copy, counted, duration, h, refill } from "./dom.js";

/** @typedef {import("./store.js").Store} Store */

export class LogPanel {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    /** @type {any} */
    this.found = null;
    this.el = h("section", { class: "kx-panel", "data-panel": "log", "aria-label": "Log" });
    store.on(["drawer", "state"], () => { if (store.get("drawer") === "log") this.ask(); });
  }

  async ask() {
    const answer = await this.store.act({ do: "log", slot: "log" });
    if (answer) this.found = answer.header;
    this.draw();
  }

  draw() {
    const { store, found } = this;
    if (!found) return;
    refill(this.el,
      h("div", { class: "kx-head" }, h("h2", null, counted(found.log.length, "step")), h("span", { class: "kx-soft" }, `${counted(found.attempts, "setting")} tried`),
        h("button", { type: "button", class: "kx-button", "data-key": "script", onclick: async () => store.say(await copy(found.script) ? "The script is on the clipboard." : "The browser keeps the clipboard closed: export the script instead.") }, "Copy the script")),
      h("ol", { class: "kx-log" }, found.log.map((/** @type {any} */ step) => h("li", { class: step.current ? "kx-current" : "", "aria-current": step.current ? "step" : null },
        h("button", { type: "button", class: "kx-link", "data-key": `step-${step.step}`, disabled: store.frozen || step.current, title: "Go to this step", onclick: () => store.act({ do: "go", step: step.step }) }, step.text),
        step.seconds ? h("span", { class: "kx-soft kx-small" }, ` ${duration(step.seconds)}`) : null,
        step.python ? h("code", null, step.python) : null))));
  }
}
