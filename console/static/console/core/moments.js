// Moments as text: in URLs and inputs, and the name of the page's zone. Pure, except for the clock.

import { elsewhere, fromWallClock, offsetAt, wallClock, zoneId } from "./zone.js";

/** @param {number} n */
const two = (n) => String(n).padStart(2, "0");

/**
 * Format a moment for an input of type datetime-local, in the page's zone.
 *
 * @param {number} ms
 */
export const inputValue = (ms) => wallClock(ms).toISOString().slice(0, 19);

/**
 * Parse the value of an input of type datetime-local, in the page's zone, to ms; null if it is not valid.
 *
 * @param {string} value
 * @returns {number | null}
 */
export function readInput(value) {
  // The browser decides about the hours that its own zone skips and repeats.
  const wall = Date.parse(`${value}Z`);
  if (!Number.isFinite(wall)) return null;
  return elsewhere() ? fromWallClock(wall) : new Date(value).getTime();
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
  const offset = offsetText(ms);
  return offset === "UTC" && /^(UTC|Etc\/UTC)$/.test(zoneId())
    ? "UTC"
    : `${zoneId()} (${offset === "UTC" ? "UTC+00:00" : offset})`;
}

/** "UTC-05:00", or "UTC": the page's offset at that moment. */
export function offsetText(ms = Date.now()) {
  const minutes = Math.round(offsetAt(ms) / 60_000);
  const hours = `${two(Math.floor(Math.abs(minutes) / 60))}:${two(Math.abs(minutes) % 60)}`;
  return minutes === 0 ? "UTC" : `UTC${minutes < 0 ? "-" : "+"}${hours}`;
}
