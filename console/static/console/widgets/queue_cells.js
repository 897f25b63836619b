// The cells of a queue in a table of queues, as the overview and the page of all brokers show it.

import { setAttribute, setText } from "../core/elements.js";
import { count, exact, exactAmount, rate } from "../core/format.js";
import { setSince } from "../core/times.js";
import { setDepth } from "./depth.js";
import { setState } from "./states.js";

/**
 * Show a queue in its cells. `state`, `depth` and `since` are the elements in the cells; the cell `blocked` has a link
 * to the page with the reasons, and a text for queues without.
 *
 * @param {Record<"state" | "depth" | "blocked" | "consumers" | "rateIn" | "rateOut" | "unacknowledged" | "since",
 *   any>} cells
 * @param {any} queue
 */
export function showQueue({ state, depth, blocked, consumers, rateIn, rateOut, unacknowledged, since }, queue) {
  setState(state, queue.state, queue.starting);
  setDepth(depth, queue);
  // If producers are blocked, the number links to the page with the reasons.
  const blocking = queue.blocked_producers > 0 || queue.state !== "NORMAL";
  blocked.firstChild.hidden = !blocking;
  blocked.lastChild.hidden = blocking;
  setText(
    blocking ? blocked.firstChild : blocked.lastChild,
    `${count(queue.blocked_producers)} / ${count(queue.producers)}`,
  );
  setAttribute(
    blocked.firstChild,
    "aria-label",
    blocking
      ? `${count(queue.blocked_producers)} of ${count(queue.producers)} producers blocked: why ${queue.name} is blocked`
      : null,
  );
  setAttribute(blocked, "title", `${blockedTitle(queue)}${blocking ? ". Why?" : ""}`);
  blocked.classList.toggle("hot", queue.blocked_producers > 0);
  setText(consumers, count(queue.consumers));
  const unconsumed = queue.consumers === 0 && queue.depth_messages > 0;
  consumers.classList.toggle("hot", unconsumed);
  setAttribute(consumers, "title", unconsumed ? "No consumers for the queued messages" : null);
  setText(rateIn, rate(queue.rate_in));
  setText(rateOut, rate(queue.rate_out));
  setText(unacknowledged, count(queue.unacknowledged_messages));
  setSince(since, earliest(queue.overfull_since, queue.stopped_since));
}

/** @param {...any} times */
const earliest = (...times) => {
  const known = times.filter((time) => time !== null && time !== undefined);
  return known.length ? Math.min(...known) : null;
};

/** @param {any} queue */
function blockedTitle(queue) {
  const text = `${exactAmount(queue.blocked_producers, "producers")} blocked, of ${exact(queue.producers)}`;
  return queue.draining_producers ? `${text}; ${exact(queue.draining_producers)} draining` : text;
}
