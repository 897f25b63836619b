// The undo of a stop, as a plan: stops that the call made are lifted, and stops that it found and whose end it changed
// get the end again that they had; what others have changed since stays. Touches no element.

const CLIENTS = ["pattern", "user", "container_id", "link"];

/**
 * What an undo is about. `made`: the stops that the call made, as they were right after it, or only their object if
 * that is not known; `ends`: the stops whose end it changed; `lost`: staged starts that it replaced, which no undo
 * brings back.
 *
 * @typedef {{aim: any, effects?: string[], made: any[], ends: any[], lost: any[]}} Undo
 */

/**
 * Return what an undo of a stop is about.
 *
 * @param {any} sent arguments of the call
 * @param {any} answer
 * @returns {Undo}
 */
export function undoOf(sent, answer) {
  const { effects, ...aim } = sent;
  /** @type {any[]} */
  const before = answer.stops_before ?? [];
  const named = new Set(before.map((stop) => stop.object));
  const changed = new Set(answer.changed_queues ?? []);
  const found = sent.queues ? before.filter((stop) => changed.has(stop.object)) : answer.changed ? before : [];
  const made = sent.queues ? [...changed].filter((name) => !named.has(name)) : answer.changed ? [sent.scope] : [];
  const seen = new Map((answer.stops_made ?? []).map((/** @type {any} */ stop) => [stop.object, stop]));
  return {
    aim,
    ...(effects ? { effects } : {}),
    made: sent.queues || !before.length ? made.map((object) => seen.get(object) ?? { object }) : [],
    ends: found.filter((stop) => !stop.replaced),
    lost: found.filter((stop) => stop.replaced),
  };
}

/** @param {Undo} undo */
export const isUndoable = ({ made, ends }) => made.some((stop) => stop.since) || ends.some((stop) => stop.after);

/**
 * Return what an undo does now. Others can have lifted the stops meanwhile, stopped the scope again or changed the end:
 * these stops stay, and so do those of which it is not known how the call left them. A stop whose earlier end has
 * passed would not be in force any more: it is lifted.
 *
 * `lift`: the aim of a start, or null; `restore`: arguments of stops, one for each earlier end; `over`: the stops that
 * are lifted for their earlier end; `left`: number of stops that stay as they are.
 *
 * @param {Undo} undo
 * @param {any[]} stops in force
 * @param {number} now ms since the epoch
 */
export function planOf({ aim, effects, made, ends }, stops, now) {
  const mine = new Map(
    stops
      .filter((stop) => CLIENTS.every((name) => (stop[name] || "") === (aim[name] || "")))
      .map((stop) => [stop.object, stop]),
  );
  const still = made.filter((stop) => isAsLeft(mine.get(stop.object), stop));
  const found = ends.filter(({ object, since, after }) => isAsLeft(mine.get(object), after && { since, ...after }));
  const over = found.filter((stop) => stop.until && stop.until <= now);
  const lifted = [...still, ...over].map((stop) => stop.object);
  /** @type {Map<string, any[]>} */
  const byEnd = new Map();
  for (const stop of found.filter((each) => !over.includes(each) && !isSameEnd(each, mine.get(each.object)))) {
    const key = JSON.stringify([stop.until || 0, stop.below || 0]);
    byEnd.set(key, [...(byEnd.get(key) ?? []), stop]);
  }
  const only = (/** @type {string[]} */ names) => (aim.queues ? { ...aim, queues: names } : aim);
  return {
    lift: lifted.length ? only(lifted) : null,
    restore: [...byEnd.values()].map((same) => ({
      ...only(same.map((stop) => stop.object)),
      ...(effects ? { effects } : {}),
      ...endOf(same[0]),
    })),
    over,
    left: made.length - still.length + (ends.length - found.length),
  };
}

/**
 * The aim in the arguments of a call: scope, pattern and clients.
 *
 * @param {any} sent
 */
export const aimOfCall = (sent) =>
  Object.fromEntries(["scope", ...CLIENTS].filter((name) => sent[name]).map((name) => [name, sent[name]]));

/**
 * Return what an undo of a stop of several brokers does now: the brokers whose stop is lifted (`lift`), whose earlier
 * end is restored (`restore`), where the stop is as before already (`same`), whose stop is no longer that of the call
 * (`left`), and that do not say what is in force (`unread`).
 *
 * @param {any} sent arguments of the call, with its reason
 * @param {{broker: string, earlier: any, made: any}[]} calls brokers on which it made a stop or changed the end of an
 *   earlier one: the stop as it was right after the call is `made`, or that of `earlier` with `after`
 * @param {Map<string, any[]>} stops in force, of each broker that has answered
 * @param {number} now ms since the epoch
 */
export function planAcross(sent, calls, stops, now) {
  /** @type {{lift: string[], restore: string[], same: string[], left: string[], unread: string[]}} */
  const plan = { lift: [], restore: [], same: [], left: [], unread: [] };
  /** @param {string} broker @param {any} earlier @param {any} made */
  const wayOf = (broker, earlier, made) => {
    const there = stops.get(broker);
    if (!there) return "unread";
    const present = there.find(
      (stop) => stop.object === sent.scope && CLIENTS.every((name) => (stop[name] || "") === (sent[name] || "")),
    );
    if (!earlier) return isAsLeft(present, made) ? "lift" : "left";
    if (isAsLeft(present, earlier)) return "same";
    if (!isAsLeft(present, earlier.after && { since: earlier.since, ...earlier.after })) return "left";
    return earlier.until && earlier.until <= now ? "lift" : "restore";
  };
  for (const { broker, earlier, made } of calls) plan[wayOf(broker, earlier, made)].push(broker);
  return plan;
}

/**
 * Return the stop of a broker that did not answer in time, if it can only be that of the call: none of this scope was
 * in force before, and this one has the reason and the end that were requested. Otherwise null.
 *
 * @param {any} sent arguments of the call, with its reason
 * @param {any} result of the broker
 * @param {any} seen stop that the broker shows since
 */
export function madeUnseen({ reason, for_ms, below }, result, seen) {
  if (result.earlier !== null || seen?.reason !== reason) return null; // undefined: not known whether there was one
  return isSameEnd(seen, { until: for_ms ? seen.since + for_ms : null, below }) ? seen : null;
}

const OF_STOP = ["object", ...CLIENTS];
/** What the reason of a call that undoes another begins with. */
export const UNDO = "undo: ";

/**
 * Return those of the shown stops that are in force as they were shown: of the same call, with the same end.
 *
 * @param {any[]} shown
 * @param {any[]} stops in force
 */
export const asShown = (shown, stops) =>
  shown.filter((stop) => {
    const present = stops.find((each) => isSameScope(each, stop));
    return isAsLeft(present, stop) && present.reason === stop.reason;
  });

/**
 * Return the end that each of these stops in force had before its last change that is not undone; null: nothing has
 * changed it since it was made; undefined: not known, since the trail lacks its beginning or its last change.
 *
 * @param {any[]} stops
 * @param {any[]} entries of the audit trail about stops of their scopes, the newest first
 */
export function earlierEnds(stops, entries) {
  // Thousands of queues can have been stopped by one call: each list of stops is read once.
  const changes = [...entries].reverse().map(({ before, after, reason }) => ({
    was: byScope(before),
    is: byScope(after),
    undoes: Boolean(reason?.startsWith(UNDO)),
  }));
  return stops.map((stop) => earlierEnd(stop, changes));
}

/**
 * @param {any} stop
 * @param {{was: Map<string, any>, is: Map<string, any>, undoes: boolean}[]} changes the oldest first
 */
function earlierEnd(stop, changes) {
  if (stop.halted) return null; // the start was halted, not the end changed
  const key = scopeKey(stop);
  /** @type {any[]} */
  let ends = [undefined]; // before each change, the last one last; the first: null of a known beginning, or undefined
  /** @type {any} */
  let last = null; // the stop as the trail has it
  for (const change of changes) {
    const [was, is] = [change.was.get(key), change.is.get(key)].map((one) => (one?.since === stop.since ? one : null));
    if (!is) continue;
    if (!was || was.stage || was.halted) ends = [null];
    else {
      if (last && !isSameEnd(last, was)) ends = [undefined]; // something else has changed it in between
      if (!isSameEnd(was, is)) {
        if (!change.undoes) ends.push({ until: was.until, below: was.below });
        else if (!isSameEnd(ends.pop() ?? {}, is) || !ends.length) ends = [undefined];
      }
    }
    last = is;
  }
  return last && isSameEnd(last, stop) ? ends.at(-1) : undefined;
}

/**
 * Return what an undo of the last change of these stops does; null: nothing, since an earlier end is not known. A stop
 * without an earlier end, or whose earlier end has passed, is lifted.
 *
 * @param {any[]} stops
 * @param {any[]} ends that they had before, see `earlierEnds`
 * @param {number} now ms since the epoch
 * @returns {{lift: any[], restore: {stops: any[], end: any}[]} | null}
 */
export function planOfLast(stops, ends, now) {
  if (ends.includes(undefined)) return null;
  /** @type {Map<string, {stops: any[], end: any}>} */
  const restore = new Map();
  const lift = [];
  for (const [index, stop] of stops.entries()) {
    const end = ends[index];
    if (!end || (end.until && end.until <= now)) lift.push(stop);
    else {
      const key = JSON.stringify([end.until || 0, end.below || 0]);
      if (!restore.has(key)) restore.set(key, { stops: [], end: endOf(end) });
      restore.get(key)?.stops.push(stop);
    }
  }
  return { lift, restore: [...restore.values()] };
}

/**
 * Join lists of entries of the audit trail, the newest first. A list that ends early has no older ones: those of the
 * others would miss what came between.
 *
 * @param {{count: number, results: any[]}[]} pages
 */
export function joined(pages) {
  const cut = pages
    .filter(({ count, results }) => count > results.length)
    .map(({ results }) => results.at(-1)?.id ?? 0);
  const first = Math.max(0, ...cut);
  return pages
    .flatMap(({ results }) => results)
    .filter(({ id }) => id >= first)
    .sort((one, other) => other.id - one.id);
}

/** @param {any} stop */
const scopeKey = (stop) => JSON.stringify(OF_STOP.map((name) => stop[name] || ""));

/** @param {any} attributes of an object in an entry of the audit trail */
const byScope = (attributes) =>
  new Map((attributes?.stops ?? []).map((/** @type {any} */ stop) => [scopeKey(stop), stop]));

/** @param {any} one @param {any} other */
const isSameScope = (one, other) => OF_STOP.every((name) => (one[name] || "") === (other[name] || ""));

/**
 * The arguments of a stop that give it this end.
 *
 * @param {any} end
 */
export const endOf = ({ until, below }) => ({ ...(until ? { until } : {}), ...(below ? { below } : {}) });

/** An end that was set again is later by the time that the call took, since brokers take the time until it, ms. */
const LATER = 2_000;

/**
 * Whether a stop in force is still the one that it was: not made again, nor ended in stages, nor with another end.
 *
 * @param {any} present
 * @param {any} stop as it was, or null if that is not known
 */
const isAsLeft = (present, stop) =>
  Boolean(stop?.since) &&
  present?.since === stop.since &&
  Boolean(present.stage) === Boolean(stop.stage) &&
  isSameEnd(present, stop);

/**
 * @param {any} one
 * @param {any} other
 */
function isSameEnd(one, other) {
  const [end, another] = [one, other].map((each) => each?.until || 0);
  const same = end && another ? Math.abs(end - another) <= LATER : end === another;
  return same && (one.below || 0) === (other?.below || 0);
}
