// The actions on messages, in words. Pure.

import { plural } from "../core/format.js";

/**
 * `verb` starts titles and buttons, `done` results. `operation`: what the broker must offer.
 *
 * @type {Record<string, any>}
 */
export const ACTIONS = {
  move: { verb: "Move", done: "Moved", operation: "move-messages", target: true },
  copy: { verb: "Copy", done: "Copied", operation: "copy-messages", target: true },
  deadLetter: { verb: "Send to dead-letter queue", done: "Moved", operation: "move-messages", path: "move" },
  retry: { verb: "Retry", done: "Returned", operation: "retry-messages" },
  delete: { verb: "Delete", done: "Deleted", operation: "delete-messages", danger: true },
};

/**
 * "Move 312 messages", "Delete at least 1,000 messages".
 *
 * @param {string} action
 * @param {number | null} count null: not known yet
 * @param {boolean} [complete] whether all messages were counted
 */
export function buttonText(action, count, complete = true) {
  const { verb } = ACTIONS[action];
  if (count === null) return verb;
  const number = complete ? plural(count, "message") : `at least ${plural(count, "message")}`;
  return action === "deadLetter" ? `Send ${number} to dead-letter queue` : `${verb} ${number}`;
}

/**
 * Skipped messages by reason, the most frequent first: [[reason, count]]. The last has those without a reason: of many
 * the API has the reasons of the first.
 *
 * @param {{skipped?: {why: string}[], skipped_messages?: number}} answer
 * @returns {[string, number][]}
 */
export function skippedByReason({ skipped = [], skipped_messages: all = skipped.length }) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  for (const { why } of skipped) counts.set(why, (counts.get(why) ?? 0) + 1);
  const found = [...counts].sort(([, a], [, b]) => b - a);
  return all > skipped.length ? [...found, ["", all - skipped.length]] : found;
}
