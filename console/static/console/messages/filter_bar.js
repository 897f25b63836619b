// The filter bar of the messages page: its fields, the properties as removable chips, and errors at the fields.

import { byId, fill, find, h, icon, setAttribute } from "../core/elements.js";
import { empty, fromAddress, isEmpty, NAMES, readProperty, wrongIn } from "./filter.js";
import { safeLine } from "./safe_text.js";
import { textNode } from "./text_nodes.js";

const SELECTS = new Set(["state"]);

export class FilterBar {
  #form = byId("filters");
  #properties = byId("properties");
  #problem = byId("filter-problem");
  #changed;
  /** @type {any} */
  filter = empty();

  /**
   * `changed()` is called when a filter without errors is applied.
   *
   * @param {() => void} changed
   */
  constructor(changed) {
    this.#changed = changed;
    this.#form.addEventListener("submit", (/** @type {any} */ event) => {
      event.preventDefault();
      this.#apply();
    });
    for (const name of SELECTS) this.#field(name).addEventListener("change", () => this.#apply());
    byId("clear").addEventListener("click", () => this.clear());
  }

  clear() {
    this.show(new URLSearchParams());
    this.#apply();
  }

  /**
   * Show the filter of an address.
   *
   * @param {URLSearchParams} given
   */
  show(given) {
    this.filter = fromAddress(given);
    for (const name of NAMES) this.#field(name).value = this.filter[name];
    this.#field("property").value = "";
    const hidden = NAMES.filter((name) => this.#field(name).closest("details"));
    if (hidden.some((name) => this.filter[name])) byId("more-filters").open = true;
    this.#showChips();
    this.wrong({});
  }

  /** @param {string} name */
  #field(name) {
    return find(`[name="${name}"]`, this.#form);
  }

  /**
   * Apply what is entered, unless it has errors: then the filter stays, and so do its chips.
   *
   * @param {any[]} [present] the properties besides the one that is typed
   */
  #apply(present = this.filter.properties) {
    const typed = this.#field("property").value.trim();
    const property = readProperty(typed);
    const filter = {
      properties: [...present, ...(property ? [property] : [])],
      ...Object.fromEntries(NAMES.map((name) => [name, this.#field(name).value.trim()])),
    };
    const wrong = wrongIn(filter);
    if (typed && !property) wrong.property = `${safeLine(typed, 60)} is not NAME=VALUE.`;
    if (Object.keys(wrong).length) {
      this.wrong(wrong);
      return;
    }
    this.wrong({});
    this.filter = filter;
    this.#field("property").value = "";
    this.#showChips();
    this.#changed();
  }

  #showChips() {
    byId("clear").hidden = isEmpty(this.filter);
    this.#properties.hidden = this.filter.properties.length === 0;
    fill(
      this.#properties,
      this.filter.properties.map((/** @type {any} */ pair) =>
        h(
          "li",
          { class: "filter-chip" },
          textNode(`${pair[0]}=${pair[1]}`, { most: 60 }),
          h(
            "button",
            {
              type: "button",
              class: "quiet icon-only",
              "aria-label": `Remove ${safeLine(pair[0], 60)}`,
              on: { click: () => this.#drop(pair) },
            },
            icon("close"),
          ),
        ),
      ),
    );
  }

  /** @param {any} pair */
  #drop(pair) {
    this.#apply(this.filter.properties.filter((/** @type {any} */ each) => each !== pair));
  }

  /**
   * Show errors at their fields; empty: none.
   *
   * @param {Record<string, string>} errors
   */
  wrong(errors) {
    for (const name of [...NAMES, "property"]) setAttribute(this.#field(name), "aria-invalid", name in errors || null);
    const texts = Object.values(errors);
    this.#problem.hidden = texts.length === 0;
    fill(
      this.#problem,
      texts.map((text) => h("p", {}, safeLine(text, 400))),
    );
    const first = Object.keys(errors).find((name) => this.#field(name));
    if (first) {
      const field = this.#field(first);
      if (field.closest("details")) byId("more-filters").open = true;
      field.focus();
    }
  }
}
