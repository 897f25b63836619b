// The brokers of a stop or start in its dialog: what it does on each, and which of them it is for.

import { fill, h } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { effectWord } from "./stop_effects.js";

/**
 * The list of brokers. `show(entries)`: their previews; `selected()`: the previews of those that are selected.
 *
 * @param {any} action
 * @param {string[]} wanted slugs that are selected at first; "*": all
 * @param {() => void} changed
 */
export function brokerFields(action, wanted, changed) {
  const list = h("ul", { class: "stop-brokers" });
  const all = h("button", { type: "button", class: "quiet", on: { click: () => toggle() } }, "Select none");
  const element = h("fieldset", { class: "stop-choice" }, h("legend", {}, "Brokers"), list, all);
  /** @type {Set<string>} */
  const left = new Set(); // deselected
  /** @type {any[]} */
  let able = [];
  const update = () => {
    all.textContent = left.size ? "Select all" : "Select none";
    all.hidden = able.length < 3;
    changed();
  };
  const toggle = () => {
    const none = left.size > 0;
    for (const { broker } of able) none ? left.delete(broker) : left.add(broker);
    for (const box of list.querySelectorAll("input")) box.checked = none;
    update();
  };
  /** @param {any} entry */
  const row = (entry) => {
    const box = h("input", { type: "checkbox", checked: !left.has(entry.broker) });
    box.addEventListener("change", () => {
      box.checked ? left.delete(entry.broker) : left.add(entry.broker);
      update();
    });
    const usable = !entry.error && !entry.cannot;
    return h(
      "li",
      { class: usable ? null : "unusable" },
      usable
        ? h("label", { class: "sure" }, box, h("span", {}, entry.title))
        : h("span", { class: "no-box" }, entry.title),
      usable && action === "stop" ? h("span", { class: `effect ${entry.effect}` }, effectWord(entry.effect)) : null,
      h("span", { class: "muted broker-facts" }, facts(action, entry)),
    );
  };
  /** @param {any[]} entries */
  const show = (entries) => {
    able = entries.filter((each) => !each.error && !each.cannot);
    if (!wanted.includes("*")) for (const { broker } of able) if (!wanted.includes(broker)) left.add(broker);
    wanted = ["*"]; // only at first
    fill(list, entries.map(row));
    update();
  };
  return { element, show, selected: () => able.filter((each) => !left.has(each.broker)) };
}

/**
 * @param {any} action
 * @param {any} entry
 */
function facts(action, entry) {
  if (entry.error) return `Not connected: nothing will be done there. ${sentence(entry.error)}`;
  if (entry.cannot) return `Cannot be ${action === "stop" ? "stopped" : "started"}: ${sentence(entry.cannot)}`;
  return [
    plural(entry.queues, "queue"),
    entry.producers === null
      ? "producers not known"
      : `${entry.at_least.includes("producers") ? "at least " : ""}${plural(entry.producers, "producer")}`,
    entry.already_stopped ? `${exact(entry.already_stopped)} ${action === "stop" ? "already stopped" : "stopped"}` : "",
    action === "stop" && entry.unstoppable ? `${exact(entry.unstoppable)} cannot be stopped` : "",
  ]
    .filter(Boolean)
    .join(", ");
}

/** @param {string} text */
export const sentence = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);
