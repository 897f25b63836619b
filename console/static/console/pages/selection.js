// The selected queues, or those that match the filter, with actions for them.

import { fill, findAll, h, icon } from "../core/elements.js";
import { count, plural } from "../core/format.js";
import { may } from "../core/permissions.js";
import { inWords, openSaveDialog } from "../widgets/saved_selections.js";
import { openStopDialog } from "../widgets/stop_dialog.js";

const BROKER = "type=Broker";
const COMPARED = 8; // queues in one chart
const HINT = "Select queues or filter them to stop, start or save several."; // as in the template

/**
 * Return a link to the chart of the selected queues, which says why there is none of more.
 *
 * @param {string[]} objects
 */
function compare(objects) {
  const address = new URLSearchParams(objects.sort().map((object) => ["queue", object]));
  if (objects.length <= COMPARED) return h("a", { class: "button", href: `/history/compare/?${address}` }, "Compare");
  return h("span", { class: "muted" }, `Compare shows ${COMPARED} queues at most`);
}

export class Selection {
  #bar;
  #picked = new Set();
  /** @type {any} */
  #matching = null; // {search, states, only, total} of an active filter; total null: not counted yet
  #shown = "";
  #saved;

  /**
   * `bar`: the element for the actions; `saved(selection)` is called after a selection was saved.
   *
   * @param {HTMLElement} bar
   * @param {any} saved
   */
  constructor(bar, saved) {
    this.#bar = bar;
    this.#saved = saved;
  }

  /**
   * Return a checkbox that selects a queue.
   *
   * @param {any} object
   * @param {any} name
   */
  box(object, name) {
    const box = h("input", {
      type: "checkbox",
      class: "pick",
      value: object,
      "aria-label": `Select ${name}`,
      checked: this.#picked.has(object),
    });
    box.addEventListener("change", () => {
      if (box.checked) this.#picked.add(object);
      else this.#picked.delete(object);
      this.#show();
    });
    return box;
  }

  /**
   * Set the filter and its number of matching queues (null: not counted yet); null: no filter.
   *
   * @param {any} matching
   */
  filtered(matching) {
    this.#matching = matching;
    this.#show();
  }

  clear() {
    this.pick([]);
  }

  /**
   * Select exactly these queues.
   *
   * @param {any} objects
   */
  pick(objects) {
    this.#picked = new Set(objects);
    for (const box of findAll("input.pick")) box.checked = this.#picked.has(box.value);
    this.#show();
  }

  #show() {
    const picked = this.#picked.size;
    const matching = picked ? null : this.#matching;
    const text = JSON.stringify([picked, matching]);
    if (text === this.#shown) return;
    this.#shown = text;
    const counting = matching !== null && matching.total === null;
    // The bar stays without queues: rows that move as the first one is ticked are ticked by mistake.
    const idle = !picked && !counting && !matching?.total;
    this.#bar.classList.toggle("active", !idle);
    if (idle) {
      fill(this.#bar, h("span", { class: "muted" }, HINT));
      return;
    }
    const number = picked || matching.total;
    const filter = matching && { search: matching.search, states: matching.states, only: matching.only };
    const what = picked ? { queues: [...this.#picked].sort() } : filter;
    const label = picked ? plural(picked, "selected queue") : `${plural(number, "queue")} with ${inWords(filter)}`;
    const aim = picked ? { scope: BROKER, queues: [...this.#picked], label } : { scope: BROKER, match: filter, label };
    /**
     * @param {any} action
     * @param {any} look
     */
    const act = (action, look) => {
      const refused = may("operate") ? null : "true"; // the button stays focusable and gives the reason
      return h(
        "button",
        {
          type: "button",
          class: look,
          disabled: counting,
          "aria-disabled": refused,
          data: { acts: "" },
          on: { click: () => openStopDialog(action, aim) },
        },
        icon(action),
        `${action === "stop" ? "Stop" : "Start"} producers${counting ? "" : ` of ${plural(number, "queue")}`}`,
      );
    };
    fill(
      this.#bar,
      h(
        "span",
        {},
        counting
          ? "Counting…"
          : picked
            ? `${count(picked)} selected`
            : `${count(number)} ${number === 1 ? "queue matches" : "queues match"}`,
      ),
      act("stop", "danger"),
      act("start", ""),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          disabled: counting,
          on: { click: () => openSaveDialog(what, this.#saved) },
        },
        "Save…",
      ),
      picked > 1 ? compare([...this.#picked]) : null,
      picked ? h("button", { type: "button", class: "quiet", on: { click: () => this.clear() } }, "Clear") : null,
    );
  }
}
