// The page of a queue: chart, figures, producers and why they are blocked, consumers, limits, events.

import { get, query } from "../core/api.js";
import { atThatTime, away, drawing, shownAsOf, UNKNOWN, whenAway } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, find, findAll, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { bytes, count, duration, exact, exactAmount, percent, plural, rate } from "../core/format.js";
import { isolated, objectUrl, shortName, timelineUrl, whyUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { setSince, sinceElement } from "../core/times.js";
import { recordedSamples } from "../widgets/chart_figures.js";
import { DepthChart } from "../widgets/charts.js";
import { ConditionsLine } from "../widgets/conditions.js";
import { criticalUnit } from "../widgets/depth.js";
import { Feed, pastAndPresent } from "../widgets/event_feed.js";
import { linkCell, showLink } from "../widgets/link_cell.js";
import { setState } from "../widgets/states.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { stopLines } from "../widgets/stop_lines.js";
import { isOnBanner } from "../widgets/stops_in_force.js";
import { reasonInWords } from "../widgets/values.js";
import { Limits } from "./queue_limits.js";

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
  return { at: event.at, state, depth_messages: messages, depth_bytes: size, ...limitsThen };
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

// -- rows -------------------------------------------------------------------------------------------------------

/**
 * @param {string} label
 * @param {any} attributes
 * @param {...any} children
 */
const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);

/** @param {any} producer */
function producerRow(producer) {
  return h(
    "tr",
    {},
    cell("State", { class: "c-state" }, h("span", { class: "state" })),
    linkCell(objectUrl(producer.object)),
    cell(
      "Reason",
      { class: "wrap why" },
      h("span"),
      h("small", { class: "muted" }),
      h("a", { href: whyUrl(producer.object), class: "small why-link", hidden: true }, "Details"),
    ),
    cell("Duration", {}, sinceElement()),
    cell("Total blocked", {}),
    cell("Credit", { class: "num" }),
    cell("Sent", { class: "num" }),
  );
}

/**
 * @param {any} node
 * @param {any} producer
 */
function updateProducer(node, producer) {
  const [state, client, why, since, all, credit, sent] = node.children;
  const waits = producer.state === "RUNNING" && producer.waits_for;
  const shown = waits ? "WAITING" : producer.state;
  node.dataset.state = shown;
  setState(state.firstChild, shown);
  showLink(client, producer, "Producer");
  const blocked = producer.state === "BLOCKED";
  const reasons = (producer.reasons ?? []).map(reasonInWords).join("; ");
  setText(
    why.firstChild,
    blocked
      ? `${reasons.charAt(0).toUpperCase()}${reasons.slice(1)}.`
      : waits
        ? `Not blocked. Waiting for ${producer.waits_for}.`
        : "",
  );
  const draining = producer.draining ? "Draining: messages in flight can still arrive. " : "";
  const condition = blocked ? (producer.release ?? "").replace(/\.$/, "") : "";
  const isSentence = /^[A-Z]/.test(condition); // of a broker of another kind
  const release = condition && `${isSentence ? "" : "Unblocked when "}${condition}.`;
  setText(why.children[1], draining + release);
  why.lastChild.hidden = !blocked;
  why.classList.toggle("vacant", !blocked && !draining && !waits);
  setSince(since.firstChild, producer.blocked_since ?? producer.waiting_since);
  setText(
    all,
    producer.blocked_count
      ? `${duration(producer.blocked_ms)}, ` +
          `${producer.blocked_count === 1 ? "once" : `${exact(producer.blocked_count)} times`}`
      : "never",
  );
  setText(credit, count(producer.credit));
  setText(sent, count(producer.messages));
  setAttribute(sent, "title", `${exactAmount(producer.messages, "messages")}, ${exactAmount(producer.bytes, "bytes")}`);
}

/** @param {any} consumer */
function consumerRow(consumer) {
  return h(
    "tr",
    {},
    linkCell(objectUrl(consumer.object)),
    cell("Kind", {}),
    cell("Credit", { class: "num" }),
    cell("Unacknowledged", { class: "num" }),
    cell("Received", { class: "num" }),
  );
}

/**
 * @param {any} node
 * @param {any} consumer
 */
function updateConsumer(node, consumer) {
  const [client, kind, credit, waiting, received] = node.children;
  showLink(client, consumer, "Consumer");
  setText(kind, consumer.browsing ? "browser" : "consumer (destructive)");
  setText(credit, count(consumer.credit));
  setText(waiting, count(consumer.unacknowledged_messages));
  waiting.classList.toggle("hot", consumer.credit === 0 && consumer.unacknowledged_messages > 0);
  setText(received, count(consumer.messages));
}

/** @param {string} name */
const notReported = (name) => `This broker does not report the ${name} of a queue.`;

/**
 * @param {any} name
 * @param {any[]} items
 * @param {any} row
 * @param {any} update
 * @param {any} none
 */
function list(name, items, row, update, none) {
  if (items === undefined || items === null) {
    byId(name).closest("table").hidden = byId(`${name}-rest`).hidden = true;
    byId(`${name}-empty`).hidden = false;
    // null: this broker does not report them
    fill(byId(`${name}-empty`), h("p", {}, items === null ? notReported(name) : UNKNOWN));
    return;
  }
  items = items.map((/** @type {any} */ item) => ({
    ...(item.attributes ?? {}),
    ...item,
    object: item.object ?? item.name,
  }));
  reconcile(byId(name), items, (item) => item.object ?? item.id, row, update);
  byId(name).closest("table").hidden = items.length === 0;
  const empty = byId(`${name}-empty`);
  empty.hidden = items.length > 0;
  if (!items.length) fill(empty, h("p", {}, none));
}

// -- figures ----------------------------------------------------------------------------------------------------

/**
 * Label, the attribute that the broker must have, text, tooltip.
 *
 * @type {[string, string, (queue: any) => string, ((queue: any) => any)?][]}
 */
const FACTS = [
  [
    "Messages",
    "depth_messages",
    (/** @type {any} */ q) => of(q, "messages"),
    (/** @type {any} */ q) => exactAmount(q.depth_messages, "messages"),
  ],
  [
    "Bytes",
    "depth_bytes",
    (/** @type {any} */ q) => of(q, "bytes"),
    (/** @type {any} */ q) => exactAmount(q.depth_bytes, "bytes"),
  ],
  ["In, out", "rate_in", (/** @type {any} */ q) => `${rate(q.rate_in)} /s, ${rate(q.rate_out)} /s`],
  [
    "Producers",
    "producers",
    (/** @type {any} */ q) =>
      `${count(q.producers)}, ${count(q.blocked_producers)} ` +
      `blocked${q.waiting_producers ? `, ${count(q.waiting_producers)} waiting for credit` : ""}` +
      `${q.draining_producers ? `, ${count(q.draining_producers)} draining` : ""}`,
  ],
  ["Consumers", "consumers", (/** @type {any} */ q) => count(q.consumers)],
  ["Unacknowledged", "unacknowledged_messages", (/** @type {any} */ q) => count(q.unacknowledged_messages)],
  [
    "Parked",
    "parked_messages",
    (/** @type {any} */ q) =>
      (q.parked_messages ?? null) === null
        ? "not known"
        : q.parked_messages
          ? `${count(q.parked_messages)}, ${bytes(q.parked_bytes)}`
          : "none",
    () => "Messages sent while the queue was full, unsettled. They count as memory, not as depth.",
  ],
  [
    "Outstanding credit",
    "credit",
    (/** @type {any} */ q) => count(q.credit),
    () => "Credit granted to producers and not yet used or returned",
  ],
  [
    "Overfull",
    "overfull_count",
    (/** @type {any} */ q) =>
      (q.overfull_count ?? null) === null
        ? "not known"
        : q.overfull_count
          ? `${q.overfull_count === 1 ? "once" : `${exact(q.overfull_count)} times`}, total ${duration(q.overfull_ms)}`
          : "never",
  ],
  [
    "Lifetime",
    "durable",
    (/** @type {any} */ q) =>
      (q.durable ?? null) === null
        ? "not known"
        : q.temporary_for
          ? `temporary: ${isolated(shortName(q.temporary_for))}`
          : q.durable
            ? "durable"
            : "not durable",
    (/** @type {any} */ q) =>
      q.temporary_for && "Deleted with the link that created it; only the connection of that link can consume from it",
  ],
  [
    "Total enqueued",
    "enqueued_messages",
    (/** @type {any} */ q) => count(q.enqueued_messages),
    (/** @type {any} */ q) => exactAmount(q.enqueued_messages, "messages"),
  ],
  [
    "Total dequeued",
    "dequeued_messages",
    (/** @type {any} */ q) => count(q.dequeued_messages),
    (/** @type {any} */ q) => exactAmount(q.dequeued_messages, "messages"),
  ],
];

/**
 * @param {any} queue
 * @param {any} what
 */
function of(queue, what) {
  const depth = queue[`depth_${what}`];
  const capacity = queue[`effective_capacity_${what}`];
  const text = what === "bytes" ? bytes(depth) : count(depth);
  return capacity
    ? `${text} of ${what === "bytes" ? bytes(capacity) : count(capacity)} (${percent(depth, capacity)})`
    : text;
}

const facts = FACTS.filter(([, attribute]) => settings.attributes.includes(attribute)).map(([name, , text, title]) => ({
  text,
  title,
  node: h("dd", {}),
  name: h("dt", {}, name),
}));
byId("facts").append(...facts.flatMap((fact) => [fact.name, fact.node]));

// -- the page ---------------------------------------------------------------------------------------------------

/** @type {any} */
const render = drawing(() => {
  /** @type {any} */
  const data = snapshot?.data;
  if (!data) return;
  if (!data.gone && !data.queue) {
    for (const name of ["producers", "consumers"]) fill(byId(`${name}-empty`), h("p", {}, UNKNOWN));
    for (const fact of facts) setText(fact.node, "not known");
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
  for (const fact of facts) {
    setText(fact.node, fact.text(queue));
    setAttribute(fact.node, "title", fact.title?.(queue));
  }
  setText(
    byId("producers-count"),
    queue.producers ? `${count(queue.blocked_producers)} of ${count(queue.producers)} blocked` : "",
  );
  setText(byId("consumers-count"), queue.consumers ? count(queue.consumers) : "");
  const blockedFirst =
    data.producers && [...data.producers].sort((a, b) => (a.state === b.state ? 0 : a.state === "BLOCKED" ? -1 : 1));
  list(
    "producers",
    blockedFirst,
    producerRow,
    updateProducer,
    atThatTime()
      ? `No producers attached${atThatTime()}.`
      : "No producers attached. While the queue is stopped or overfull, new producers start blocked.",
  );
  list(
    "consumers",
    data.consumers,
    consumerRow,
    updateConsumer,
    atThatTime()
      ? `No consumers attached${atThatTime()}.`
      : queue.depth_messages
        ? `No consumers attached for ${plural(queue.depth_messages, "queued message")}.`
        : "No consumers attached.",
  );
  for (const name of ["producers", "consumers"]) {
    if (!data[name]) continue;
    const more = data[`${name}_total`] - data[name].length;
    byId(`${name}-rest`).hidden = more <= 0;
    setText(byId(`${name}-rest`), `${exact(more)} more: see the object browser.`);
  }
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
