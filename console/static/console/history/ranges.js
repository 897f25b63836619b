// Time ranges: lengths and limits. Pure functions.

import { DAY, LENGTHS, MINUTE } from "../core/lengths.js";

const SHORTEST = 10_000; // ms
export const LONGEST = 1190 * DAY;

/** @typedef {{first: number, last: number}} Extent First and last recorded moment, ms. */

/**
 * End of a relative range, ms: now, or one minute after the last recorded moment if that is older than a day.
 *
 * @param {Extent | null} extent
 * @param {number} now ms
 */
export const endOf = (extent, now) => (extent && extent.last < now - DAY ? extent.last + MINUTE : now);

/**
 * The shortest of `lengths`, up to `defaultLength`, that shows all of `span` ms; otherwise `defaultLength`.
 *
 * @param {string[]} lengths names, the shortest first
 * @param {string} defaultLength
 * @param {number} span
 */
export const fitting = (lengths, defaultLength, span) =>
  lengths.slice(0, lengths.indexOf(defaultLength) + 1).find((name) => LENGTHS[name][1] >= span) ?? defaultLength;

/**
 * The name in the address of a length that is offered: `requested`, or the longest one if that is longer. Null for an
 * unknown name.
 *
 * @param {string[]} lengths names, the shortest first
 * @param {string | null} requested
 */
export function offered(lengths, requested) {
  if (requested === null || !Object.hasOwn(LENGTHS, requested)) return null;
  if (lengths.includes(requested)) return requested;
  const longest = lengths[lengths.length - 1];
  return LENGTHS[requested][1] > LENGTHS[longest][1] ? longest : null;
}

/**
 * Limit a range to 10 s or more, `longest` or less, the start is cut, and to times since 1970. ms.
 *
 * @param {number} from
 * @param {number} until
 * @param {number} [longest]
 * @returns {[number, number]}
 */
export function limited(from, until, longest = LONGEST) {
  if (until - from < SHORTEST) {
    const middle = (from + until) / 2;
    return [Math.max(middle - SHORTEST / 2, 0), middle + SHORTEST / 2];
  }
  return [Math.max(until - longest, from, 0), until];
}

/**
 * Error message for an entered range; empty if the range is valid.
 *
 * @param {number | null} from
 * @param {number | null} until
 * @param {number} [longest] ms
 */
export function wrongRange(from, until, longest = LONGEST) {
  if (from === null || until === null) return "Enter a start and an end.";
  if (from >= until) return "The start must be before the end.";
  if (until - from <= longest) return "";
  return `The range can be ${longest === LONGEST ? "three years" : `${longest / DAY} days`} at most.`;
}
