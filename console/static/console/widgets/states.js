// The states of queues and producers: each has a word, a shape and a colour, so that colour is not the only sign.

import { fill, h, icon } from "../core/elements.js";

/** @type {Record<string, any>} */
const QUEUE = {
  NORMAL: ["Normal", "normal"],
  OVERFULL: ["Overfull", "overfull"],
  STOPPED: ["Stopped", "stopped"],
  OVERFULL_STOPPED: ["Overfull, stopped", "overfull-stopped"],
  STARTING: ["Staged start", "start"],
};
/** @type {Record<string, any>} */
const PRODUCER = {
  RUNNING: ["Running", "running"],
  WAITING: ["Waiting for credit", "waiting"],
  BLOCKED: ["Blocked", "blocked"],
};

/** @param {any} state */
export const stateWord = (state) => (QUEUE[state] ?? PRODUCER[state] ?? [state])[0];

/**
 * Show `state` in an element of class "state"; touches it only if it changed. `starting`: a queue whose producers are
 * being started in stages.
 *
 * @param {HTMLElement} element
 * @param {any} state
 * @param {boolean} [starting]
 */
export function setState(element, state, starting = false) {
  const shown = starting && state === "NORMAL" ? "STARTING" : state;
  if (element.dataset.state === shown) return;
  element.dataset.state = shown;
  const [word, shape] = QUEUE[shown] ?? PRODUCER[shown] ?? [shown ?? "Not known", "info"];
  fill(element, icon(shape), h("span", {}, word));
}

/** @param {any} state */
export function stateElement(state) {
  const element = h("span", { class: "state" });
  setState(element, state);
  return element;
}
