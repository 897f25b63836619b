// The states of queues and producers: a word, a shape and a colour each, so that none is told by colour alone.

import { fill, h, icon } from "./elements.js";

const QUEUE = {
  NORMAL: ["Normal", "normal"],
  OVERFULL: ["Overfull", "overfull"],
  STOPPED: ["Stopped", "stopped"],
  OVERFULL_STOPPED: ["Overfull, stopped", "overfull-stopped"],
};
const PRODUCER = { RUNNING: ["Running", "running"], BLOCKED: ["Blocked", "blocked"] };

export const stateWord = (state) => (QUEUE[state] ?? PRODUCER[state] ?? [state])[0];

/** Show `state` in an element of class "state"; touches it only if it changed. */
export function setState(element, state) {
  if (element.dataset.state === state) return;
  element.dataset.state = state;
  const [word, shape] = QUEUE[state] ?? PRODUCER[state] ?? [state, "info"];
  fill(element, icon(shape), h("span", {}, word));
}

export function stateElement(state) {
  const element = h("span", { class: "state" });
  setState(element, state);
  return element;
}
