// The lengths of time ranges that pages offer: history, timeline and audit. Pure.

export const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

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
