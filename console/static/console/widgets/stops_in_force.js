// The operator stops in force, as last received, and which of them the banner lists. Touches no element.

import { clientInWords } from "../core/object_names.js";

/** Stops, or groups of stops, that the banner lists. */
export const ON_BANNER = 3;

let onBanner = new Set();
let known = false;

/**
 * Group stops: those of single queues that were set by one call are one entry. Returns [[stop, …], …].
 *
 * @param {any[]} stops
 */
export function groupStops(stops) {
  const entries = new Map();
  for (const stop of stops) {
    const single = String(stop.object ?? "").startsWith("type=Queue") && !clientInWords(stop);
    const key = single
      ? JSON.stringify([
          stop.actor,
          stop.halted ? "halted" : stop.reason,
          stop.since,
          stop.until,
          stop.below,
          Boolean(stop.stage),
        ])
      : JSON.stringify(stop.scope);
    if (!entries.has(key)) entries.set(key, []);
    entries.get(key).push(stop);
  }
  return [...entries.values()];
}

/**
 * Replace the stops in force: maps of scope, reason, actor, since.
 *
 * @param {any[]} stops
 */
export function setStopsInForce(stops) {
  known = true;
  onBanner = new Set(
    groupStops(stops)
      .slice(0, ON_BANNER)
      .flat()
      .map((stop) => stop.scope),
  );
}

/** Whether the banner has received the stops. */
export const areStopsKnown = () => known;

/**
 * Return whether the banner lists this stop.
 *
 * @param {any} stop
 */
export const isOnBanner = (stop) => onBanner.has(stop.scope);
