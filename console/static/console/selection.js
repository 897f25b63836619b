// Queues that are picked one by one, or all that the filter leaves: what to do with them.

import { fill, h, icon } from "./elements.js";
import { count, plural } from "./format.js";
import { may } from "./frame.js";
import { openSaveDialog } from "./saved_selections.js";
import { openStopDialog } from "./stops.js";

const BROKER = "type=Broker";

export class Selection {
  #bar;
  #picked = new Set();
  #matching = null; // {search, states, total} while a filter is on
  #shown = "";
  #saved;

  /** `bar`: the element to show the actions in; `saved(selection)`: it was saved under a name. */
  constructor(bar, saved) {
    this.#bar = bar;
    this.#saved = saved;
  }

  /** A box that picks a queue. */
  box(object, name) {
    const box = h("input", { type: "checkbox", class: "pick", value: object, "aria-label": `Select ${name}`, checked: this.#picked.has(object) });
    box.addEventListener("change", () => {
      if (box.checked) this.#picked.add(object);
      else this.#picked.delete(object);
      this.#show();
    });
    return box;
  }

  /** The filter in force and how many queues it leaves; null: none. */
  filtered(matching) {
    this.#matching = matching;
    this.#show();
  }

  clear() {
    this.pick([]);
  }

  /** Pick these queues and no others. */
  pick(objects) {
    this.#picked = new Set(objects);
    for (const box of document.querySelectorAll("input.pick")) box.checked = this.#picked.has(box.value);
    this.#show();
  }

  #show() {
    const picked = this.#picked.size;
    const matching = picked ? null : this.#matching;
    const text = JSON.stringify([picked, matching]);
    if (text === this.#shown) return;
    this.#shown = text;
    this.#bar.hidden = !picked && !matching?.total;
    if (this.#bar.hidden) return;
    const label = picked ? plural(picked, "selected queue") : plural(matching.total, "queue");
    const act = (action) => () => openStopDialog(action, picked ? { scope: BROKER, queues: [...this.#picked], label } : { scope: BROKER, match: { search: matching.search, states: matching.states }, label });
    const disabled = may("operate") ? null : "true";
    fill(this.#bar, h("span", {}, picked ? `${count(picked)} selected` : `${count(matching.total)} ${matching.total === 1 ? "queue matches" : "queues match"}`),
      h("button", { type: "button", class: "danger", "aria-disabled": disabled, on: { click: act("stop") } }, icon("stop"), "Stop their producers"),
      h("button", { type: "button", "aria-disabled": disabled, on: { click: act("start") } }, icon("start"), "Start their producers"),
      h("button", { type: "button", class: "quiet", on: { click: () => openSaveDialog(picked ? { queues: [...this.#picked].sort() } : { search: matching.search, states: matching.states }, this.#saved) } }, "Save…"),
      picked ? h("button", { type: "button", class: "quiet", on: { click: () => this.clear() } }, "Clear") : null);
  }
}
