// Operator stops as text: one line for each, with buttons to start the producers, and to undo the stop at once.

import { get, objectPath, post, query } from "../core/api.js";
import { h, icon } from "../core/elements.js";
import { clock, duration, exact, plural } from "../core/format.js";
import { hostOf, isolated, scopeInWords, shortName } from "../core/object_names.js";
import { acting } from "../core/permissions.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { sinceElement, untilElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { aimOf, aimOfQueues, openStopDialog } from "./stop_dialog.js";
import { asShown, earlierEnds, joined, planOfLast, UNDO } from "./stop_undo.js";
import { groupStops } from "./stops_in_force.js";

const NAMED = 20; // queues in the tooltip of a group
const BROKER = "type=Broker";
const ENTRIES = 100; // of the audit trail, in which the last change of a stop is searched
const DOUBLINGS = 5; // of a staged start's rate, until it is removed

/**
 * "queue stock.eu is at 65%, above 60%"
 *
 * @param {any} halted
 */
export const haltInWords = (halted) => {
  const queue = halted.queue ? `queue ${isolated(shortName(halted.queue))}` : "a queue";
  return `${queue} is at ${halted.percent}%, above ${halted.limit}%`;
};

/**
 * Steps of a staged start that have passed by now.
 *
 * @param {any} stage
 */
export const stepsOf = (stage) => Math.max(0, Math.floor((serverNow() - stage.since) / stage.step_ms));

/**
 * When a stop ends: text and a countdown.
 *
 * @param {any} stop
 */
export function endOf(stop) {
  const ends = [];
  if (stop.until) ends.push(["in ", untilElement(stop.until)]);
  if (stop.below) ends.push([`at a depth of ${stop.below}%`]);
  return ends.length
    ? [" Resumes automatically ", ...ends.flatMap((end, index) => (index ? [" or ", ...end] : end)), "."]
    : [];
}

/**
 * Return one line for each stop, at most `most`: scope, reason, user, duration, end, and buttons to start producers.
 *
 * @param {any[]} stops
 * @param {any} most
 */
export function stopLines(stops, most) {
  const entries = groupStops(stops);
  const lines = entries.slice(0, most).map((group) => {
    const [stop] = group;
    const what = group.length > 1 ? `${exact(group.length)} queues` : scopeInWords(stop.scope);
    const names =
      group.length > 1
        ? group
            .slice(0, NAMED)
            .map((/** @type {any} */ each) => scopeInWords(each.scope))
            .join(", ")
        : null;
    return h(
      "p",
      {},
      h("strong", { title: names }, headOf(stop, what)),
      stop.stage ? pace(stop.stage) : null,
      ...whyOf(stop),
      stop.object ? buttons(group) : null,
    );
  });
  if (entries.length > most) lines.push(h("p", { class: "muted" }, `${plural(entries.length - most, "more stop")}`));
  return lines;
}

/** @param {any} group */
function buttons(group) {
  const [stop] = group;
  /**
   * @param {any} action
   * @param {string} text
   */
  const button = (action, text) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet lift",
        ...acting("operate", hostOf(stop.object)),
        on: { click: () => lift(group, action) },
      },
      icon(action),
      text,
    );
  const undo = h(
    "button",
    {
      type: "button",
      class: "quiet lift undo",
      title: "Remove this stop, and no other, at once; or give it the end again that it had before the last change",
      ...acting("operate", hostOf(stop.object)),
      on: { click: (/** @type {any} */ event) => undoStop(group, event.currentTarget) },
    },
    "Undo",
  );
  return [
    " ",
    stop.stage ? null : undo,
    button("start", stop.stage ? "Remove throttle" : "Start again…"),
    stop.stage ? button("stop", "Stop again") : null,
  ];
}

/**
 * Undo the last change of the stops of a group, and of no others: they are removed, or get the end again that each had
 * before. What has been changed since it was shown stays; without a known earlier end nothing is changed. The message
 * offers to stop again.
 *
 * @param {any[]} group
 * @param {HTMLButtonElement} button
 */
async function undoStop(group, button) {
  const reason = `${UNDO}${group[0].reason || "stop"}`;
  button.disabled = true;
  try {
    const { attributes } = await get(objectPath(settings.broker, "type=Broker"));
    const still = asShown(group, attributes.stops ?? []);
    const plan = planOfLast(still, await endsBefore(still), serverNow());
    if (plan) {
      for (const { stops, end } of plan.restore) await restore(stops, end, reason);
      const lifted = plan.lift.length > 0 && (await removed(plan.lift, reason));
      if (!still.length || (plan.lift.length && !lifted))
        toast(`${nameOf(group)}: this stop is no longer in force, or was changed meanwhile.`);
      else if (still.length < group.length)
        toast(`${plural(group.length - still.length, "stop")} no longer in force, or changed meanwhile.`);
    } else toast(`${nameOf(group)}: The earlier end is not known: use “Start again…”.`, "error");
  } catch (error) {
    toast(`Undo failed: ${error.message}`, "error");
  }
  button.disabled = false;
}

/** @param {any[]} group */
const nameOf = (group) => aimOfLine(group).label ?? scopeInWords(group[0].scope);

/**
 * Give stops an earlier end again, with the effects that their call confirmed.
 *
 * @param {any[]} stops
 * @param {any} end
 * @param {string} reason
 */
async function restore(stops, end, reason) {
  const { label, only, ...aim } = aimOfLine(stops);
  const effects = [...new Set(stops.map(({ effect }) => effect).filter((effect) => effect && effect !== "hold"))];
  await post("stop-producers/", { ...aim, ...end, ...(effects.length ? { effects } : {}), reason });
  const words = Object.keys(end).length ? "has its earlier end again" : "has no automatic end, as before";
  toast(`${nameOf(stops)}: the stop ${words}.`);
}

/**
 * Remove stops, and say so. Returns whether there was one.
 *
 * @param {any[]} stops
 * @param {string} reason
 */
async function removed(stops, reason) {
  const { label, ...aim } = aimOfLine(stops);
  const { changed } = await post("start-producers/", { ...aim, reason });
  if (changed)
    toast(`${nameOf(stops)}: stop undone.`, "done", ["Stop again…", () => openStopDialog("stop", aimOfLine(stops))]);
  return changed;
}

/**
 * Return the end that each of these stops had before its last change; undefined: not known, see `earlierEnds`.
 *
 * @param {any[]} stops of a group
 */
async function endsBefore(stops) {
  const filters = { broker: settings.broker, operation: "stop-producers", outcome: "done" };
  // A queue is stopped by its name, or as one of several of the broker. Of many queues one request reads the entries.
  const [stop] = stops;
  const objects =
    stops.length > 1 ? [""] : stop?.object.startsWith("type=Queue") ? [stop.object, BROKER] : [stop?.object];
  try {
    const pages = await Promise.all(
      stops.length ? objects.map((object) => get(`audit/${query({ ...filters, object, page_size: ENTRIES })}`)) : [],
    );
    const named = new Set([BROKER, ...stops.map(({ object }) => object)]);
    const entries = joined(pages).filter(({ object }) => named.has(object));
    return earlierEnds(stops, entries);
  } catch {
    return stops.map(() => undefined);
  }
}

/** @param {any[]} group @returns {any} */
const aimOfLine = (group) => (group.length > 1 ? aimOfQueues(group) : aimOf(group[0]));

/**
 * @param {any} group
 * @param {any} action
 */
const lift = (group, action) => openStopDialog(action, aimOfLine(group));

/**
 * @param {any} stop
 * @param {any} what
 */
function headOf(stop, what) {
  if (stop.halted) return `The staged start of ${what} halted`;
  return `Producers of ${what} are ${stop.stage ? "being started in stages" : "stopped"}`;
}

/**
 * Return reason, user and duration; for a staged start its own and not those of the stop that it ends.
 *
 * @param {any} stop
 */
function whyOf(stop) {
  /** @param {...any} content */
  const by = (...content) => h("span", { class: "by" }, ...content);
  if (stop.halted) {
    const { actor, reason, since } = stop.halted;
    return [
      `: ${haltInWords(stop.halted)}. The producers are stopped again`,
      by(
        ", for ",
        sinceElement(stop.since),
        `. Started by ${actor || "an unknown user"} at ${clock(since)}${reason ? `: ${reason}` : ""}.`,
      ),
    ];
  }
  const { reason, actor, since } = stop.stage ?? stop;
  return [
    reason ? `: ${reason}` : "",
    by(` – ${actor || "an unknown user"}, for `, sinceElement(since), ".", stop.stage ? null : endOf(stop)),
  ];
}

/**
 * Return the current rate of a staged start and its halt condition.
 *
 * @param {any} stage
 */
function pace(stage) {
  return (
    ` (${exact(stage.rate * 2 ** Math.min(stepsOf(stage), DOUBLINGS))} messages/s into each queue, ` +
    `doubled every ${duration(stage.step_ms)}${stage.halt ? `; halts above ${stage.halt}%` : ""})`
  );
}
