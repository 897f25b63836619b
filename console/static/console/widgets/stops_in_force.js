// The operator stops in force, as the page knows them last, and which of them the banner names. Touches no element.

/** Stops, or groups of them, that the banner names. */
export const ON_BANNER = 3;

/** @type {any[]} */
let inForce = [];
let onBanner = new Set();

/**
 * Stops that were made in one call for one queue each are one entry: [[stop, …], …].
 *
 * @param {any[]} stops
 */
export function groupStops(stops) {
  const entries = new Map();
  for (const stop of stops) {
    const single = String(stop.object ?? "").startsWith("type=Queue");
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
 * From now on these are in force: maps of scope, reason, actor, since.
 *
 * @param {any[]} stops
 */
export function setStopsInForce(stops) {
  inForce = stops;
  onBanner = new Set(
    groupStops(stops)
      .slice(0, ON_BANNER)
      .flat()
      .map((stop) => stop.scope),
  );
}

/**
 * Whether a stop with this reason is in force still.
 *
 * @param {any} reason
 */
export const isStoppedFor = (reason) => inForce.some((stop) => stop.reason === reason);

/**
 * Whether the banner says that this stop is in force.
 *
 * @param {any} stop
 */
export const isOnBanner = (stop) => onBanner.has(stop.scope);
