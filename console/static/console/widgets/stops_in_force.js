// The operator stops in force, as last received, and which of them the banner lists. Touches no element.

import { clientInWords } from "../core/object_names.js";

/** Stops, or groups of stops, that the banner lists. */
export const ON_BANNER = 3;

let onBanner = new Set();

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
  onBanner = new Set(
    groupStops(stops)
      .slice(0, ON_BANNER)
      .flat()
      .map((stop) => stop.scope),
  );
}

/**
 * Return what an undo of a stop lifts: the scope, or the queues, whose stop the call has made; null: nothing. A stop
 * that was in force before stays, although the call may have changed its end: it is of another operator, or older.
 *
 * @param {any} sent arguments of the call
 * @param {any} answer
 */
export function undoable(sent, answer) {
  const before = new Set((answer.stops_before ?? []).map((/** @type {any} */ stop) => stop.object));
  const { effects, ...aim } = sent;
  if (!sent.queues) return answer.changed && !before.size ? aim : null;
  const queues = (answer.changed_queues ?? []).filter((/** @type {string} */ name) => !before.has(name));
  return queues.length ? { ...aim, queues } : null;
}

/**
 * Return the part of `aim`, from `undoable`, whose stop is still in force with this reason; null: none. Others can have
 * lifted it meanwhile, and stopped the scope again.
 *
 * @param {any} aim
 * @param {string} reason
 * @param {any[]} stops in force
 */
export function stillInForce(aim, reason, stops) {
  const mine = stops.filter(
    (stop) =>
      stop.reason === reason &&
      ["pattern", "user", "container_id", "link"].every((name) => (stop[name] || "") === (aim[name] || "")),
  );
  const objects = new Set(mine.map((stop) => stop.object));
  if (!aim.queues) return objects.has(aim.scope) ? aim : null;
  const queues = aim.queues.filter((/** @type {string} */ name) => objects.has(name));
  return queues.length ? { ...aim, queues } : null;
}

/**
 * Return whether the banner lists this stop.
 *
 * @param {any} stop
 */
export const isOnBanner = (stop) => onBanner.has(stop.scope);
