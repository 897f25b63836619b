// Create and update elements, without HTML strings: text of a broker cannot become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * Return an element of the page's template. Templates are not type-checked: the caller knows the element's type and
 * whether the page has it.
 *
 * @param {string} id
 * @returns {any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * Return the first matching element; types as with `byId`.
 *
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {any}
 */
export const find = (selector, within = document) => within.querySelector(selector);

/**
 * Return all matching elements; types as with `byId`.
 *
 * @param {string} selector
 * @returns {any[]}
 */
export const findAll = (selector) => [...document.querySelectorAll(selector)];

/** @typedef {any} Child What an element is filled with: nodes, texts and numbers, null or false, or a list of such. */
/** @typedef {{on?: Record<string, (event: any) => void>, data?: Record<string, any>, [name: string]: any}} Props */

/**
 * Children of an element: lists are flattened (two levels at most), null and false are skipped.
 *
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
const nodesOf = (children) =>
  /** @type {any[]} */ (children).flat().filter((child) => child !== null && child !== undefined && child !== false);

/**
 * Create an element. `props`: attributes; `on`: {event: listener}; `data`: {key: value}; null and false are skipped.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Props} [props]
 * @param {...Child} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value") /** @type {any} */ (element).value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...nodesOf(children));
  return element;
}

/**
 * Create an icon of the page's sprite (templates/console/icons.html). Decorative: text next to it has the meaning.
 *
 * @param {any} name
 */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/**
 * Set the text if it differs: avoids layout and preserves a selection.
 *
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {HTMLElement} element
 * @param {any} name
 * @param {any} value
 */
export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/**
 * Replace the children of an element.
 *
 * @param {Element} element
 * @param {...Child} children
 */
export function fill(element, ...children) {
  element.replaceChildren(...nodesOf(children));
  return element;
}

/**
 * Replace the children of an element if `same` differs from the last time: a live region that is filled again is read
 * out again, and a link in it loses the focus.
 *
 * @param {HTMLElement} element that nothing else fills
 * @param {string} same what the children are made of, as text
 * @param {() => Child} make
 */
export function fillOnce(element, same, make) {
  if (element.dataset.same === same) return;
  element.dataset.same = same;
  fill(element, make());
}

/** @type {WeakMap<Element, Map<string, any>>} the nodes that `reconcile` has made, by key */
const reconciled = new WeakMap();

/** Forget the nodes of `parent` after other code has replaced its children.
 *
 * @param {Element} parent */
export const forgetNodes = (parent) => reconciled.delete(parent);

/**
 * Make `parent`'s children match `items`, reusing the node of each key. `create(item)` returns a new node,
 * `update(node, item)` updates one; nodes move only if their order changes.
 *
 * @template Item
 * @param {Element} parent
 * @param {Item[]} items
 * @param {(item: Item) => string | number} key
 * @param {(item: Item) => Element} create
 * @param {(node: any, item: Item) => void} [update]
 */
export function reconcile(parent, items, key, create, update) {
  const old = reconciled.get(parent) ?? new Map();
  const nodes = new Map();
  for (const item of items) {
    const name = String(key(item));
    const node = old.get(name) ?? create(item);
    update?.(node, item);
    nodes.set(name, node);
  }
  for (const [name, node] of old) if (!nodes.has(name)) node.remove();
  let at = parent.firstChild;
  for (const node of nodes.values()) {
    if (node === at) at = node.nextSibling;
    else parent.insertBefore(node, at);
  }
  reconciled.set(parent, nodes);
}

/**
 * Return data that the server embedded in the page: the JSON of <script type="application/json" id=…>.
 *
 * @param {string} id
 * @returns {any}
 */
export function pageData(id) {
  const element = byId(id);
  return element ? JSON.parse(element.textContent) : null;
}

/**
 * Return a function that calls `render` at most once per frame; on a hidden page, once when it is shown again.
 *
 * @param {() => void} render
 */
export function onNextFrame(render) {
  let scheduled = false;
  return () => {
    if (scheduled) return;
    scheduled = true;
    requestAnimationFrame(() => {
      scheduled = false;
      render();
    });
  };
}

/**
 * Return a function that calls `render` at most once per `ms`: the first call at once, later ones together at the end
 * of the interval; none while the page is hidden.
 *
 * @param {number} ms
 * @param {() => void} render
 */
export function atMostEvery(ms, render) {
  const draw = onNextFrame(render);
  let last = -Infinity;
  let waiting = 0;
  return () => {
    if (waiting) return;
    const left = last + ms - performance.now();
    const now = () => {
      waiting = 0;
      last = performance.now();
      draw();
    };
    if (left <= 0) now();
    else waiting = setTimeout(now, left);
  };
}
