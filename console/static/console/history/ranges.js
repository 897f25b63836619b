// Time ranges: lengths and limits. Pure functions.

export const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/**
 * Name in the address -> [label, ms].
 *
 * @type {Record<string, [string, number]>}
 */
export const LENGTHS = {
  "15m": ["15 min", 15 * MINUTE],
  "1h": ["1 h", HOUR],
  "6h": ["6 h", 6 * HOUR],
  "24h": ["24 h", DAY],
  "7d": ["7 d", 7 * DAY],
  "30d": ["30 d", 30 * DAY],
  "90d": ["90 d", 90 * DAY],
  "1y": ["1 y", 365 * DAY],
};
const SHORTEST = 10_000; // ms
const LONGEST = 1190 * DAY;

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
 * Limit a range to 10 s or more, about three years or less, and to times since 1970. ms.
 *
 * @param {number} from
 * @param {number} until
 * @returns {[number, number]}
 */
export function limited(from, until) {
  if (until - from < SHORTEST) {
    const middle = (from + until) / 2;
    return [Math.max(middle - SHORTEST / 2, 0), middle + SHORTEST / 2];
  }
  return [Math.max(until - LONGEST, from, 0), until];
}

/**
 * Error message for an entered range; empty if the range is valid.
 *
 * @param {number | null} from
 * @param {number | null} until
 */
export function wrongRange(from, until) {
  if (from === null || until === null) return "Enter a start and an end.";
  if (from >= until) return "The start must be before the end.";
  return until - from > LONGEST ? "The range can be three years at most." : "";
}
