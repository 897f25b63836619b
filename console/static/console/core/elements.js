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

/** Make an element. `props`: attributes; `on`: {event: listener}; `data`: {key: value}; null and false are left out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** An icon of the page's sprite (templates/console/icons.html). Decoration: the words stand beside it. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "icon");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** Change text only where it differs: no needless layout, and a selection survives. */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function setAttribute(element, name, value) {
  if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

/** Replace the children of an element. */
export function fill(element, ...children) {
  element.replaceChildren(
    ...children.flat().filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

/**
 * Make `parent`'s children match `items`, keeping the node of each key. `create(item)` makes a node, `update(node,
 * item)` brings it up to date; nodes move only if their order changed.
 */
export function reconcile(parent, items, key, create, update) {
  const old = parent._nodes ?? new Map();
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
    if (node === at) at = at.nextSibling;
    else parent.insertBefore(node, at);
  }
  parent._nodes = nodes;
}

/** What the server put into the page: the JSON of <script type="application/json" id=…>. */
export function pageData(id) {
  const element = document.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

/** At most one call per frame; none while the page is hidden, one when it is shown again. */
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

/** At most one call in `ms`: the first at once, all that come meanwhile as one at the end of it; none while hidden. */
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
