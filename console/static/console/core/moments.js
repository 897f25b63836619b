// Moments as text: in URLs and inputs, and the name of the browser's zone. Pure, except for the clock.

/** @param {number} n */
const two = (n) => String(n).padStart(2, "0");

/**
 * Format a moment for an input of type datetime-local, in the browser's zone.
 *
 * @param {number} ms
 */
export function inputValue(ms) {
  const d = new Date(ms);
  return (
    `${String(d.getFullYear()).padStart(4, "0")}-${two(d.getMonth() + 1)}-${two(d.getDate())}T` +
    `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
  );
}

/**
 * Parse a moment of a URL: ms, or ISO 8601, UTC if it has no zone. Returns null if it is not valid.
 *
 * @param {string | null | undefined} text
 * @returns {number | null}
 */
export function readMoment(text) {
  if (!text) return null;
  const zoned = /(?:Z|[+-]\d\d:?\d\d)$/i.test(text) || !text.includes("T");
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(zoned ? text : `${text}Z`);
  return Number.isFinite(ms) ? ms : null;
}

/**
 * "2026-03-14T12:00:00Z": for URLs, whole seconds.
 *
 * @param {number} ms
 */
export const addressMoment = (ms) => new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000Z", "Z");

/** "America/New_York (UTC-05:00)", at that moment: the offset changes with daylight saving time. */
export function zoneName(ms = Date.now()) {
  const offset = -new Date(ms).getTimezoneOffset();
  const hours = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return offset === 0 && /^(UTC|Etc\/UTC)$/.test(timeZone) ? "UTC" : `${timeZone} (UTC${hours})`;
}
