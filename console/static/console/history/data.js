// What history pages ask the API for, and what they show instead of data: nothing recorded, nothing found, trouble.

import { get, query } from "../core/api.js";
import { byId, fill, h, icon } from "../core/elements.js";
import { queueUrl } from "../core/object_names.js";

/**
 * @param {string} what
 * @param {Record<string, any>} values
 * @param {AbortSignal} [signal]
 */
export const ask = (what, values, signal) => get(`history/${what ? `${what}/` : ""}${manyQuery(values)}`, signal);

/**
 * As `query`, with lists: each of their values is a parameter of its own.
 *
 * @param {any} values
 */
export function manyQuery(values) {
  const single = Object.fromEntries(Object.entries(values).filter(([, value]) => !Array.isArray(value)));
  const lists = Object.entries(values).filter(([, value]) => Array.isArray(value));
  const text = query(single);
  const more = lists
    .flatMap(([name, list]) => list.map((/** @type {any} */ value) => `${name}=${encodeURIComponent(value)}`))
    .join("&");
  return more ? `${text || "?"}${text ? "&" : ""}${more}` : text;
}

/**
 * @param {any} what
 * @param {any} values
 * @param {any} kind
 */
export const fileUrl = (what, values, kind) => `/api/v1/history/${what}/file/${manyQuery({ ...values, as: kind })}`;

/** @param {any} values */
const params = (values) => query(values);

/**
 * Pages of the history. `range`: {from, until} as the address has them, or nothing.
 *
 * @param {any} key
 * @param {any} [range]
 */
export const historyQueueUrl = (key, range = {}) =>
  `/history${queueUrl(key.virtualhost, key.queue ?? key.name)}${params({ broker: key.broker, ...range })}`;
/**
 * @param {any} key
 * @param {any} [range]
 */
export const incidentUrl = (key, range = {}) =>
  "/history/incident/" +
  `${params({ ...range, broker: key.broker, virtualhost: key.queue ? key.virtualhost : "", queue: key.queue })}`;
/**
 * @param {any} key
 * @param {any} [range]
 */
export const whatIfUrl = (key, range = {}) =>
  `/history/what-if${queueUrl(key.virtualhost, key.queue ?? key.name).replace(/^\/queues/, "")}` +
  `${params({ broker: key.broker, ...range })}`;

/** How to get a history, for a place that has none. */
const howToBegin = () => [
  h("p", {}, h("strong", {}, "Nothing has been recorded yet.")),
  h("p", {}, "Three commands fill the history; the pages show it within seconds:"),
  h(
    "ul",
    { class: "plain-list commands" },
    h(
      "li",
      {},
      h("code", {}, "manage.py recorder"),
      " follows the brokers from now on (",
      h("code", {}, "manage.py up"),
      " runs it by itself);",
    ),
    h("li", {}, h("code", {}, "manage.py import-log FILE…"), " reads the logs that your Qpid brokers already have;"),
    h("li", {}, h("code", {}, "manage.py make-history"), " makes up a year, to look around."),
  ),
];

/**
 * Text between backquotes is a command.
 *
 * @param {string} text
 */
export const withCommands = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/**
 * Say in a line, in `element`, what keeps the pipeline from showing what happened; nothing if it is well.
 *
 * @param {HTMLElement} element
 */
export async function showPipeline(element) {
  let told;
  try {
    told = await ask("status", {});
  } catch {
    return; // what cannot be asked now is asked again
  }
  const found = told.findings.filter((/** @type {any} */ one) => one.severity === "trouble");
  element.hidden = !found.length;
  if (!found.length) return;
  fill(
    element,
    icon("overfull"),
    h(
      "p",
      {},
      h("strong", {}, found[0].text),
      found.length > 1 ? ` And ${found.length - 1} more. ` : " ",
      h(
        "a",
        {
          href: `/history/status/${query({ broker: new URLSearchParams(location.search).get("broker") })}`,
        },
        "Status of the history",
      ),
    ),
  );
}

const beingWorkedOut = () => [
  h("p", {}, h("strong", {}, "The recording has begun.")),
  h("p", {}, "Its first numbers are being worked out and come within a minute or so. This page shows them by itself."),
];

let looking = 0;

/**
 * Put into `element` why there is nothing; `again` is what "Try again" does, and what is done by itself while the
 * first numbers are to come.
 *
 * @param {HTMLElement} element
 * @param {any} error
 * @param {(...given: any[]) => any} again
 */
export function showTrouble(element, error, again) {
  if (error.name === "AbortError") return;
  if (error.status === 404) {
    fill(element, h("div", { class: "empty" }, error.begun === false ? howToBegin() : beingWorkedOut()));
    clearTimeout(looking);
    if (again) looking = setTimeout(again, 10_000);
    return;
  }
  fill(
    element,
    h(
      "div",
      { class: "empty trouble", role: "alert" },
      icon("info"),
      h("p", {}, h("strong", {}, "This cannot be shown. "), error.message || String(error)),
      again ? h("p", {}, h("button", { type: "button", on: { click: again } }, "Try again")) : null,
    ),
  );
}

/**
 * @param {HTMLElement} element
 * @param {...any} words
 */
export const showNothing = (element, ...words) => fill(element, h("div", { class: "empty" }, h("p", {}, words)));

/**
 * Ask for several things at once, each asked again before the last answer came is given up. `load(name, call, show,
 * element)`: `call(signal)` asks, `show(answer)` shows it; what goes wrong is told in `element`.
 */
export class Loading {
  #running = new Map();

  /**
   * @param {any} name
   * @param {any} call
   * @param {any} show
   * @param {HTMLElement} element
   * @param {(...given: any[]) => any} again
   */
  async load(name, call, show, element, again) {
    this.#running.get(name)?.abort();
    const control = new AbortController();
    this.#running.set(name, control);
    element.setAttribute("aria-busy", "true");
    try {
      const answer = await call(control.signal);
      if (this.#running.get(name) === control) show(answer);
    } catch (error) {
      if (this.#running.get(name) === control && error.name !== "AbortError") {
        if (!("status" in error)) console.error(error);
        showTrouble(element, error, again);
      }
    } finally {
      if (this.#running.get(name) === control) element.removeAttribute("aria-busy");
    }
  }
}

/**
 * Call `look` every `ms` while the page is shown and `wanted()`.
 *
 * @param {(...given: any[]) => any} look
 * @param {any} wanted
 * @param {number} [ms]
 */
export function repeat(look, wanted, ms = 15_000) {
  setInterval(() => document.visibilityState === "visible" && wanted() && look(), ms);
}

/**
 * Show a page, #history, as soon as anything is known: `prepare(known)` what that changes, then `load()`. Until then
 * #nothing says why there is nothing, how to begin, or that the first numbers are to come.
 *
 * @param {any} prepare
 * @param {(...given: any[]) => any} load
 */
export async function begin(prepare, load) {
  const [page, nothing] = ["history", "nothing"].map((id) => byId(id));
  try {
    const known = await ask("", {});
    if (!known.recorded) throw Object.assign(new Error("nothing"), { status: 404, begun: known.landed });
    prepare(known);
  } catch (error) {
    page.hidden = true;
    nothing.hidden = false;
    showTrouble(nothing, error, () => begin(prepare, load));
    return;
  }
  page.hidden = false;
  nothing.hidden = true;
  load();
}
