// The row of a group in the table of queues: a button that expands it, and totals over all its queues.

import { h, icon, setAttribute, setText } from "../core/elements.js";
import { bytes, count, exact, exactAmount, plural, rate } from "../core/format.js";
import { troubleOf } from "./group_view.js";

const NO_PREFIX = "No prefix";
const LACKS = "Not known of all its queues: the sum of the known values";

/**
 * Return the row of a group; `toggle(name)` is called by its button. With `brokers` in the group, it has a column of
 * brokers.
 *
 * @param {any} group
 * @param {(name: string) => void} toggle
 */
export function groupRow(group, toggle) {
  const button = h(
    "button",
    { type: "button", class: "quiet group-toggle", on: { click: () => toggle(group.name) } },
    icon("chevron"),
    group.name ? h("bdi", {}, group.name) : h("span", { class: "muted" }, NO_PREFIX),
  );
  /**
   * @param {string} label
   * @param {string} column
   * @param {...any} children
   */
  const cell = (label, column, ...children) => h("td", { "data-label": label, class: column }, ...children);
  return h(
    "tr",
    { class: "group" },
    h(
      "th",
      { scope: "row", colspan: "2", class: "c-group" },
      button,
      h("span", { class: "muted group-queues" }),
      h("span", { class: "group-trouble" }),
    ),
    "brokers" in group ? cell("Brokers", "c-broker muted") : null,
    cell("Depth", "c-depth", h("span"), h("small", { class: "muted" })),
    cell("Blocked", "num c-blocked"),
    cell("Consumers", "num c-consumers"),
    cell("In /s", "num c-in"),
    cell("Out /s", "num c-out"),
    cell("", "num c-unacknowledged"),
    cell("", "c-since"),
    "brokers" in group ? null : cell("", "c-act"),
  );
}

/**
 * @param {any} node
 * @param {any} group
 */
export function updateGroup(node, group) {
  const [name, ...cells] = node.children;
  if ("brokers" in group) setText(cells.shift(), plural(group.brokers, "broker"));
  const [depth, blocked, consumers, rateIn, rateOut] = cells;
  const [button, queues, trouble] = name.children;
  const unknown = (/** @type {string[]} */ ...names) => names.some((each) => group.partial.includes(each));
  /** @param {string} attribute */
  const least = (attribute) => (unknown(attribute) && group[attribute] !== null ? "≥ " : "");
  setAttribute(button, "aria-expanded", String(group.open));
  setText(queues, plural(group.queues, "queue"));
  setText(trouble, troubleOf(group));
  const [messages, size] = depth.children;
  setText(
    messages,
    group.depth_messages === null ? "–" : `${least("depth_messages")}${count(group.depth_messages)} msg`,
  );
  setText(size, group.depth_bytes === null ? "" : `${least("depth_bytes")}${bytes(group.depth_bytes)}`);
  setText(
    blocked,
    `${least("blocked_producers")}${count(group.blocked_producers)} / ${least("producers")}${count(group.producers)}`,
  );
  blocked.classList.toggle("hot", group.blocked_producers > 0);
  setText(consumers, `${least("consumers")}${count(group.consumers)}`);
  for (const [cell, attribute] of [
    [rateIn, "rate_in"],
    [rateOut, "rate_out"],
  ]) {
    setText(cell, `${least(attribute)}${rate(group[attribute])}`);
    setAttribute(cell, "title", unknown(attribute) ? LACKS : null);
  }
  const lacks = (/** @type {string[]} */ ...names) => (unknown(...names) ? `\n${LACKS}` : "");
  setAttribute(
    depth,
    "title",
    `${exactAmount(group.depth_messages, "messages")}, ${exactAmount(group.depth_bytes, "bytes")}` +
      lacks("depth_messages", "depth_bytes"),
  );
  setAttribute(
    blocked,
    "title",
    `${exactAmount(group.blocked_producers, "producers")} blocked, of ${exact(group.producers)}` +
      lacks("blocked_producers", "producers"),
  );
  setAttribute(consumers, "title", `${exactAmount(group.consumers, "consumers")}${lacks("consumers")}`);
}
