// The page of all brokers: their conditions and events in one stream, newest first.

import { byId, fill, find, h, icon, reconcile, setAttribute, setText } from "../core/elements.js";
import { clock, eventName, moment } from "../core/format.js";
import { objectUrl, shortName } from "../core/object_names.js";
import { SHAPES, said, subject, target } from "../widgets/event_feed.js";

/** @param {any} entry */
const entryKey = (entry) =>
  entry.entry === "event"
    ? `${entry.broker} ${entry.number}`
    : `${entry.broker} ${entry.kind} ${entry.object} ${entry.since} ${entry.severity}`;

/** @param {any} entry */
function streamLine(entry) {
  const condition = entry.entry === "condition";
  return h(
    "li",
    {
      class: `event ${condition ? "found" : ""}`,
      data: condition ? { severity: entry.severity } : { kind: entry.kind },
    },
    h("time", { class: "clock", title: moment(entry.at), datetime: new Date(entry.at).toISOString() }, clock(entry.at)),
    h(
      "span",
      { class: "event-icon" },
      icon(condition ? (entry.severity === "trouble" ? "overfull" : "info") : (SHAPES[entry.kind] ?? "info")),
    ),
    h(
      "div",
      { class: "event-body" },
      h(
        "p",
        { class: "event-head" },
        h("strong", {}, condition ? `Condition: ${entry.title}` : eventName(entry.kind)),
        " ",
        h(
          "a",
          { href: condition ? objectUrl(entry.object, entry.broker) : target(entry) },
          condition ? shortName(entry.object) : subject(entry),
        ),
      ),
      h("p", { class: "event-text" }),
    ),
  );
}

/**
 * @param {any} node
 * @param {any} entry
 */
function updateLine(node, entry) {
  const text = find(".event-text", node);
  const words = entry.entry === "condition" ? entry.saw : said(entry.text);
  setText(text, `${entry.broker_title}: ${words}`);
  setAttribute(text, "title", words);
}

/** @param {any[]} entries */
export function showStream(entries) {
  const list = byId("feed");
  if (!entries.length) {
    reconcile(list, [], entryKey, streamLine, updateLine);
    if (!list.firstElementChild) list.append(h("li", { class: "empty" }, h("p", {}, "No conditions or events yet")));
    return;
  }
  if (list.firstElementChild?.classList.contains("empty")) fill(list);
  reconcile(list, entries, entryKey, streamLine, updateLine);
}
