// Elements with live durations, updated by one timer. While the broker does not answer, they stop at the time of the
// snapshot, except those in [data-own-times], which are of the console itself.

import { findAll, h, setAttribute, setText } from "./elements.js";
import { clock, duration, moment } from "./format.js";
import { serverNow } from "./server_clock.js";

/** @type {any} */
let heldAt = null;

/**
 * Stop durations at `ms`; null: continue.
 *
 * @param {any} ms
 */
export function holdTimes(ms) {
  heldAt = ms;
  tick();
}

/** @param {any} element */
const now = (element) => (heldAt === null || element?.closest("[data-own-times]") ? serverNow() : heldAt);

/** Return an element with the duration since `ms`. */
export function sinceElement(/** @type {number | null | undefined} */ ms = null) {
  const element = h("time", { class: "since" });
  setSince(element, ms);
  return element;
}

/**
 * @param {any} element
 * @param {any} ms
 */
export function setSince(element, ms) {
  if (ms === null || ms === undefined) {
    delete element.dataset.since;
    setAttribute(element, "title", null);
    setText(element, "");
    return;
  }
  if (element.dataset.since !== String(ms)) {
    element.dataset.since = ms;
    element.dateTime = new Date(ms).toISOString();
    element.title = `since ${moment(ms)}`;
  }
  setText(element, duration(now(element) - ms));
}

/**
 * Return an element with the duration until `ms`.
 *
 * @param {any} ms
 */
export function untilElement(ms) {
  return h(
    "time",
    { class: "until", data: { until: ms }, datetime: new Date(ms).toISOString(), title: `until ${moment(ms)}` },
    left(ms, now(null)),
  );
}

/**
 * @param {any} ms
 * @param {any} from
 */
const left = (ms, from) => (ms > from ? duration(ms - from) : "a moment");

/**
 * Return an element with a moment in the browser's zone.
 *
 * @param {any} ms
 */
export const clockElement = (ms) =>
  h("time", { class: "clock", datetime: new Date(ms).toISOString(), title: moment(ms) }, clock(ms));

function tick() {
  for (const element of findAll("time[data-since]")) {
    setText(element, duration(now(element) - Number(element.dataset.since)));
  }
  for (const element of findAll("time[data-until]"))
    setText(element, left(Number(element.dataset.until), now(element)));
}

setInterval(() => document.visibilityState === "visible" && tick(), 1000);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && tick());
