// The page of a queue: its figures now. What the broker does not report is left out, or not known.

import { byId, h, setAttribute, setText } from "../core/elements.js";
import { bytes, count, duration, exact, exactAmount, percent, rate } from "../core/format.js";
import { isolated, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";

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

/**
 * Show the figures of a queue; null: none is known.
 *
 * @param {any} queue
 */
export function showFacts(queue) {
  for (const fact of facts) {
    setText(fact.node, queue ? fact.text(queue) : "not known");
    if (queue) setAttribute(fact.node, "title", fact.title?.(queue));
  }
}
