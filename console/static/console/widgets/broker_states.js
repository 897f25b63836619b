// The connection of a broker: each state has a word and a shape, so that colour is not the only sign.

import { fill, h, icon } from "../core/elements.js";

/** @type {Record<string, [string, string]>} */
const STATES = {
  connected: ["Connected", "normal"],
  connecting: ["Connecting…", "waiting"],
  disconnected: ["Disconnected", "close"],
  paused: ["Paused", "stop"],
};

/** @param {string} state */
export const connectionWord = (state) => (STATES[state] ?? [state])[0];

/**
 * Show the state in an element; touches it only if it changed.
 *
 * @param {HTMLElement} element
 * @param {string} state
 */
export function setConnection(element, state) {
  if (element.dataset.connection === state) return;
  element.dataset.connection = state;
  const [word, shape] = STATES[state] ?? [state, "info"];
  fill(element, icon(shape), h("span", {}, word));
}
