// Pages of a long table: position, page size, previous and next.

import { fill, h, setText } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { preferences, savePreferences } from "../core/preferences.js";

const SIZES = [25, 50, 100, 250];

/** The page size of the user's preferences. */
export const storedSize = () => (SIZES.includes(preferences.page_size) ? preferences.page_size : 50);

export class Pager {
  #element;
  #what;
  #turn;
  #where = h("span", { class: "muted where" });
  #before;
  #next;
  #page = 1;

  /**
   * `element`: container; `what`: the noun for a row; `turn(page)`: loads another page.
   *
   * @param {HTMLElement} element
   * @param {any} options
   */
  constructor(element, { what, size = 50, turn }) {
    this.#element = element;
    this.#what = what;
    this.#turn = turn;
    this.size = size;
    this.#before = h(
      "button",
      { type: "button", class: "before", data: { key: "[" }, on: { click: () => this.#go(-1) } },
      "Previous",
    );
    this.#next = h(
      "button",
      { type: "button", class: "next", data: { key: "]" }, on: { click: () => this.#go(1) } },
      "Next",
    );
    const sizes = h(
      "select",
      { "aria-label": "Rows per page" },
      SIZES.map((n) => h("option", { value: n, selected: n === size }, `${n} rows`)),
    );
    sizes.addEventListener("change", () => {
      this.size = Number(sizes.value);
      savePreferences({ page_size: this.size });
      this.#turn(1);
    });
    fill(element, this.#before, h("span", { class: "pager-middle" }, this.#where, sizes), this.#next);
  }

  /**
   * Show the position: `page` of `total` rows. `what`: the noun for a row, if it differs at this time.
   *
   * @param {any} page
   * @param {any} total
   * @param {string} [what]
   */
  show(page, total, what = this.#what) {
    this.#page = page;
    const last = Math.max(1, Math.ceil(total / this.size));
    this.#element.hidden = total <= SIZES[0];
    setText(
      this.#where,
      `${exact(Math.min(total, (page - 1) * this.size + 1))}–` +
        `${exact(Math.min(total, page * this.size))} of ${plural(total, what)}`,
    );
    this.#before.disabled = page <= 1;
    this.#next.disabled = page >= last;
  }

  /** @param {any} step */
  #go(step) {
    this.#turn(this.#page + step);
  }
}
