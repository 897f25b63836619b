// The filter of the messages page: its texts, parameters of the page's address, and those of GET /messages/, which have
// the same names. Pure.

import { readAmount } from "../core/format.js";

/** Texts as typed; `properties`: pairs of name and value. @typedef {Record<string, any>} Filter */

export const STATES = ["available", "acquired", "delayed"];
/** Parameters with one text each. */
export const NAMES = [
  "selector",
  "older_than",
  "newer_than",
  "min_size",
  "max_size",
  "min_redeliveries",
  "max_redeliveries",
  "state",
  "reason",
  "source",
];

/** @type {Record<string, number>} ms */
const UNITS = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 };

/**
 * Parse a duration as the API takes it: "90s", "10m", "2h", "7d", "500ms". Returns ms, or null if it is not valid.
 *
 * @param {string} text
 */
export function readDuration(text) {
  const found = /^\s*(\d{1,15})\s*(ms|s|m|h|d)\s*$/.exec(text);
  const ms = found ? Number(found[1]) * UNITS[found[2]] : null;
  return ms !== null && Number.isSafeInteger(ms) ? ms : null;
}

/**
 * Parse "NAME=VALUE". The name ends at the first "=". Returns null without one, or with an empty name.
 *
 * @param {string} text
 * @returns {[string, string] | null}
 */
export function readProperty(text) {
  const at = text.indexOf("=");
  return at > 0 ? [text.slice(0, at).trim(), text.slice(at + 1).trim()] : null;
}

/** An empty filter. */
export const empty = () => ({ properties: [], ...Object.fromEntries(NAMES.map((name) => [name, ""])) });

/**
 * Read the filter of an address.
 *
 * @param {URLSearchParams} given
 * @returns {Filter}
 */
export function fromAddress(given) {
  const properties = given.getAll("property").map(readProperty).filter(Boolean);
  return { properties, ...Object.fromEntries(NAMES.map((name) => [name, given.get(name) ?? ""])) };
}

/**
 * The parameters of the filter for an address.
 *
 * @param {Filter} filter
 * @returns {[string, string][]}
 */
export function toAddress(filter) {
  /** @type {[string, string][]} */
  const found = [];
  for (const name of NAMES) if (filter[name]) found.push([name, filter[name]]);
  for (const [name, value] of filter.properties) found.push(["property", `${name}=${value}`]);
  return found;
}

/** @param {Filter} filter */
export const isEmpty = (filter) => toAddress(filter).length === 0;

const DURATION = [readDuration, "a duration such as 90s, 10m or 2h"];
const SIZE = [readAmount, "a size such as 500 or 64 KiB"];
const NUMBER = [wholeNumber, "a whole number"];
/** How texts are parsed, and what is expected. @type {Record<string, any[]>} */
const PARSED = {
  older_than: DURATION,
  newer_than: DURATION,
  min_size: SIZE,
  max_size: SIZE,
  min_redeliveries: NUMBER,
  max_redeliveries: NUMBER,
};

/** @param {string} text */
function wholeNumber(text) {
  return /^\s*\d{1,9}\s*$/.test(text) ? Number(text) : null;
}

/**
 * The errors of a filter, by parameter; empty: none.
 *
 * @param {Filter} filter
 * @returns {Record<string, string>}
 */
export function wrongIn(filter) {
  /** @type {Record<string, string>} */
  const wrong = {};
  for (const [name, [parse, expected]] of Object.entries(PARSED))
    if (filter[name] && parse(filter[name]) === null) wrong[name] = `${filter[name]} is not ${expected}.`;
  const names = filter.properties.map((/** @type {any} */ [name]) => name);
  const twice = names.find((/** @type {any} */ name, /** @type {any} */ at) => names.indexOf(name) !== at);
  if (twice) wrong.property = `Property ${twice} has two values.`;
  return wrong;
}

/**
 * The filter as parameters of the list: sizes in bytes.
 *
 * @param {Filter} filter
 * @returns {[string, string][]}
 */
export const toQuery = (filter) => toAddress(filter).map(([name, value]) => [name, asParameter(name, value)]);

/**
 * @param {string} name
 * @param {string} value
 */
function asParameter(name, value) {
  if (name.endsWith("_size")) return String(readAmount(value));
  return PARSED[name] ? value.replaceAll(/\s/g, "") : value;
}
