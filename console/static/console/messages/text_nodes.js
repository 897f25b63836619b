// Elements with text, values and times of messages: always text nodes, isolated from the text around them.

import { h } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { readMoment } from "../core/moments.js";
import { clockElement } from "../core/times.js";
import { cut, safeParts } from "./safe_text.js";

const MOST_ESCAPES = 500; // as elements of their own; more are plain text
const MOST = 300; // characters of a value
const LATEST = 8.64e15; // ms, of a Date

/**
 * Return an element with text: unsafe characters as visible escapes, cut after `most` characters. `lines`: line breaks
 * stay.
 *
 * @param {string} text
 * @param {{most?: number, lines?: boolean}} [options]
 */
export function textNode(text, { most = MOST, lines = false } = {}) {
  const [shown, left] = cut(text, most);
  const parts = safeParts(shown, lines);
  const marked = parts.length <= MOST_ESCAPES;
  return h(
    "bdi",
    { class: "from-message" },
    marked
      ? parts.map((part) =>
          part.escape ? h("span", { class: "escape", title: "Character that is not shown" }, part.text) : part.text,
        )
      : parts.map((part) => part.text).join(""),
    left ? h("span", { class: "muted" }, ` … ${plural(left, "more character")}`) : null,
  );
}

/**
 * Return an element with any value of a property: text as it is, numbers exactly, others as JSON.
 *
 * @param {any} value
 * @param {number} [most]
 */
export function valueNode(value, most = MOST) {
  if (value === null || value === undefined) return h("span", { class: "muted" }, "null");
  if (value === "") return h("span", { class: "muted" }, "empty");
  if (typeof value === "string") return textNode(value, { most });
  return textNode(typeof value === "object" ? JSON.stringify(value) : String(value), { most });
}

/**
 * What names a message for people: its subject, its message ID, or the ID in the queue, the first that there is; the
 * second is shown smaller.
 *
 * @param {any} message
 * @returns {string[]}
 */
export const namesOf = (message) =>
  [message.properties?.subject, message.properties?.message_id, message.id]
    .filter((name) => name !== undefined && name !== null && name !== "")
    .map(String)
    .slice(0, 2);

/**
 * The time of a message, ms; null: not known, or not a time that can be shown.
 *
 * @param {any} value ms or ISO 8601
 */
export function timeOf(value) {
  if (value === null || value === undefined) return null;
  const ms = typeof value === "number" ? value : readMoment(String(value));
  return ms !== null && Math.abs(ms) <= LATEST ? ms : null;
}

/**
 * Return an element with the time of a message, or its number if it is no time.
 *
 * @param {any} value
 */
export function timeNode(value) {
  const ms = timeOf(value);
  if (ms !== null) return clockElement(ms);
  return value === null || value === undefined ? "–" : textNode(typeof value === "number" ? exact(value) : `${value}`);
}
