// The impact of a stop or start in its dialog: producers and queues, and what cannot be stopped or is not known.

import { h } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { shortName } from "../core/object_names.js";

/**
 * Return the number of producers in words; what is not known is not counted as 0.
 *
 * @param {any} answer
 */
export const producersOf = (answer) =>
  answer.producers === null || answer.producers === undefined
    ? "the producers"
    : `${answer.at_least?.includes("producers") ? "at least " : ""}${plural(answer.producers, "producer")}`;

/**
 * Return the preview of several brokers restricted to the selected ones: sums of what is known.
 *
 * @param {any[]} entries
 */
export function previewOf(entries) {
  /** @param {string} name */
  const sum = (name) => {
    const known = entries.map((each) => each[name]).filter((value) => value !== null && value !== undefined);
    return known.length || !entries.length ? known.reduce((total, value) => total + value, 0) : null;
  };
  const whole = entries.every((each) => each.producers !== null && !each.at_least.includes("producers"));
  const used = entries.map((each) => each.percent_used).filter((value) => value !== null);
  return {
    brokers: entries,
    queues: sum("queues"),
    producers: sum("producers"),
    at_least: whole ? [] : ["producers"],
    already_stopped: sum("already_stopped"),
    none_stopped: entries.every((each) => each.none_stopped),
    unstoppable: sum("unstoppable"),
    percent_used: used.length ? Math.max(...used) : null,
  };
}

/**
 * @param {any} action
 * @param {any} answer
 */
export function previewLines(action, answer) {
  if (action === "start" && answer.none_stopped && answer.queues && !answer.cannot) return nothingToStart(answer);
  const verb = action === "stop" ? "stops" : "starts";
  /** @type {HTMLElement[]} */
  const lines = [
    h(
      "p",
      { class: "preview-count" },
      `This ${verb} `,
      h("strong", {}, producersOf(answer)),
      " of ",
      h("strong", {}, plural(answer.queues, "queue")),
      answer.brokers ? ` on ${plural(answer.brokers.length, "broker")}.` : ".",
      answer.producers === null ? " How many producers they have is not known." : null,
    ),
  ];
  const note = (/** @type {string} */ text) => lines.push(h("p", { class: "muted" }, text));
  if (answer.already_stopped)
    note(
      action === "stop"
        ? `${plural(answer.already_stopped, "queue is", "queues are")} already stopped.`
        : `${plural(answer.already_stopped, "queue is", "queues are")} stopped now.`,
    );
  if (action === "stop" && answer.unstoppable)
    note(`${plural(answer.unstoppable, "queue", "queues")} cannot be stopped: the producers go on.`);
  if (answer.cannot) lines.push(h("p", { class: "wrong" }, `This cannot be done: ${answer.cannot}.`));
  if (action === "stop" && answer.percent_used !== null && answer.percent_used !== undefined)
    note(`Highest depth: ${exact(answer.percent_used)}% of the capacity.`);
  if (answer.largest?.length && !answer.brokers) lines.push(largest(answer));
  return lines;
}

/**
 * Say that no stop is in force there, where a start would look like the way to release blocked producers.
 *
 * @param {any} answer
 */
function nothingToStart(answer) {
  const none = answer.queues === 1 ? "this queue is not" : `none of ${plural(answer.queues, "queue")} is`;
  return [
    h("p", { class: "preview-count" }, `Nothing to start: ${none} stopped.`),
    h(
      "p",
      { class: "muted" },
      "Producers that an overfull queue blocks continue when the queue has drained to its resume level.",
    ),
  ];
}

/** @param {any} answer */
const largest = (answer) =>
  h(
    "ul",
    { class: "preview-largest" },
    answer.largest.map((/** @type {any} */ queue) =>
      h(
        "li",
        {},
        h("span", {}, queue.name ?? shortName(queue.object ?? "")),
        h("span", { class: "muted" }, queue.producers === null ? "–" : plural(queue.producers, "producer")),
      ),
    ),
    answer.queues > answer.largest.length
      ? h("li", { class: "muted" }, `${exact(answer.queues - answer.largest.length)} more`)
      : null,
  );
