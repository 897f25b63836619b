// The page of a queue: its producers, those that are blocked first and why, and its consumers.

import { atThatTime, UNKNOWN } from "../core/away.js";
import { byId, fill, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { count, duration, exact, exactAmount, plural } from "../core/format.js";
import { objectUrl, whyUrl } from "../core/object_names.js";
import { setSince, sinceElement } from "../core/times.js";
import { linkCell, showLink } from "../widgets/link_cell.js";
import { setState } from "../widgets/states.js";
import { reasonInWords } from "../widgets/values.js";

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
function showList(name, items, row, update, none) {
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

/**
 * Show the producers and consumers of a snapshot of the queue.
 *
 * @param {any} data
 */
export function showLinks(data) {
  const queue = data.queue;
  setText(
    byId("producers-count"),
    queue.producers ? `${count(queue.blocked_producers)} of ${count(queue.producers)} blocked` : "",
  );
  setText(byId("consumers-count"), queue.consumers ? count(queue.consumers) : "");
  const blockedFirst =
    data.producers && [...data.producers].sort((a, b) => (a.state === b.state ? 0 : a.state === "BLOCKED" ? -1 : 1));
  showList(
    "producers",
    blockedFirst,
    producerRow,
    updateProducer,
    atThatTime()
      ? `No producers attached${atThatTime()}.`
      : "No producers attached. While the queue is stopped or overfull, new producers start blocked.",
  );
  showList(
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
}
