// A moment that is typed and shown in the viewer's zone, which is named beside it. Every page that asks for a time uses
// this, so that the same field means the same everywhere; addresses carry the moment with its offset.

import { h } from "../core/elements.js";
import { addressMoment, inputValue, zoneName } from "../core/moments.js";

/** An element that says in which zone the times of this page are. */
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

  /** ms; null: empty, or no moment. What was set is kept exactly, also in the hour that a clock shows twice. */
  get ms() {
    const { value } = this.input;
    if (!value) return null;
    if (value === this.#text) return this.#ms;
    const ms = new Date(value).getTime();
    return Number.isFinite(ms) ? ms : null;
  }

  set ms(ms) {
    this.input.value = ms === null ? "" : inputValue(ms);
    this.#text = this.input.value; // as the input has it: it may leave out what is zero
    this.#ms = ms;
  }

  /** For addresses and calls; empty without a moment. */
  get address() {
    return this.ms === null ? "" : addressMoment(this.ms);
  }
}
