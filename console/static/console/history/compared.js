// What the comparison of queues shows: the answers of its queues, the measures, and the values of a series of the API.
// Pure.

import { amount, exactAmount, rate } from "../core/format.js";
import { recorded } from "./recorded_time.js";

/** @typedef {import("./recorded_time.js").Series} Series */

/**
 * Part of a queue's stop level, of the unit in which it is fuller; null: not known, or no stop level.
 *
 * @param {Series} series
 * @param {number} index
 */
function share(series, index) {
  const parts = ["messages", "bytes"]
    .map((unit) => [series[unit][index], series[`stop_${unit}`][index]])
    .filter(([depth, stop]) => depth !== null && stop)
    .map(([depth, stop]) => (depth / stop) * 100);
  return parts.length ? Math.max(...parts) : null;
}

/** @param {number} value */
const tenths = (value) => Math.round(value * 10) / 10;

/**
 * Name in the address -> title, title of the axis, value at an index of the series, and text of a value.
 *
 * @type {Record<string, {title: string, axis: string, at: (series: Series, index: number) => number | null,
 *   text: (value: number) => string}>}
 */
export const MEASURES = {
  messages: {
    title: "Depth, messages",
    axis: "Depth, messages",
    at: (series, index) => series.messages[index],
    text: (value) => exactAmount(Math.round(value), "messages"),
  },
  bytes: {
    title: "Depth, bytes",
    axis: "Depth, bytes",
    at: (series, index) => series.bytes[index],
    text: (value) => amount(Math.round(value), "bytes"),
  },
  share: {
    title: "Depth, % of the stop level",
    axis: "% of the stop level",
    at: share,
    text: (value) => `${tenths(value)}%`,
  },
  rate_in: {
    title: "In, messages/s",
    axis: "Messages/s in",
    at: (series, index) => series.rate_in[index],
    text: (value) => `${rate(value)} /s`,
  },
  rate_out: {
    title: "Out, messages/s",
    axis: "Messages/s out",
    at: (series, index) => series.rate_out[index],
    text: (value) => `${rate(value)} /s`,
  },
  blocked: {
    title: "Blocked producers",
    axis: "Blocked producers",
    at: (series, index) => series.blocked_producers[index],
    text: (value) => exactAmount(Math.round(value), "producers"),
  },
};

/**
 * The values of a measure for each point of a series; null: not known.
 *
 * @param {Series} series
 * @param {string} measure
 * @returns {(number | null)[]}
 */
export const valuesOf = (series, measure) =>
  series.at.map((/** @type {number} */ _, /** @type {number} */ index) => MEASURES[measure].at(series, index) ?? null);

/**
 * The last and the highest known value, as text; "–" without one.
 *
 * @param {(number | null)[]} values
 * @param {string} measure
 */
export function lastAndHighest(values, measure) {
  const known = /** @type {number[]} */ (values.filter((value) => value !== null));
  if (!known.length) return ["–", "–"];
  const { text } = MEASURES[measure];
  return [text(known[known.length - 1]), text(known.reduce((most, value) => Math.max(most, value), known[0]))];
}

/**
 * The recorded time of a series' range that episodes of overfull cover, ms. `until(episode)`: its known end.
 *
 * @param {any[]} episodes
 * @param {Series} series
 * @param {(episode: any) => number} until
 */
export const overfullTime = (episodes, series, until) =>
  episodes
    .flatMap((episode) => recorded(episode.start, until(episode), series))
    .reduce((all, [from, to]) => all + to - from, 0);

/**
 * What the API has answered for each queue, by object name: queues may be added and removed while a request is under
 * way. An answer is {series, overfull, blocked}.
 */
export class Answers {
  /** @type {Map<string, any>} */
  #answers = new Map();

  /**
   * Take the answers for `requested`, which may have other queues than `queues`, those shown now.
   *
   * @param {{object: string}[]} requested
   * @param {any[]} found one for each of `requested`
   * @param {{object: string}[]} queues
   * @returns {boolean} whether each of `queues` is among them; if not, load again
   */
  take(requested, found, queues) {
    const all = new Map(requested.map(({ object }, index) => [object, found[index]]));
    this.#answers = new Map(queues.flatMap(({ object }) => (all.has(object) ? [[object, all.get(object)]] : [])));
    return this.#answers.size === queues.length;
  }

  /**
   * Return the answer for a queue; undefined: there is none yet.
   *
   * @param {{object: string}} queue
   */
  of({ object }) {
    return this.#answers.get(object);
  }
}

/**
 * Return {run, tick}: `run` does `work`; `tick` does so unless a run is still under way. So a slow answer is neither
 * overtaken by the next tick nor followed by a queue of them.
 *
 * @param {() => any} work
 */
export function withTicks(work) {
  let running = 0;
  const run = async () => {
    running += 1;
    try {
      await work();
    } finally {
      running -= 1;
    }
  };
  return { run, tick: async () => (running ? undefined : run()) };
}
