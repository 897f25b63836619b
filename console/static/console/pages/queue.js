// The page of a queue: chart, figures, producers and why they are blocked, consumers, limits, events.

import { get, query } from "../core/api.js";
import { atThatTime, away, drawing, shownAsOf, UNKNOWN, whenAway } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, find, findAll, h, setAttribute, setText } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { timelineUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { recordedSamples } from "../widgets/chart_figures.js";
import { DepthChart } from "../widgets/charts.js";
import { ConditionsLine } from "../widgets/conditions.js";
import { criticalUnit } from "../widgets/depth.js";
import { Feed, pastAndPresent } from "../widgets/event_feed.js";
import { setState } from "../widgets/states.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { stopLines } from "../widgets/stop_lines.js";
import { isOnBanner } from "../widgets/stops_in_force.js";
import { showFacts } from "./queue_facts.js";
import { Limits } from "./queue_limits.js";
import { showLinks } from "./queue_links.js";

const editLimits = byId("edit-limits");
const limits = new Limits(byId("limits"), (/** @type {any} */ open) => {
  editLimits.hidden = open || !settings.editable;
  if (!open) editLimits.focus();
});
const units = findAll("[data-unit]");
const chart = new DepthChart(byId("chart"), settings.figures, "messages");
/** @param {any} event */
const ours = (event) =>
  event.object === settings.object ||
  event.attributes?.queue === settings.object ||
  event.attributes?.queue === settings.name;
const feed = new Feed(byId("feed"), byId("feed-note"), { keep: ours, linked: false });

const conditions = new ConditionsLine({ about: false });

/** @type {any} */
let snapshot = null;
let drawn = false; // whether the page shows the queue, or its last state before it was deleted
let opened = Infinity; // ms, server time from which the depth is completely known
/** @type {string | null} */
let unit = null;
/** @type {any[]} */
let early = []; // events from before the first snapshot, which has the limits

// -- chart ------------------------------------------------------------------------------------------------------

/** @param {any} chosen */
function showUnit(chosen) {
  unit = chosen;
  for (const button of units) setAttribute(button, "aria-pressed", String(button.dataset.unit === chosen));
  setText(byId("chart-title"), chosen === "rates" ? "Rates" : "Depth");
  chart.show(chosen);
}

for (const button of units) button.addEventListener("click", () => showUnit(button.dataset.unit));

const spans = findAll("[data-minutes]");
for (const button of spans) {
  button.addEventListener("click", () => {
    for (const other of spans) setAttribute(other, "aria-pressed", String(other === button));
    chart.span(Number(button.dataset.minutes) * 60_000);
  });
}

const LONGEST = 3_600_000; // ms that the chart shows
const LIMITS = ["messages", "bytes"].flatMap((of) =>
  ["capacity", "stop", "resume"].map((name) => `effective_${name}_${of}`),
);

/**
 * Return a point of the chart from an event of the queue, which carries depth and state after the event.
 *
 * @param {any} event
 * @param {any} queue
 */
function sampleOf(event, queue) {
  const { state, depth_messages: messages, depth_bytes: size } = event.attributes ?? {};
  if (state === undefined || messages === undefined) return null;
  const limitsThen = Object.fromEntries(LIMITS.map((name) => [name, event.attributes[name] ?? queue[name]]));
  // An event has no rates: those of the newest sample go on.
  const rates = { rate_in: queue.rate_in, rate_out: queue.rate_out };
  return { at: event.at, state, depth_messages: messages, depth_bytes: size, ...rates, ...limitsThen };
}

/**
 * Add what the recorder has of the time before the page was opened, if the history has this broker.
 *
 * @param {number} until ms
 */
async function addRecorded(until) {
  try {
    const { brokers } = await get("history/");
    if (!brokers.some((/** @type {any} */ one) => one.broker === settings.broker)) return;
    const key = { broker: settings.broker, virtualhost: settings.virtualhost, queue: settings.name };
    const range = { from: Math.floor(until - LONGEST), until: Math.floor(until), resolution: "raw" };
    const samples = recordedSamples(await get(`history/series/${query({ ...key, ...range })}`));
    const first = samples.find((one) => one.state !== null && !one.past);
    if (!first) return;
    opened = Math.min(opened, first.at);
    chart.prepend(samples);
  } catch {
    // The chart shows the depth at events instead.
  }
}

// -- the page ---------------------------------------------------------------------------------------------------

/** @type {any} */
const render = drawing(() => {
  /** @type {any} */
  const data = snapshot?.data;
  if (!data) return;
  if (!data.gone && !data.queue) {
    for (const name of ["producers", "consumers"]) fill(byId(`${name}-empty`), h("p", {}, UNKNOWN));
    showFacts(null);
    for (const id of ["limits", "chart"]) fill(byId(id), h("p", { class: "card-text muted" }, UNKNOWN));
    setText(byId("queue-state"), "not known");
    conditions.unknown("not known");
    return;
  }
  const gone = byId("gone");
  gone.hidden = !data.gone;
  document.body.classList.toggle("queue-gone", Boolean(data.gone));
  find(".queue-grid").hidden = Boolean(data.gone) && !drawn;
  if (data.gone) {
    const now = `No such queue${atThatTime()}. `;
    fill(
      gone,
      h(
        "p",
        {},
        h("strong", {}, now),
        `${ending.text()} The page updates when it is created. `,
        h("a", { href: "/" }, "Overview"),
      ),
    );
    return;
  }
  const queue = data.queue;
  drawn = true;
  ending.exists();
  conditions.show(data.conditions ?? [], data.conditions?.length ?? 0);
  setState(
    byId("queue-state"),
    queue.state,
    queue.stops?.some((/** @type {any} */ stop) => stop.stage),
  );
  const since = [
    queue.overfull_since && ["overfull for ", queue.overfull_since],
    queue.stopped_since && ["stopped for ", queue.stopped_since],
  ].filter(Boolean);
  const sinceBox = byId("queue-since");
  const text = JSON.stringify(since);
  if (sinceBox.dataset.shown !== text) {
    sinceBox.dataset.shown = text;
    fill(
      sinceBox,
      since.map(([word, ms], index) => h("span", {}, index ? ", " : "", word, sinceElement(ms))),
    );
  }
  const stops = byId("queue-stops");
  const unlisted = (queue.stops ?? []).filter((/** @type {any} */ stop) => !isOnBanner(stop));
  const stopsText = JSON.stringify(unlisted);
  if (stops.dataset.shown !== stopsText) {
    stops.dataset.shown = stopsText;
    stops.hidden = !unlisted.length;
    fill(stops, h("div", { class: "banner-lines" }, stopLines(unlisted, 5)));
  }
  showFacts(queue);
  showLinks(data);
  limits.show(queue, data.explain);
  const stopped = queue.state?.includes("STOPPED");
  byId("start").classList.toggle("primary", stopped);
  byId("why").hidden = queue.state === "NORMAL" && !queue.blocked_producers;
});

const ending = new Ending(settings.object, render);

live.addEventListener("snapshot", (event) => {
  /** @type {any} */
  const first = snapshot === null;
  // While the broker is disconnected, the page keeps its last snapshot, marked with its time.
  if (!event.detail.connected && snapshot?.data.queue) return;
  snapshot = event.detail;
  const queue = snapshot.data.queue;
  if (snapshot.connected) chart.end(null); // new points follow the gap
  if (queue) {
    const at = snapshot.connected ? snapshot.at : snapshot.as_of;
    const since = Math.min(snapshot.data.unchanged_since ?? at, at);
    const unchanged = opened === Infinity && since < at;
    opened = Math.min(opened, since);
    if (unit === null) {
      const limited = queue.effective_capacity_messages
        ? "messages"
        : queue.effective_capacity_bytes
          ? "bytes"
          : criticalUnit(queue);
      showUnit(limited);
    }
    const sample = {
      state: queue.state,
      depth_messages: queue.depth_messages,
      depth_bytes: queue.depth_bytes,
      rate_in: queue.rate_in,
      rate_out: queue.rate_out,
      ...Object.fromEntries(LIMITS.map((name) => [name, queue[name]])),
    };
    if (unchanged) chart.add({ ...sample, at: since }); // the queue has not changed since then
    chart.add({ ...sample, at });
    if (first || early.length) {
      for (const old of early) addPoint(old, queue);
      early = [];
    }
    if (first) addRecorded(at);
  }
  render();
});

/**
 * @param {any} event
 * @param {any} queue
 */
function addPoint(event, queue) {
  if (event.kind === "broker-ready") {
    // The broker was disconnected before: the last point is not valid up to here.
    chart.add({ at: event.at, state: null, past: event.at < opened });
    return;
  }
  if (event.object !== settings.object) return;
  const sample = sampleOf(event, queue);
  if (sample) chart.add({ ...sample, past: event.at < opened });
}

pastAndPresent(live, (/** @type {any} */ events, /** @type {any} */ reset) => {
  feed.add(events, reset);
  /** @type {any} */
  const queue = snapshot?.data?.queue;
  if (queue) for (const one of events) addPoint(one, queue);
  else early.push(...events);
});

addEventListener("headgate-stops", render);
const endChart = () => away() && chart.end(shownAsOf() ?? 0);
whenAway(endChart);
endChart();
byId("queue-timeline").href = timelineUrl(settings.object);
byId("stop").addEventListener("click", () => openStopDialog("stop", settings.object));
byId("start").addEventListener("click", () => openStopDialog("start", settings.object));
editLimits.hidden = !settings.editable;
editLimits.addEventListener("click", () => limits.edit());

watch({ watch: "queue", object: settings.object });
