// Turning the pages of a long table: where one is, and how many rows a page has.

import { fill, h, setText } from "../core/elements.js";
import { exact, plural } from "../core/format.js";

const SIZES = [25, 50, 100, 250];
const KEPT = "headgate-page-size";

/** How many rows this viewer wants on a page. */
export function storedSize() {
  try {
    const size = Number(localStorage.getItem(KEPT));
    return SIZES.includes(size) ? size : 50;
  } catch {
    return 50;
  }
}

export class Pager {
  #element;
  #what;
  #turn;
  #where = h("span", { class: "muted where" });
  #before;
  #next;
  #page = 1;

  /**
   * `element`: where to show it; `what`: a row in one word; `turn(page)`: asks for another page.
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
      "Before",
    );
    this.#next = h(
      "button",
      { type: "button", class: "next", data: { key: "]" }, on: { click: () => this.#go(1) } },
      "Next",
    );
    const sizes = h(
      "select",
      { "aria-label": "Rows on a page" },
      SIZES.map((n) => h("option", { value: n, selected: n === size }, `${n} rows`)),
    );
    sizes.addEventListener("change", () => {
      this.size = Number(sizes.value);
      try {
        localStorage.setItem(KEPT, sizes.value);
      } catch {
        // It holds for this page then.
      }
      this.#turn(1);
    });
    fill(element, this.#before, h("span", { class: "pager-middle" }, this.#where, sizes), this.#next);
  }

  /**
   * It is on `page` of `total` rows.
   *
   * @param {any} page
   * @param {any} total
   */
  show(page, total) {
    this.#page = page;
    const last = Math.max(1, Math.ceil(total / this.size));
    this.#element.hidden = total <= SIZES[0];
    setText(
      this.#where,
      `${exact(Math.min(total, (page - 1) * this.size + 1))}–` +
        `${exact(Math.min(total, page * this.size))} of ${plural(total, this.#what)}`,
    );
    this.#before.disabled = page <= 1;
    this.#next.disabled = page >= last;
  }

  /** @param {any} step */
  #go(step) {
    this.#turn(this.#page + step);
  }
}
