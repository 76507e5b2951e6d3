// Fits that follow a slider: one question at a time, the newest position next; one that takes long is replaced.

/** @typedef {import("./store.js").Store} Store */
/** @typedef {import("./wire.js").Header} Header */

const PATIENCE = 220;  // milliseconds until a newer position cancels the older

export class Live {
  /** @param {Store} store */
  constructor(store) {
    this.store = store;
    this.count = 0;  // of questions; an answer to an older one is not shown
    this.flying = 0;
    this.begun = 0;
    /** @type {Header | null} */
    this.wanted = null;
    this.answers = 0;
  }

  /** Show what a message would give, without a step of the history. @param {Header} message */
  drag(message) {
    this.wanted = message;
    if (!this.flying || performance.now() - this.begun > PATIENCE) this.#send();
  }

  async #send() {
    const { store } = this, message = this.wanted, id = ++this.count;
    this.wanted = null;
    this.flying = id;
    this.begun = performance.now();
    try {
      const answer = await store.link.ask({ ...message, commit: false, slot: "slider" }, {
        frame: (part) => { if (id === this.count && part.header.kind === "preview") store.showLive(part, true); },
      });
      if (id === this.count) {
        store.showLive(answer, false);
        this.answers += 1;
      }
    } catch (error) {
      const { code, message: text } = /** @type {any} */ (error);
      if (code !== "superseded" && code !== "cancelled") store.say(text, "error");
    }
    if (this.flying !== id) return;
    this.flying = 0;
    if (this.wanted) this.#send();
  }

  /** Make it a step of the history. @param {Header} message */
  commit(message) {
    this.count += 1;
    this.flying = 0;
    this.wanted = null;
    const id = this.count;
    return this.store.act({ ...message, commit: true, slot: "slider" }, {
      frame: (part) => { if (id === this.count && part.header.kind === "preview") this.store.showLive(part, true); },
    });
  }
}
