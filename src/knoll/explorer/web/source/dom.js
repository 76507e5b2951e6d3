// Elements from text: names of columns and clusters only ever become text nodes.

/**
 * @param {string} tag @param {Record<string, any> | null} [props] `on…`: a listener, `class`, `data-…`, `aria-…`, properties
 * @param {...any} children
 * @returns {any}
 */
export function h(tag, props, ...children) {
  const made = document.createElement(tag);
  fill(made, props ?? {});
  append(made, children);
  return made;
}

/** @param {string} tag @param {Record<string, any>} props @param {...(Node | string | null | false)} children @returns {any} */
export function svg(tag, props, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined) made.setAttribute(name, String(value));
  }
  append(made, children);
  return made;
}

/** @param {any} made @param {Record<string, any>} props */
function fill(made, props) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "color") made.style.setProperty("--swatch", value);  // by CSSOM: the policy forbids style attributes
    else if (name === "share") made.style.setProperty("--share", String(value));
    else if (name.includes("-") || name === "role" || name === "for" || name === "list") made.setAttribute(name, String(value));
    else made[name] = value;
  }
}

/** @param {Element} made @param {any[]} children */
function append(made, children) {
  for (const child of children.flat(3)) {
    if (child !== null && child !== undefined && child !== false) made.append(child instanceof Node ? child : String(child));
  }
}

/** Replace what is in an element; the focus stays on the element of the same data-key, or goes to the map. @param {Element} host @param {any[]} children */
export function refill(host, ...children) {
  const active = document.activeElement, within = active instanceof HTMLElement && active !== host && host.contains(active), key = within ? active.dataset.key : undefined;
  const scroll = host.scrollTop;
  host.replaceChildren();
  append(host, children);
  host.scrollTop = scroll;
  if (!within) return;
  const keyed = /** @type {HTMLElement[]} */ ([...host.querySelectorAll("[data-key]")]), same = keyed.find((one) => one.dataset.key === key);
  same?.focus({ preventScroll: true });
  if (same && document.activeElement === same) return;
  // What had the focus has gone, such as a button that did its work: keys go on from the map.
  /** @type {HTMLElement | null | undefined} */ (host.closest(".kx")?.querySelector("[data-key=map]"))?.focus({ preventScroll: true });
}

/** @param {number} value */
export function number(value) {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "–";
  if (Number.isInteger(value) && Math.abs(value) < 1e15) return value.toLocaleString("en").replaceAll(",", "\u202f").replace("-", "−");
  const digits = Number(value.toPrecision(4));
  const text = Math.abs(digits) >= 1e6 || Math.abs(digits) < 1e-4 ? digits.toExponential() : String(digits);
  return text.replace("-", "−");
}

/** @param {number} seconds */
export const duration = (seconds) => {
  if (seconds < 0.001) return "under 1 ms";
  return seconds < 1 ? `${Math.round(1000 * seconds)} ms` : `${number(Number(seconds.toPrecision(3)))} s`;
};

/** A sentence of the server, with a capital letter. @param {string} text */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** @param {number} share */
export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)}\u202f%`;

/** @param {number} count @param {string} one @param {string} [many] */
export const counted = (count, one, many = `${one}s`) => `${number(count)} ${count === 1 ? one : many}`;

/** An icon: paths in a box of 20 × 20. @param {string} path */
export const icon = (path) =>
  svg("svg", { viewBox: "0 0 20 20", class: "kx-icon", "aria-hidden": "true" }, svg("path", { d: path }));

/** Put text on the clipboard; false where the browser refuses. @param {string} text */
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}
