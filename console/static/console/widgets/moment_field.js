// A moment that is typed and shown in the viewer's zone, which is named beside it. Every page that asks for a time uses
// this, so that the same field means the same everywhere; addresses carry the moment with its offset.

import { h } from "../core/elements.js";

const two = (n) => String(n).padStart(2, "0");

/** ms -> what an input of type datetime-local takes, in the viewer's zone. */
function inputValue(ms) {
  const d = new Date(ms);
  return (
    `${String(d.getFullYear()).padStart(4, "0")}-${two(d.getMonth() + 1)}-${two(d.getDate())}T` +
    `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`
  );
}

/** A moment of an address: ms, or ISO 8601, of UTC if it names no zone. null if it is none. */
export function readMoment(text) {
  if (!text) return null;
  const zoned = /(?:Z|[+-]\d\d:?\d\d)$/i.test(text) || !text.includes("T");
  const ms = /^\d+$/.test(text) ? Number(text) : Date.parse(zoned ? text : `${text}Z`);
  return Number.isFinite(ms) ? ms : null;
}

/** "2026-03-14T12:00:00Z": for addresses, whole seconds. */
export const addressMoment = (ms) => new Date(Math.round(ms / 1000) * 1000).toISOString().replace(".000Z", "Z");

/** "America/New_York (UTC-05:00)", as of that moment: the offset changes with the season. */
export function zoneName(ms = Date.now()) {
  const offset = -new Date(ms).getTimezoneOffset();
  const hours = `${offset < 0 ? "-" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  return offset === 0 && /^(UTC|Etc\/UTC)$/.test(timeZone) ? "UTC" : `${timeZone} (UTC${hours})`;
}

/** An element that says in which zone the times of this page are. */
export const zoneElement = () => h("span", { class: "zone muted small" }, `Times in ${zoneName()}`);

/** The moment in an input of type datetime-local. */
export class MomentField {
  #text = "";
  #ms = null;

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
