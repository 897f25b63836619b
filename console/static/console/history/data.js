// Calls of the history API, and what the history pages show without data: nothing recorded, no results, errors.

import { get, query } from "../core/api.js";
import { byId, fill, h, icon } from "../core/elements.js";
import { duration } from "../core/format.js";
import { formatName, queuePath } from "../core/object_names.js";
import { settings } from "../core/settings.js";

/**
 * @param {string} what
 * @param {Record<string, any>} values
 * @param {AbortSignal} [signal]
 */
export const fetchHistory = (what, values, signal) =>
  get(`history/${what ? `${what}/` : ""}${manyQuery(values)}`, signal);

/**
 * As `query`, but a list becomes one parameter per value.
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
 * Addresses of the history pages. `range`: {from, until} as in the address, or empty.
 *
 * @param {any} key
 * @param {any} [range]
 */
export const historyQueueUrl = (key, range = {}) =>
  `/history${queuePath(key.virtualhost, key.queue ?? key.name)}${params({ broker: key.broker, ...range })}`;
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
  `/history/what-if${queuePath(key.virtualhost, key.queue ?? key.name).replace(/^\/queues/, "")}` +
  `${params({ broker: key.broker, ...range })}`;

/**
 * Return the address of the policy editor of a queue with other limits entered, which it previews; "" for a broker that
 * this console does not manage. `limits`, `current`: stop and resume levels; levels of a unit that does not change are
 * not entered, nor are fields that cannot be set there. A resume level at the capacity is entered as 100%: without a
 * value the queue would inherit one, or have its own of now, which is another than the simulated one.
 *
 * @param {any} key
 * @param {Record<string, number>} limits
 * @param {Record<string, number>} current
 */
export function policyUrl(key, limits, current) {
  if (!settings.brokers.some((/** @type {any} */ one) => one.slug === key.broker)) return "";
  const object = formatName("Queue", { virtualhost: key.virtualhost, name: key.queue ?? key.name });
  const address = new URLSearchParams({ object, broker: key.broker });
  const fields = settings.policyFields?.[key.broker];
  for (const unit of ["messages", "bytes"]) {
    const [stop, resume] = [`capacity_${unit}`, `resume_${unit}`];
    if (limits[stop] === current[stop] && limits[resume] === current[resume]) continue;
    /** @type {Record<string, number | string | undefined>} */
    const values = { [`capacity_${unit}`]: limits[stop] };
    const again = limits[resume] === limits[stop] ? "100%" : limits[resume];
    if (limits[stop]) Object.assign(values, { [`flow_stop_${unit}`]: "100%", [`flow_resume_${unit}`]: again });
    for (const [name, value] of Object.entries(values))
      if (!fields || fields.includes(name)) address.append("set", `${name}:${value}`);
  }
  return `/policies/scope/?${address}`;
}

/**
 * Format a range of times; one time if both ends look the same.
 *
 * @param {number | null} low
 * @param {number | null} high
 */
export function durations(low, high) {
  const [from, until] = [duration(low), duration(high)];
  return from === until ? from : `${from} to ${until}`;
}

/** Instructions for a console that has recorded nothing. */
const gettingStarted = () => [
  h("p", {}, h("strong", {}, "Nothing has been recorded yet.")),
  h("p", {}, "Three commands add data, which appears here within seconds:"),
  h(
    "ul",
    { class: "plain-list commands" },
    h(
      "li",
      {},
      h("code", {}, "headgate recorder"),
      " records the connected brokers from now on (",
      h("code", {}, "headgate up"),
      " starts it, too);",
    ),
    h("li", {}, h("code", {}, "headgate import-log FILE…"), " imports existing logs of Qpid brokers;"),
    h("li", {}, h("code", {}, "headgate make-history"), " generates a year of sample data."),
  ),
];

/**
 * Render text in backquotes as commands.
 *
 * @param {string} text
 */
export const withCommands = (text) => text.split("`").map((part, index) => (index % 2 ? h("code", {}, part) : part));

/**
 * Show the pipeline's most severe problem in `element`; hide it while there is none.
 *
 * @param {HTMLElement} element
 */
export async function showPipeline(element) {
  let status;
  try {
    status = await fetchHistory("status", {});
  } catch {
    return; // the next refresh tries again
  }
  const problems = status.findings.filter((/** @type {any} */ one) => one.severity === "trouble");
  element.hidden = !problems.length;
  if (!problems.length) return;
  fill(
    element,
    icon("overfull"),
    h(
      "p",
      {},
      h("strong", {}, problems[0].text),
      problems.length > 1 ? ` And ${problems.length - 1} more. ` : " ",
      h(
        "a",
        {
          href: `/history/status/${query({ broker: new URLSearchParams(location.search).get("broker") })}`,
        },
        "History status",
      ),
    ),
  );
}

const pendingFirstRun = () => [
  h("p", {}, h("strong", {}, "Recording has started.")),
  h("p", {}, "The first figures follow within seconds. This page updates automatically."),
];

const RETRY_MS = 10_000;
/** Between two looks for the first data: a recorder that has just started publishes it within seconds. */
const FIRST_DATA_MS = 1_000;
let retryTimer = 0;

/**
 * Show in `element` why data is missing. `retry` is called by "Try again", and every `ms` while the first figures are
 * pending.
 *
 * @param {HTMLElement} element
 * @param {any} error
 * @param {(...given: any[]) => any} retry
 * @param {number} [ms]
 */
export function showError(element, error, retry, ms = RETRY_MS) {
  if (error.name === "AbortError") return;
  if (error.status === 404) {
    fill(element, h("div", { class: "empty" }, error.begun === false ? gettingStarted() : pendingFirstRun()));
    clearTimeout(retryTimer);
    if (retry) retryTimer = setTimeout(retry, ms);
    return;
  }
  fill(
    element,
    h(
      "div",
      { class: "empty trouble", role: "alert" },
      icon("info"),
      h("p", {}, h("strong", {}, "Loading failed. "), error.message || String(error)),
      retry ? h("p", {}, h("button", { type: "button", on: { click: retry } }, "Try again")) : null,
    ),
  );
}

/**
 * @param {HTMLElement} element
 * @param {...any} words
 */
export const showEmpty = (element, ...words) => fill(element, h("div", { class: "empty" }, h("p", {}, words)));

/**
 * Load several parts of a page at once; a new request of a part aborts its previous one. `load(name, call, show,
 * element, retry)`: `call(signal)` requests, `show(answer)` renders; errors appear in `element`.
 */
export class Loading {
  #running = new Map();

  /**
   * @param {any} name
   * @param {any} call
   * @param {any} show
   * @param {HTMLElement} element
   * @param {(...given: any[]) => any} retry
   */
  async load(name, call, show, element, retry) {
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
        showError(element, error, retry);
      }
    } finally {
      if (this.#running.get(name) === control) element.removeAttribute("aria-busy");
    }
  }
}

/**
 * Call `refresh` every `ms` while the page is visible and `wanted()` is true.
 *
 * @param {(...given: any[]) => any} refresh
 * @param {any} wanted
 * @param {number} [ms]
 */
export function repeat(refresh, wanted, ms = 15_000) {
  setInterval(() => document.visibilityState === "visible" && wanted() && refresh(), ms);
}

/**
 * Show a page's #history once the history has data: await `prepare(catalog)`, then call `load()`. Until then #nothing
 * shows the reason: nothing recorded, the first figures pending, or an error.
 *
 * @param {any} prepare
 * @param {(...given: any[]) => any} load
 */
export async function begin(prepare, load) {
  const [page, nothing] = ["history", "nothing"].map((id) => byId(id));
  try {
    const catalog = await fetchHistory("", {});
    if (!catalog.recorded) throw Object.assign(new Error("nothing"), { status: 404, begun: catalog.landed });
    await prepare(catalog);
  } catch (error) {
    page.hidden = true;
    nothing.hidden = false;
    // A page in the background waits.
    const retry = () => {
      if (document.visibilityState === "visible") begin(prepare, load);
      else showError(nothing, error, retry, FIRST_DATA_MS);
    };
    showError(nothing, error, retry, FIRST_DATA_MS);
    return;
  }
  page.hidden = false;
  nothing.hidden = true;
  load();
}
