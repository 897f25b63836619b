// Making and updating elements: no strings of HTML, so nothing a broker says can become markup.

const SVG = "http://www.w3.org/2000/svg";

/**
 * An element of the page's template. Templates are not type-checked: of which kind it is, and whether the page has it,
 * the caller knows.
 *
 * @param {string} id
 * @returns {any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * The first element that matches; as `byId`.
 *
 * @param {string} selector
 * @param {ParentNode} [within]
 * @returns {any}
 */
export const find = (selector, within = document) => within.querySelector(selector);

/**
 * All elements that match; as `byId`.
 *
 * @param {string} selector
 * @returns {any[]}
 */
export const findAll = (selector) => [...document.querySelectorAll(selector)];

/** @typedef {any} Child What an element is filled with: nodes, texts and numbers, null or false, or a list of such. */
/** @typedef {{on?: Record<string, (event: any) => void>, data?: Record<string, any>, [name: string]: any}} Props */

/**
 * Children as they are put into an element: lists are flattened (those of icons with words, at most two deep), and what
 * is null or false is left out.
 *
 * @param {Child[]} children
 * @returns {(Node | string)[]}
 */
const nodesOf = (children) =>
  /** @type {any[]} */ (children).flat().filter((child) => child !== null && child !== undefined && child !== false);

/**
 * Make an element. `props`: attributes; `on`: {event: listener}; `data`: {key: value}; null and false are left out.
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
 * An icon of the page's sprite (templates/console/icons.html). Decoration: the words stand beside it.
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
 * Change text only where it differs: no needless layout, and a selection survives.
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

/** @type {WeakMap<Element, Map<string, any>>} the nodes that `reconcile` has made, by key */
const reconciled = new WeakMap();

/** Forget the nodes of `parent`: it has been filled otherwise.
 *
 * @param {Element} parent */
export const forgetNodes = (parent) => reconciled.delete(parent);

/**
 * Make `parent`'s children match `items`, keeping the node of each key. `create(item)` makes a node, `update(node,
 * item)` brings it up to date; nodes move only if their order changed.
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
 * What the server put into the page: the JSON of <script type="application/json" id=…>.
 *
 * @param {string} id
 * @returns {any}
 */
export function pageData(id) {
  const element = byId(id);
  return element ? JSON.parse(element.textContent) : null;
}

/**
 * At most one call per frame; none while the page is hidden, one when it is shown again.
 *
 * @param {() => void} render
 */
export function onNextFrame(render) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      render();
    });
  };
}

/**
 * At most one call in `ms`: the first at once, all that come meanwhile as one at the end of it; none while hidden.
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
