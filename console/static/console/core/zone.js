// The time zone and the clock of the user's preferences. Pure, apart from what `useZone` sets for the page.

let chosen = ""; // empty: the browser's
let twelve = false;
/** @type {Intl.DateTimeFormat | null} */
let reader = null;
/** @type {Map<number, number>} */
let offsets = new Map();
/** Offsets change at quarters of an hour only. */
const QUARTER = 900_000; // ms
const MINUTE = 60_000;
const DAY = 86_400_000;

const browsers = () => Intl.DateTimeFormat().resolvedOptions().timeZone || "UTC";

/**
 * Use a time zone, empty: that of the browser, and a clock of "24" or "12" hours. An unknown zone is that of the
 * browser.
 *
 * @param {string} name
 * @param {string} clock
 */
export function useZone(name, clock) {
  twelve = clock === "12";
  chosen = "";
  reader = null;
  offsets = new Map();
  if (!name || name === browsers()) return;
  try {
    reader = new Intl.DateTimeFormat("en-GB", {
      timeZone: name,
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
    });
    chosen = name;
  } catch {
    // The browser does not know it.
  }
}

/** The IANA name of the zone. */
export const zoneId = () => chosen || browsers();

/** Whether the zone is not that of the browser. */
export const elsewhere = () => chosen !== "";

/** Whether the clock has twelve hours. */
export const twelveHours = () => twelve;

/**
 * The offset of the zone from UTC at a moment, ms; daylight saving time changes it.
 *
 * @param {number} ms
 */
export function offsetAt(ms) {
  if (reader === null) return -new Date(ms).getTimezoneOffset() * MINUTE;
  const quarter = Math.floor(ms / QUARTER);
  let offset = offsets.get(quarter);
  if (offset === undefined) {
    const start = quarter * QUARTER;
    const part = Object.fromEntries(reader.formatToParts(start).map(({ type, value }) => [type, Number(value)]));
    offset = Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) - start;
    if (offsets.size > 10_000) offsets.clear();
    offsets.set(quarter, offset);
  }
  return offset;
}

/**
 * The moments at which the offset changes, after `from` and before `until`, ascending, ms. Of two changes in a day
 * that cancel each other, none.
 *
 * @param {number} from ms
 * @param {number} until ms
 * @returns {number[]}
 */
export function offsetChanges(from, until) {
  const found = [];
  for (let begin = from; begin < until; begin += DAY) {
    let [before, after] = [begin, Math.min(begin + DAY, until)];
    const offset = offsetAt(before);
    if (offsetAt(after) === offset) continue;
    while (after - before > 1) {
      const middle = Math.floor((before + after) / 2);
      if (offsetAt(middle) === offset) before = middle;
      else after = middle;
    }
    if (after < until) found.push(after);
  }
  return found;
}

/**
 * The wall clock at a moment: a Date whose UTC fields are those of the zone.
 *
 * @param {number} ms
 */
export const wallClock = (ms) => new Date(ms + offsetAt(ms));

/**
 * The moment at which the wall clock shows a time, ms. Of an hour that is repeated, one of the two;
 * in an hour that is skipped, an hour before or after.
 *
 * @param {number} wall ms, as if the wall clock were UTC
 */
export function fromWallClock(wall) {
  const near = wall - offsetAt(wall);
  return wall - offsetAt(near);
}
