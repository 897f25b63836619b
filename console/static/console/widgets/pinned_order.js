// The order of rows that change: while the pointer or focus is on one they stay, so that a click hits its target.

const canPoint = matchMedia("(hover: hover)");

/** The order of the rows of one element. `key(item)`: identifies an item. */
export class PinnedOrder {
  #rows;
  #key;
  /** @type {string[]} */
  #order = [];

  /**
   * @param {HTMLElement} rows
   * @param {(item: any) => string} key
   */
  constructor(rows, key) {
    this.#rows = rows;
    this.#key = key;
  }

  /** Other items follow, such as those of another filter. */
  reset() {
    this.#order = [];
  }

  /**
   * Return the items in the order to show: as before while the pointer or the focus is on a row.
   *
   * @param {any[]} items
   */
  of(items) {
    let sorted = items;
    if (this.#pinned() && this.#order.length) {
      const place = new Map(this.#order.map((key, index) => [key, index]));
      sorted = [...items].sort((a, b) => (place.get(this.#key(a)) ?? -1) - (place.get(this.#key(b)) ?? -1));
    }
    this.#order = sorted.map((item) => this.#key(item));
    return sorted;
  }

  #pinned() {
    return (canPoint.matches && this.#rows.matches(":hover")) || this.#rows.querySelector(":focus-visible") !== null;
  }
}
