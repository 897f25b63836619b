// Format numbers, bytes, rates, durations, and times in the zone of the user's preferences. Pure, except for the clock.

import { serverNow } from "./server_clock.js";
import { elsewhere, twelveHours, wallClock, zoneId } from "./zone.js";

const exactly = new Intl.NumberFormat("en");
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
/** @type {Map<string, Intl.DateTimeFormat>} expensive to create */
const moments = new Map();
const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB"];

/** @param {any} n */
const two = (n) => String(n).padStart(2, "0");

/**
 * 1234567 -> "1,234,567"
 *
 * @param {any} n
 */
export const exact = (n) => (n === null || n === undefined ? "–" : exactly.format(n));

/**
 * Format a number for a table column: exact below 100,000, "123K" above.
 *
 * @param {any} n
 */
export const count = (n) =>
  n === null || n === undefined ? "–" : Math.abs(n) < 100_000 ? exactly.format(n) : compact.format(n);

/**
 * "1.2 kB"; decimal units, as on the axes of charts.
 *
 * @param {any} n
 */
export function bytes(n) {
  if (n === null || n === undefined) return "–";
  let unit = 0;
  let value = n;
  while (Math.abs(value) >= 999.5 && unit < BYTES.length - 1) {
    value /= 1000;
    unit += 1;
  }
  const digits = unit === 0 || value >= 99.5 ? 0 : value >= 9.95 ? 1 : 2;
  return `${Number(value.toFixed(digits))} ${BYTES[unit]}`;
}

/**
 * Format a rate per second.
 *
 * @param {any} n
 */
export function rate(n) {
  if (n === null || n === undefined) return "–";
  if (n === 0) return "0";
  if (n < 10) return n.toFixed(1);
  return count(Math.round(n));
}

/**
 * Format an amount by its unit for a table column.
 *
 * @param {any} n
 * @param {string} unit
 */
export const amount = (n, unit) => (unit === "bytes" ? bytes(n) : count(n));

/**
 * Format an amount exactly, with its unit: for tooltips.
 *
 * @param {any} n
 * @param {string} unit
 */
export const exactAmount = (n, unit) => `${exact(n)} ${unitFor(n, unit)}`;

/**
 * The unit behind a number: "message" for 1 of "messages"; "ms" has no plural.
 *
 * @param {any} n
 * @param {string} unit
 */
export const unitFor = (n, unit) => (n === 1 && unit !== "ms" ? unit.replace(/s$/, "") : unit);

/**
 * @param {any} part
 * @param {any} whole
 */
export const percent = (part, whole) => (whole ? `${Math.round((part / whole) * 100)}%` : "");

/**
 * "12:03:04" today, "20 Nov 12:03:04" on another day, "20 Nov 2025 12:03:04" in another year; with a clock of twelve
 * hours "12:03:04 pm".
 *
 * @param {any} ms
 */
export function clock(ms) {
  const [at, today] = [wallClock(ms), wallClock(serverNow())];
  const hours = at.getUTCHours();
  const rest = `${two(at.getUTCMinutes())}:${two(at.getUTCSeconds())}`;
  const time = twelveHours() ? `${hours % 12 || 12}:${rest} ${hours < 12 ? "am" : "pm"}` : `${two(hours)}:${rest}`;
  const day = `${at.getUTCDate()} ${MONTHS[at.getUTCMonth()]}`;
  if (at.getUTCFullYear() !== today.getUTCFullYear()) return `${day} ${at.getUTCFullYear()} ${time}`;
  return at.getUTCMonth() === today.getUTCMonth() && at.getUTCDate() === today.getUTCDate() ? time : `${day} ${time}`;
}

/**
 * Date and time with zone: for tooltips.
 *
 * @param {any} ms
 */
export function moment(ms) {
  const key = `${elsewhere() ? zoneId() : ""} ${twelveHours()}`;
  let format = moments.get(key);
  if (!format) {
    format = new Intl.DateTimeFormat("en-GB", {
      dateStyle: "medium",
      timeStyle: "long",
      timeZone: elsewhere() ? zoneId() : undefined,
      hour12: twelveHours(),
    });
    moments.set(key, format);
  }
  return format.format(ms);
}

/**
 * The two largest units: "< 1 s", "45 s", "3 min 20 s", "2 h 5 min", "3 d 4 h".
 *
 * @param {any} ms
 */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const s = Math.max(0, Math.floor(ms / 1000));
  if (s === 0 && ms > 0) return "< 1 s";
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

/**
 * "producer-blocked" -> "Producer blocked", "messageAge" -> "Message age"
 *
 * @param {any} name
 */
export const words = (name) => {
  const text = name
    .replaceAll(/[-_]/g, " ")
    .replaceAll(
      /([a-z])([A-Z])/g,
      (/** @type {any} */ _, /** @type {any} */ a, /** @type {any} */ b) => `${a} ${b.toLowerCase()}`,
    );
  return text.charAt(0).toUpperCase() + text.slice(1);
};

/** @type {Record<string, string>} */
const EVENT_NAMES = { "producer-released": "Producer unblocked", "queue-dead-lettered": "Messages dead-lettered" };

/**
 * The name of an event's kind for people: as its words, but for kinds whose published name does not read well.
 *
 * @param {string} kind
 */
export const eventName = (kind) => EVENT_NAMES[kind] ?? words(kind);

/**
 * @param {any} n
 * @param {any} one
 * @param {any} [many]
 */
export const plural = (n, one, many = `${one}s`) => `${exact(n)} ${n === 1 ? one : many}`;

/** Digits in groups of three, all with the same separator, or without any; a fraction; a unit. */
const AMOUNT = /^\s*((?:[1-9]\d{0,2}([,_\s])\d{3}(?:\2\d{3})*|\d+)(?:\.\d+)?)\s*([kmgt]?)(i?)(b|bytes?)?\s*$/i;

/**
 * Parse an amount: "10,000", "64 KiB", "1.5 MB". Returns a whole number, or null if it is not valid, such as "1,5 GB",
 * whose comma may stand for a point. Decimal units have a factor of 1000, binary ones (KiB) 1024.
 *
 * @param {string} text
 */
export function readAmount(text) {
  const match = AMOUNT.exec(text);
  if (!match) return null;
  const number = Number(match[1].replaceAll(/[^\d.]/g, ""));
  const power = ["", "k", "m", "g", "t"].indexOf(match[3].toLowerCase());
  if (match[4] && !match[3]) return null;
  const value = number * (match[4] ? 1024 : 1000) ** power;
  return Number.isSafeInteger(value) ? value : null;
}

/**
 * Shorten a name of more than `most` characters in the middle: names differ at their beginnings and ends.
 *
 * @param {any} name
 * @param {number} [most]
 */
export const middle = (name, most = 120) => {
  if (name.length <= most) return name;
  const half = Math.floor((most - 1) / 2);
  return `${name.slice(0, half)}…${name.slice(-half)}`;
};
