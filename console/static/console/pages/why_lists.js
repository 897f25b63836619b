// The consumers, the producers and the shared connections of a queue or producer.

import { atThatTime } from "../core/away.js";
import { CounterRates } from "../core/counter_rates.js";
import { byId, fillOnce, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { count, exact, exactAmount, plural, rate } from "../core/format.js";
import { objectUrl, shortName, whyUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { setSince, sinceElement } from "../core/times.js";
import { linkCell, showLink } from "../widgets/link_cell.js";
import { setState, stateElement } from "../widgets/states.js";
import { known } from "./why_words.js";

export const deliveries = new CounterRates("messages"); // of each consumer

/** @param {any} consumer */
function consumerRow(consumer) {
  return h(
    "tr",
    {},
    linkCell(objectUrl(consumer.object)),
    h("td", { class: "wrap", "data-label": "Activity" }),
    h("td", { class: "num", "data-label": "Out /s" }),
  );
}

/**
 * @param {any} node
 * @param {any} consumer
 */
function updateConsumer(node, consumer) {
  const [client, what, speed] = node.children;
  showLink(client, consumer, "Consumer");
  setText(what, `${consumer.doing.charAt(0).toUpperCase()}${consumer.doing.slice(1)}.`);
  what.classList.toggle("hot", consumer.stuck);
  setText(speed, rate(deliveries.rateOf(consumer.object)));
}

/** @param {any} producer */
function producerRow(producer) {
  return h(
    "tr",
    {},
    h("td", { class: "c-state", "data-label": "State" }, h("span", { class: "state" })),
    linkCell(whyUrl(producer.object)),
    h("td", { "data-label": "Duration" }, sinceElement()),
    h("td", { class: "num", "data-label": "Sent" }),
  );
}

/**
 * @param {any} node
 * @param {any} producer
 */
function updateProducer(node, producer) {
  const [state, client, since, sent] = node.children;
  node.dataset.state = producer.state;
  setState(state.firstChild, producer.state);
  showLink(client, producer, "Producer", producer.draining ? ", draining" : "");
  setSince(since.firstChild, producer.blocked_since);
  setText(sent, count(producer.messages));
  setAttribute(sent, "title", exactAmount(producer.messages, "messages"));
}

function connectionRow() {
  return h(
    "article",
    { class: "shared" },
    h("h3", {}, h("a")),
    h("p", { class: "muted small" }),
    h("ul", { class: "plain-list" }),
  );
}

/**
 * @param {any} node
 * @param {any} connection
 */
function updateConnection(node, connection) {
  const [head, about, list] = node.children;
  head.firstChild.href = objectUrl(connection.object);
  setText(head.firstChild, `${connection.user}@${connection.remote_address}`);
  setText(
    about,
    `Connection ${connection.id}, container ` +
      `${connection.container_id}` +
      `${connection.blocked_producers ? `; ${plural(connection.blocked_producers, "blocked producer")}` : ""}`,
  );
  const lines = [
    ...connection.other_producers.map((/** @type {any} */ link) => ({ ...link, says: "publishes to" })),
    ...connection.consumers_here.map((/** @type {any} */ link) => ({ ...link, says: "consumes from", here: true })),
    ...connection.other_consumers.map((/** @type {any} */ link) => ({ ...link, says: "consumes from" })),
  ];
  fillOnce(list, JSON.stringify(lines.map(({ object, queue, state }) => [object, queue, state])), () =>
    lines
      .slice(0, 12)
      .map((link) =>
        h(
          "li",
          {},
          `${link.says} `,
          link.queue ? h("a", { href: objectUrl(link.queue) }, shortName(link.queue)) : "a queue that is not known",
          link.here ? " (this queue)" : "",
          " ",
          link.state ? stateElement(link.state) : null,
        ),
      )
      .concat(lines.length > 12 ? [h("li", { class: "muted" }, `${plural(lines.length - 12, "more link")}`)] : []),
  );
  node.dataset.alone = String(lines.length === 0);
}

/**
 * @param {any} name
 * @param {any} items
 * @param {any} row
 * @param {any} update
 * @param {any} none
 * @param {any} [total]
 */
function list(name, items, row, update, none, total = items.length) {
  reconcile(byId(name), items, (item) => item.object, row, update);
  const table = byId(name).closest("table");
  if (table) table.hidden = items.length === 0;
  byId(`${name}-empty`).hidden = items.length > 0;
  if (!items.length) fillOnce(byId(`${name}-empty`), none, () => h("p", {}, none));
  const rest = byId(`${name}-rest`);
  if (!rest) return;
  rest.hidden = total <= items.length;
  setText(rest, `${exact(total - items.length)} more: see the object browser.`);
}

/**
 * @param {any} data
 * @param {any} queue
 */
export function showConsumers(data, queue) {
  setText(byId("consumers-count"), queue.consumers ? count(queue.consumers) : "");
  list(
    "consumers",
    data.consumers,
    consumerRow,
    updateConsumer,
    !data.consumers.length && queue.consumers !== 0
      ? known(queue.consumers)
        ? `${plural(queue.consumers, "consumer")}, not listed by this broker.`
        : "Not known for this broker."
      : atThatTime()
        ? `No consumers attached${atThatTime()}.`
        : queue.depth_messages
          ? `No consumers attached for ${plural(queue.depth_messages, "queued message")}. ` +
            (settings.purges ? "Start a consumer, or purge the queue." : "Start a consumer.")
          : "No consumers attached.",
    data.consumers.length ? data.consumers_total : 0,
  );
}

/**
 * @param {any} data
 * @param {any} queue
 */
export function showProducers(data, queue) {
  setText(
    byId("producers-count"),
    queue.producers && known(queue.blocked_producers)
      ? `${count(queue.blocked_producers)} of ${count(queue.producers)} blocked`
      : "",
  );
  list(
    "producers",
    data.producers,
    producerRow,
    updateProducer,
    data.producers_total === null ? "Not known for this broker." : `No producers attached${atThatTime()}.`,
    data.producers_total ?? 0,
  );
}

/** @param {any} data */
export function showConnections(data) {
  const sharing = data.connections.filter(
    (/** @type {any} */ c) =>
      c.other_producers.length || c.other_consumers.length || (c.here.length && c.consumers_here.length),
  );
  setText(
    byId("sharing-count"),
    data.connections.length ? `${count(sharing.length)} of ${plural(data.connections.length, "connection")}` : "",
  );
  list(
    "sharing",
    sharing,
    connectionRow,
    updateConnection,
    data.connections.length
      ? "None: these connections have no other links."
      : data.producers_total === null
        ? "Not known for this broker."
        : `No clients connected${atThatTime()}.`,
  );
}
