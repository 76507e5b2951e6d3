// The page as a host: a token from the address, or the answers that an exported page has in it.

import { FrozenModel, PageModel } from "./model.js";

/** @param {HTMLElement} el @param {(view: { model: import("./model.js").Model, el: HTMLElement }) => () => void} render */
export function start(el, render) {
  const frozen = document.getElementById("knoll-frozen");
  if (frozen) return render({ model: new FrozenModel(frozen.textContent ?? ""), el });
  const token = location.hash.slice(1) || sessionStorage.getItem("knoll-token") || "";
  sessionStorage.setItem("knoll-token", token);  // of this tab alone: it may be loaded again
  history.replaceState(null, "", location.pathname + location.search);
  return render({ model: new PageModel(token, new AbortController().signal), el });
}
