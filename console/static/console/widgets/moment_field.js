// A field for a moment in the page's time zone, which is shown next to it. All pages use it; URLs have the moment
// with its offset.

import { h } from "../core/elements.js";
import { addressMoment, inputValue, readInput, zoneName } from "../core/moments.js";

/** Return an element that names the time zone of the page. */
export const zoneElement = () => h("span", { class: "zone muted small" }, `Times in ${zoneName()}`);

/** The moment in an input of type datetime-local. */
export class MomentField {
  #text = "";
  /** @type {any} */
  #ms = null;

  /** @param {any} input */
  constructor(input) {
    this.input = input;
    input.title = `In ${zoneName()}`;
  }

  /** ms; null: empty or invalid. A value that was set stays exact, also in the repeated hour of a clock change. */
  get ms() {
    const { value } = this.input;
    if (!value) return null;
    if (value === this.#text) return this.#ms;
    return readInput(value);
  }

  set ms(ms) {
    this.input.value = ms === null ? "" : inputValue(ms);
    this.#text = this.input.value; // the input omits zero seconds
    this.#ms = ms;
  }

  /** Whether the user has entered something since the value was set, also an incomplete moment. */
  get isEdited() {
    return this.input.value !== this.#text;
  }

  /** The value for URLs and API calls; empty without a moment. */
  get address() {
    return this.ms === null ? "" : addressMoment(this.ms);
  }
}
