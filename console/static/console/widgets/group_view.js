// How the table of queues is grouped, and the lines of its groups and queues. Pure.

import { exact } from "../core/format.js";

const MOST_TOGGLED = 100; // groups; a message to the server has a limit

/** @typedef {{by: string, collapsed: boolean, toggled: Set<string>}} GroupView */

/**
 * Return how a table is grouped, by preferences and the groups that were toggled in this view of it.
 *
 * @param {Record<string, any>} preferences
 * @param {string[]} [toggled]
 * @returns {GroupView}
 */
export const groupView = (preferences, toggled = []) => ({
  by: preferences.group_by === "none" ? "" : (preferences.group_by ?? ""),
  collapsed: preferences.groups !== "expanded",
  toggled: new Set(toggled),
});

/**
 * Expand a collapsed group, or collapse an expanded one. Of very many, the one that was toggled first is reset.
 *
 * @param {GroupView} view is changed
 * @param {string} name
 */
export function toggle({ toggled }, name) {
  if (toggled.delete(name)) return;
  toggled.add(name);
  for (const first of toggled) {
    if (toggled.size <= MOST_TOGGLED) break;
    toggled.delete(first);
  }
}

/**
 * Return what the message that watches the table says about groups.
 *
 * @param {GroupView} view
 */
export const watched = ({ by, collapsed, toggled }) => (by ? { group: by, collapsed, toggled: [...toggled] } : {});

/**
 * Return the lines of a table: each group, followed by its queues on this page. Without groups, the queues.
 *
 * @param {any[] | undefined} groups
 * @param {any[]} queues
 * @param {(queue: any) => string} [keyOf] the key of a queue's line
 * @returns {{key: string, group?: any, queue?: any}[]}
 */
export function linesOf(groups, queues, keyOf = (queue) => queue.object) {
  const lines = (/** @type {any[]} */ some) => some.map((queue) => ({ key: keyOf(queue), queue }));
  if (!groups) return lines(queues);
  return groups.flatMap((group) => [
    { key: `\n${group.name}`, group }, // no slug of a broker and no name of an object begins so
    ...lines(queues.filter((queue) => queue.of_group === group.name)),
  ]);
}

/**
 * Return how many of a group's queues are overfull and stopped, in words; of unknown states what is known. None are
 * named only if that is known.
 *
 * @param {any} group
 */
export function troubleOf(group) {
  /** @type {string[]} */
  const known = [];
  /** @type {string[]} */
  const unknown = [];
  for (const [name, word] of [
    ["overfull_queues", "overfull"],
    ["stopped_queues", "stopped"],
  ]) {
    const partial = group.partial.includes(name);
    if (group[name]) known.push(`${partial ? "at least " : ""}${exact(group[name])} ${word}`);
    else if (partial || group[name] === null) unknown.push(word);
  }
  return [...known, ...(unknown.length ? [`${unknown.join(" and ")}: not known`] : [])].join(", ");
}
