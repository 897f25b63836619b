// The shapes of a small chart over time: steps through values of equal length, with gaps where a value is unknown.
// Pure.

/**
 * The points of a series with values per `step_ms` from each of `at` on.
 *
 * @typedef {{from: number, until: number, step_ms: number, at: number[], unwatched: Record<string, [number, number][]>,
 *   [name: string]: any}} Totals
 */

/**
 * The greatest known value of some series; 0 without one.
 *
 * @param {(number | null)[][]} series
 */
export const highest = (series) => Math.max(0, ...series.flat().filter((value) => value !== null));

/**
 * Return the path of a line in steps, in a box of `width` units (a step each) and `height` down from `most`; a gap
 * where
 * a value is null. `closed`: each part encloses the area down to 0.
 *
 * @param {(number | null)[]} values
 * @param {number} most
 * @param {number} height
 * @param {boolean} [closed]
 */
export function stepPath(values, most, height, closed = false) {
  let path = "";
  let open = false;
  values.forEach((value, slot) => {
    if (value === null) {
      if (open && closed) path += `V${height}Z`;
      open = false;
      return;
    }
    const y = round(height - (most ? value / most : 0) * height);
    if (open) path += `V${y}H${slot + 1}`;
    else path += closed ? `M${slot} ${height}V${y}H${slot + 1}` : `M${slot} ${y}H${slot + 1}`;
    open = true;
  });
  return open && closed ? `${path}V${height}Z` : path;
}

/** @param {number} value */
const round = (value) => Math.round(value * 100) / 100;

/**
 * Return the spans in which any broker was not recorded, joined, in order: [from, until], ms, and the brokers.
 *
 * @param {Record<string, [number, number][]>} unwatched
 * @returns {{from: number, until: number, brokers: string[]}[]}
 */
export function joinedGaps(unwatched) {
  const all = Object.entries(unwatched)
    .flatMap(([broker, spans]) => spans.map(([from, until]) => ({ from, until, brokers: [broker] })))
    .sort((a, b) => a.from - b.from);
  /** @type {{from: number, until: number, brokers: string[]}[]} */
  const joined = [];
  for (const gap of all) {
    const last = joined[joined.length - 1];
    if (!last || gap.from > last.until) {
      joined.push({ ...gap, brokers: [...gap.brokers] });
      continue;
    }
    last.until = Math.max(last.until, gap.until);
    if (!last.brokers.includes(gap.brokers[0])) last.brokers.push(gap.brokers[0]);
  }
  return joined;
}

/**
 * The sum of the known values; null if none is known.
 *
 * @param {(number | null)[]} values
 * @returns {number | null}
 */
export function knownSum(values) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null));
  return known.length ? known.reduce((sum, value) => sum + value, 0) : null;
}

/**
 * The slot of the newest known value; -1 without one.
 *
 * @param {(number | null)[]} values
 */
export function newestSlot(values) {
  for (let slot = values.length - 1; slot >= 0; slot -= 1) if (values[slot] !== null) return slot;
  return -1;
}
