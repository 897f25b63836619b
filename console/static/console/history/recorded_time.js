// Recorded time of a series: what a chart may draw. Pure.

/** @typedef {{from: number, until: number, unwatched: [number, number][], [name: string]: any}} Series From the API. */

/**
 * Return the recorded parts of [from, until), ms; `series` has the range and its `unwatched` spans.
 *
 * @param {number} from
 * @param {number} until
 * @param {Series} series
 * @returns {[number, number][]}
 */
export function recorded(from, until, series) {
  /** @type {[number, number][]} */
  const parts = [];
  let at = Math.max(from, series.from);
  const end = Math.min(until, series.until);
  for (const [begin, over] of series.unwatched) {
    if (over <= at || begin >= end) continue;
    if (begin > at) parts.push([at, begin]);
    at = over;
  }
  if (at < end) parts.push([at, end]);
  return parts;
}

/**
 * Return the points of a line in steps through the values of minutes, hours or days: a value is valid for the recorded
 * parts of its step. `points`: [ms, index of the value]; index -1: a gap.
 *
 * @param {Series} series
 * @param {number} now ms
 * @returns {[number, number][]}
 */
export function stepPoints(series, now) {
  /** @type {[number, number][]} */
  const points = [];
  /** @type {[number, number] | null} */
  let last = null; // end of the last part, and index of its value
  const close = () => {
    if (last) points.push(last, [last[0], -1]);
  };
  series.at.forEach((/** @type {number} */ at, /** @type {number} */ index) => {
    const end = Math.min(at + series.step_ms, now);
    for (const [from, until] of recorded(at, end, series)) {
      if (last && last[0] < from) close();
      points.push([from, index]);
      last = [until, index];
    }
  });
  close();
  return points;
}
