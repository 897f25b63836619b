// The page of all brokers: a row for each broker, and their totals. A sum of which values are missing is marked.

import { byId, fill, find, h, icon, setAttribute, setText } from "../core/elements.js";
import { bytes, clock, count, exact, plural, words } from "../core/format.js";
import { objectUrl, ofBroker, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { setConnection } from "../widgets/broker_states.js";

/** @param {string} kind */
export const kindWord = (kind) => settings.kinds[kind] ?? words(kind);

/** @param {any} broker */
export function brokerRow(broker) {
  /**
   * @param {string} label
   * @param {any} attributes
   * @param {...any} children
   */
  const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "c-name" },
      h("a", { href: ofBroker("/", broker.slug) }),
      h("span", { class: "muted vh" }),
    ),
    cell("Connection", { class: "c-connection" }, h("span", { class: "state" }), h("small", { class: "muted" })),
    cell("Most severe condition", { class: "c-worst" }),
    cell("Queues", { class: "num" }),
    cell("Overfull", { class: "num" }),
    cell("Stopped", { class: "num" }),
    cell("Blocked", { class: "num" }),
    cell("Messages", { class: "num" }),
  );
}

/**
 * @param {any} node
 * @param {any} broker
 */
export function updateBroker(node, broker) {
  const [name, connection, worst, queues, overfull, stopped, blocked, depth] = node.children;
  setText(name.firstChild, broker.title);
  setText(name.lastChild, [kindWord(broker.kind), ...broker.tags].join(" · "));
  setConnection(connection.firstChild, broker.state);
  node.dataset.connection = broker.state;
  const asOf = broker.stale ? `as of ${clock(broker.as_of)}` : "";
  setText(connection.lastChild, asOf || (broker.as_of === null ? "nothing known yet" : ""));
  setAttribute(connection, "title", broker.error || null);
  showWorst(worst, broker);
  number(queues, broker, "queues");
  number(overfull, broker, "overfull_queues", true);
  number(stopped, broker, "stopped_queues", true);
  setText(blocked, `${known(broker, "blocked_producers")} / ${known(broker, "producers")}`);
  blocked.classList.toggle("hot", broker.blocked_producers > 0);
  setAttribute(blocked, "title", partly(broker, "blocked_producers") ?? partly(broker, "producers"));
  setText(depth, known(broker, "depth_messages"));
  setAttribute(
    depth,
    "title",
    partly(broker, "depth_messages") ?? `${plural(broker.depth_messages, "message")}, ${bytes(broker.depth_bytes)}`,
  );
}

/**
 * @param {any} cell
 * @param {any} broker
 */
function showWorst(cell, { worst, conditions: all, slug }) {
  const key = worst ? `${worst.kind} ${worst.object} ${worst.severity} ${all}` : String(all);
  if (cell.dataset.shown !== key) {
    cell.dataset.shown = key;
    setAttribute(cell, "data-severity", worst?.severity);
    fill(
      cell,
      worst
        ? [
            icon(worst.severity === "trouble" ? "overfull" : "info"),
            h("strong", {}, worst.title),
            " ",
            h("a", { href: objectUrl(worst.object, slug) }, shortName(worst.object)),
            all > 1
              ? h("a", { class: "muted more", href: ofBroker("/conditions/", slug) }, ` and ${exact(all - 1)} more`)
              : "",
          ]
        : h("span", { class: "muted" }, all === null ? "–" : "none"),
    );
  }
  setAttribute(cell, "title", worst?.saw);
}

/**
 * A sum with a mark if values are missing in it.
 *
 * @param {any} broker
 * @param {string} name
 */
const known = (broker, name) =>
  `${broker[name] !== null && broker.partial.includes(name) ? "≥ " : ""}${count(broker[name])}`;

/**
 * @param {any} broker
 * @param {string} name
 */
const partly = (broker, name) =>
  broker[name] === null
    ? "Not known"
    : broker.partial.includes(name)
      ? "Not known for each queue: the sum of those that are"
      : null;

/**
 * @param {any} cell
 * @param {any} broker
 * @param {string} name
 * @param {boolean} [hot]
 */
function number(cell, broker, name, hot = false) {
  setText(cell, known(broker, name));
  setAttribute(cell, "title", partly(broker, name));
  cell.classList.toggle("hot", hot && broker[name] > 0);
}

/**
 * @param {string} name
 * @param {string} text
 * @param {boolean} hot
 * @param {string | null} title
 */
function total(name, text, hot, title) {
  const element = find(`[data-total="${name}"]`);
  setText(element.firstElementChild, text);
  setAttribute(element, "title", title);
  element.classList.toggle("hot", hot);
}

/** @param {any} totals */
export function showTotals(totals) {
  const { brokers, partial } = totals;
  /** @param {string} name */
  const sum = (name) => {
    // Brokers of which nothing is known are in the note.
    const incomplete = totals[name] !== null && partial[name] > (partial.queues ?? 0);
    return `${incomplete ? "≥ " : ""}${count(totals[name])}`;
  };
  /** @param {string} name */
  const missing = (name) =>
    partial[name]
      ? `Not or not completely known for ${plural(partial[name], "broker")}: the sum of the known values`
      : null;
  const away = brokers.disconnected + brokers.connecting;
  const states = Object.entries(brokers).filter(([state, n]) => state !== "all" && n);
  total(
    "brokers",
    `${exact(brokers.connected)} / ${exact(brokers.all)}`,
    brokers.disconnected > 0,
    states.map(([state, n]) => `${exact(n)} ${state}`).join(", "),
  );
  total("queues", sum("queues"), false, missing("queues"));
  total("overfull_queues", sum("overfull_queues"), totals.overfull_queues > 0, missing("overfull_queues"));
  total("stopped_queues", sum("stopped_queues"), totals.stopped_queues > 0, missing("stopped_queues"));
  total(
    "blocked_producers",
    `${sum("blocked_producers")} / ${sum("producers")}`,
    totals.blocked_producers > 0,
    missing("blocked_producers"),
  );
  total("depth", sum("depth_messages"), false, missing("depth_messages") ?? `${bytes(totals.depth_bytes)} in all`);
  const note = byId("fleet-note");
  const said = [
    partial.queues ? `Not in the totals: ${plural(partial.queues, "broker")}, not known.` : "",
    totals.stale ? `As of the last snapshot: ${plural(totals.stale, "disconnected broker")}.` : "",
  ].filter(Boolean);
  setText(note, said.join(" "));
  setText(byId("brokers-count"), `${exact(brokers.all)}${away ? `, ${exact(away)} not connected` : ""}`);
}
