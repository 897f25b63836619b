// Times that keep themselves up to date: one ticker for the whole page.

import { h, setAttribute, setText } from "./elements.js";
import { clock, duration, moment } from "./format.js";

/** An element that says how long ago `ms` was. */
export function sinceElement(ms = null) {
  const element = h("time", { class: "since" });
  setSince(element, ms);
  return element;
}

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
  setText(element, duration(Date.now() - ms));
}

/** An element that says how long it is until `ms`. */
export function untilElement(ms) {
  return h("time", { class: "until", data: { until: ms }, datetime: new Date(ms).toISOString(), title: `until ${moment(ms)}` }, left(ms));
}

const left = (ms) => (ms > Date.now() ? duration(ms - Date.now()) : "a moment");

/** A moment in the viewer's zone. */
export const clockElement = (ms) =>
  h("time", { class: "clock", datetime: new Date(ms).toISOString(), title: moment(ms) }, clock(ms));

function tick() {
  const now = Date.now();
  for (const element of document.querySelectorAll("time[data-since]")) {
    setText(element, duration(now - Number(element.dataset.since)));
  }
  for (const element of document.querySelectorAll("time[data-until]")) setText(element, left(Number(element.dataset.until)));
}

setInterval(() => document.visibilityState === "visible" && tick(), 1000);
document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && tick());
