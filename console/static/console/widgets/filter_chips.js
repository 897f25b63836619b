// Chips that filter a table of queues: by state (any of those chosen), and quick filters (all of those chosen).

import { byId, h, icon } from "../core/elements.js";
import { settings } from "../core/settings.js";
import { stateWord } from "./states.js";

/**
 * What the quick filters of the server show: label and explanation.
 *
 * @type {Record<string, [string, string]>}
 */
const QUICK = {
  blocked: ["Blocked", "Queues with blocked producers"],
  "nearly-full": ["Nearly full", "Queues at 80% of their stop level, or above"],
  "no-consumers": ["No consumers", "Queues without a consumer"],
};

/** @param {string} name */
export const quickWord = (name) => (QUICK[name] ?? [name])[0];

export class FilterChips {
  #view;
  /** @type {[string, HTMLInputElement][]} */
  #boxes = [];

  /**
   * `view`: has the chosen `states` and quick filters `only`; `changed()` is called after a click.
   *
   * @param {{states: Set<string>, only: Set<string>}} view
   * @param {() => void} changed
   */
  constructor(view, changed) {
    this.#view = view;
    for (const state of settings.states) {
      const shape = icon(state.toLowerCase().replace("_", "-"));
      byId("states").append(this.#chip("states", state, changed, shape, h("span", {}, stateWord(state))));
    }
    for (const name of settings.quickFilters) {
      const [label, title] = QUICK[name];
      const chip = this.#chip("only", name, changed, h("span", {}, label));
      chip.title = title;
      byId("quick").append(chip);
    }
  }

  /** Show what the view has. */
  show() {
    for (const [of, box] of this.#boxes) box.checked = this.#view[/** @type {"states" | "only"} */ (of)].has(box.value);
  }

  /**
   * @param {"states" | "only"} of
   * @param {string} value
   * @param {() => void} changed
   * @param {...any} children
   */
  #chip(of, value, changed, ...children) {
    const chosen = this.#view[of];
    const box = h("input", { type: "checkbox", value, checked: chosen.has(value) });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(value);
      else chosen.delete(value);
      changed();
    });
    this.#boxes.push([of, box]);
    return h("label", { class: "chip", data: of === "states" ? { state: value } : { quick: value } }, box, ...children);
  }
}
