// The time axis of charts: times at monotonic positions, labelled by the wall clock of the page's zone. Pure.
//
// Plotly would put times at their wall clock, so that the hour that is repeated at the end of daylight saving time
// would be drawn over itself. Here the positions of a figure are times at one offset from UTC, that of its begin; in a
// range in which the offset changes, the labels are computed from the zone.

import { offsetText } from "../core/moments.js";
import { offsetAt, offsetChanges, twelveHours } from "../core/zone.js";

/** @typedef {import("./chart_figures.js").Figure} Figure */

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
/** Distances between labels, ms. */
const STEPS = [
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
  ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 7, 14, 28, 91, 182, 364].map((n) => n * DAY),
];
const DATE = new Intl.DateTimeFormat("en-GB", { timeZone: "UTC", day: "numeric", month: "short", year: "numeric" });

/**
 * Put the times of a figure, ms since the epoch, at positions of the axis, and label it.
 *
 * @param {Figure} figure is changed
 * @returns {number} the offset of the positions, ms, for `fromPosition`
 */
export function onTimeAxis(figure) {
  const { xaxis, shapes, annotations } = figure.layout;
  const [from, until] = xaxis.range;
  const offset = offsetAt(from);
  /** @param {any} value */
  const position = (value) =>
    typeof value === "number" ? new Date(value + offset).toISOString().slice(0, 23).replace("T", " ") : value;
  /** @type {Map<any[], any[]>} lines of a chart share their times */
  const converted = new Map();
  for (const trace of figure.data) {
    if (!Array.isArray(trace.x)) continue;
    if (!converted.has(trace.x)) converted.set(trace.x, trace.x.map(position));
    trace.x = converted.get(trace.x);
  }
  xaxis.range = [from, until].map(position);
  for (const of of [...(shapes ?? []), ...(annotations ?? [])])
    for (const name of ["x", "x0", "x1"])
      if (of.xref !== "paper" && of[name] !== undefined) of[name] = position(of[name]);
  const changes = offsetChanges(from, until);
  if (changes.length) {
    const labels = timeLabels(from, until, changes, xaxis.nticks ?? 8);
    xaxis.tickmode = "array";
    xaxis.tickvals = labels.map(({ at }) => position(at));
    xaxis.ticktext = labels.map(({ text }) => text);
    // The title of the values at a time is of the axis: it names its offset.
    xaxis.unifiedhovertitle = { text: `%{x|%-d %b %Y, %H:%M:%S} ${offsetText(from)}` };
  }
  return offset;
}

/**
 * Return the time of a position, ms since the epoch.
 *
 * @param {string | number} position
 * @param {number} offset of `onTimeAxis`
 */
export function fromPosition(position, offset) {
  const text = String(position).trim().replace(" ", "T");
  return (typeof position === "number" ? position : Date.parse(text.includes("T") ? `${text}Z` : text)) - offset;
}

/**
 * Return at most about `most` labels for times at which the wall clock is round: the time of day, with the date where
 * it differs from that of the label before, and the offset where that has changed.
 *
 * @param {number} from ms
 * @param {number} until ms
 * @param {number[]} changes of the offset, between the two
 * @param {number} most
 * @returns {{at: number, text: string}[]}
 */
export function timeLabels(from, until, changes, most) {
  const step = STEPS.find((each) => (until - from) / each <= most) ?? STEPS.at(-1) ?? DAY;
  const begins = [from, ...changes];
  let day = "";
  return begins.flatMap((begin, index) => {
    const end = begins[index + 1] ?? until + 1;
    const offset = offsetAt(begin);
    const labels = [];
    let changed = index > 0;
    for (let wall = Math.ceil((begin + offset) / step) * step; wall - offset < end; wall += step) {
      const date = DATE.format(wall);
      const lines = step < DAY ? [timeOfDay(wall, step)] : [];
      if (date !== day) lines.push(date);
      if (changed) lines.push(offsetText(begin));
      labels.push({ at: wall - offset, text: lines.join("<br>") });
      changed = false;
      day = date;
    }
    return labels;
  });
}

/**
 * @param {number} wall ms
 * @param {number} step ms
 */
function timeOfDay(wall, step) {
  const at = new Date(wall);
  const hours = at.getUTCHours();
  const rest = at.toISOString().slice(13, step < MINUTE ? 19 : 16);
  if (!twelveHours()) return `${String(hours).padStart(2, "0")}${rest}`;
  return `${hours % 12 || 12}${rest} ${hours < 12 ? "am" : "pm"}`;
}
