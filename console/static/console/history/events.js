// A list of events in order of time: one entry per event, with the operator and the reason of an edit or action.

import { fill, h, icon } from "../core/elements.js";
import { clock, duration, eventName, exact, moment, plural, words } from "../core/format.js";
import { objectUrl, parseName, shortName, stopInWords } from "../core/object_names.js";
import { brokerTitle } from "../core/settings.js";
import { reasonInWords } from "../widgets/values.js";
import { historyQueueUrl } from "./data.js";

/** @type {Record<string, string>} */
const SHAPES = {
  "queue-overfull": "overfull",
  "queue-underfull": "normal",
  "producer-blocked": "blocked",
  "producer-released": "running",
  "producers-stopped": "stopped",
  "producers-started": "start",
  "policy-changed": "pencil",
};

/** @param {any} value */
const valueInWords = (value) =>
  value === null || value === undefined
    ? "not set"
    : typeof value === "number"
      ? exact(value)
      : typeof value === "string"
        ? value
        : JSON.stringify(value);

/**
 * One line per editLines value: "capacity_messages 1,000 → 2,000".
 *
 * @param {any} event
 */
export function editLines(event) {
  const { before, after } = event;
  const names = [...new Set([...Object.keys(before ?? {}), ...Object.keys(after ?? {})])];
  return names.map((name) => `${words(name)}: ${valueInWords(before?.[name])} → ${valueInWords(after?.[name])}`);
}

/**
 * The event's object: a link to the queue's history, or to the object's page.
 *
 * @param {any} event
 */
function subject(event) {
  if (event.queue)
    return h(
      "a",
      { href: historyQueueUrl(event, { from: event.at - 15 * 60_000, until: event.at + 15 * 60_000 }) },
      event.queue,
    );
  if (event.scope) return h("span", {}, stopInWords(event.scope));
  if (!event.object) return null;
  return parseName(event.object)
    ? h("a", { href: objectUrl(event.object) }, shortName(event.object))
    : h("span", {}, event.object);
}

/** @param {any} event */
function details(event) {
  const parts = [];
  if (event.depth_messages !== null || event.depth_bytes !== null) {
    parts.push(
      "depth " +
        [
          event.depth_messages === null ? null : plural(event.depth_messages, "message"),
          event.depth_bytes === null ? null : plural(event.depth_bytes, "byte"),
        ]
          .filter(Boolean)
          .join(", "),
    );
  }
  if (event.blocked_producers) parts.push(plural(event.blocked_producers, "blocked producer"));
  if (event.lasted_ms) parts.push(`after ${duration(event.lasted_ms)}`);
  if (event.client) parts.push(`${event.client}${event.link ? `, link ${event.link}` : ""}`);
  else if (event.connection && event.kind.startsWith("producer-"))
    parts.push(`${event.connection}${event.channel ? ` ${event.channel}` : ""}`);
  if (event.reasons?.length) parts.push(event.reasons.map(reasonInWords).join("; "));
  if (event.queues !== null && event.scope)
    parts.push(`${plural(event.queues, "queue")}, ${plural(event.producers ?? 0, "producer")}`);
  if (event.messages) parts.push(plural(event.messages, "message"));
  return parts.join(" · ");
}

/**
 * One event as a list item. The reason of an edit or action has a line of its own.
 *
 * @param {any} event
 * @param {any} [options]
 */
export function eventLine(event, { several = false } = {}) {
  const who = event.actor ? ["by ", h("strong", {}, event.actor)] : [];
  return h(
    "li",
    { class: "event", data: { kind: event.kind, at: event.at } },
    h("time", { class: "clock", datetime: new Date(event.at).toISOString(), title: moment(event.at) }, clock(event.at)),
    h("span", { class: "event-icon" }, icon(SHAPES[event.kind] ?? "info")),
    h(
      "div",
      { class: "event-body" },
      h(
        "p",
        { class: "event-head" },
        h("strong", {}, eventName(event.kind)),
        " ",
        subject(event),
        who.length ? [" ", ...who] : null,
        several ? h("span", { class: "tag" }, brokerTitle(event.broker)) : null,
      ),
      event.reason ? h("p", { class: "event-reason" }, `“${event.reason}”`) : null,
      event.kind === "policy-changed" ? editLines(event).map((line) => h("p", { class: "event-edit" }, line)) : null,
      h("p", { class: "event-text", title: event.text ?? "" }, details(event) || event.text || ""),
    ),
  );
}

/**
 * @param {HTMLElement} list
 * @param {any[]} events
 * @param {{several?: boolean}} [options]
 */
export const showEvents = (list, events, options) =>
  fill(
    list,
    events.map((/** @type {any} */ event) => eventLine(event, options)),
  );
