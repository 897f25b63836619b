// Ranges of time: their lengths and limits. Pure.

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
const LEAST = 10_000; // ms
const MOST = 1190 * DAY;

/** @typedef {{first: number, last: number}} Known First and last moment of which anything is known, ms. */

/**
 * Where a length until now ends. An imported log may have ended years ago: then a minute after its last moment.
 *
 * @param {Known | null} known
 * @param {number} now ms
 */
export const endOf = (known, now) => (known && known.last < now - DAY ? known.last + MINUTE : now);

/**
 * The shortest of the `lengths` up to the `usual` one that shows all of `span` ms; else the usual one.
 *
 * @param {string[]} lengths names, the shortest first
 * @param {string} usual
 * @param {number} span
 */
export const fitting = (lengths, usual, span) =>
  lengths.slice(0, lengths.indexOf(usual) + 1).find((name) => LENGTHS[name][1] >= span) ?? usual;

/**
 * Two moments that are neither too near to each other nor too far apart, nor before 1970.
 *
 * @param {number} from
 * @param {number} until
 * @returns {[number, number]}
 */
export function limited(from, until) {
  if (until - from < LEAST) {
    const middle = (from + until) / 2;
    return [Math.max(middle - LEAST / 2, 0), middle + LEAST / 2];
  }
  return [Math.max(until - MOST, from, 0), until];
}

/**
 * What is wrong with two typed moments, a sentence; empty: nothing.
 *
 * @param {number | null} from
 * @param {number | null} until
 */
export function wrongRange(from, until) {
  if (from === null || until === null) return "Two moments are needed.";
  if (from >= until) return "The first must be before the second.";
  return until - from > MOST ? "At most three years." : "";
}
