// Words that the parts of the page "Why blocked" share.

import { bytes, count } from "../core/format.js";

export const NAMED = 60; // characters of a name in a row; the page's title has the full name

/**
 * @param {any} n
 * @param {string} unit
 */
export const amount = (n, unit) => (unit === "bytes" ? bytes(n) : `${count(n)} ${n === 1 ? "message" : "messages"}`);

/**
 * Return whether the broker reports a value.
 *
 * @param {any} value
 */
export const known = (value) => value !== null && value !== undefined;

/** @param {any} origin */
export function originWords(origin) {
  return (
    /** @type {Record<string, any>} */ ({
      own: "the queue",
      virtualhost: "the virtual host",
      broker: "the broker's defaults",
      "built-in": "the default",
    })[origin] ?? origin
  );
}
