// The time range of a history page: a length until now, two moments, or a zoom into the chart. It is part of the page's
// address, so that Back undoes a zoom and a link shows the same range.

import { h, setAttribute } from "../core/elements.js";
import { moment } from "../core/format.js";
import { LENGTHS, MINUTE } from "../core/lengths.js";
import { addressMoment, readMoment } from "../core/moments.js";
import { serverNow } from "../core/server_clock.js";
import { MomentField, zoneElement } from "../widgets/moment_field.js";
import { endOf, fitting, LONGEST, limited, offered, wrongRange } from "./ranges.js";

/** Emits "change" when the range changes, so that the page reloads its data. */
export class RangePicker extends EventTarget {
  from = 0;
  until = 0;
  /** Name of a length until now; null for two fixed moments. */
  /** @type {any} */
  length = null;
  #box;
  #buttons = new Map();
  /** @type {any} */
  #inputs;
  /** @type {any} */
  #moments;
  /** @type {any} */
  #words;
  /** First and last recorded moment, ms. */
  /** @type {any} */
  #extent = null;
  /** True until the user chooses a range. */
  #isDefault = false;
  #lengths;
  #longest;
  /** Whether the address has a longer range than the page can show, which therefore shows the end of it. */
  isShortened = false;

  /**
   * `initial`: name of the default length, `lengths`: those offered. `fixed`: the page shows a fixed range;
   * lengths are shortcuts to such ranges. `longest`: ms.
   *
   * @param {HTMLElement} box
   * @param {any} [options]
   */
  constructor(box, { initial = "24h", fixed = false, lengths = Object.keys(LENGTHS), longest = LONGEST } = {}) {
    super();
    this.#lengths = lengths;
    this.#longest = longest;
    this.#box = box;
    this.fixed = fixed;
    this.initial = initial;
    this.#build();
    this.#read();
    addEventListener("popstate", () => {
      this.#read();
      this.#emitChange();
    });
  }

  /**
   * The page's brokers, as the API returns them. Relative ranges end with the last recorded moment if that is long ago;
   * until the user chooses a range, a young history is shown from its first moment.
   *
   * @param {any} brokers
   */
  set known(brokers) {
    if (!brokers.length) return;
    this.#extent = {
      first: Math.min(...brokers.map((/** @type {any} */ one) => one.first)),
      last: Math.max(...brokers.map((/** @type {any} */ one) => one.last)),
    };
    if (this.#isDefault) this.length = this.#defaultLength();
    if (this.length) this.#toLength(this.length);
    if (this.fixed) this.length = null;
    this.#refresh();
  }

  /** Whether the range ends now, so that a refresh may show more. */
  get live() {
    return Boolean(this.length) && this.until > serverNow() - 5 * MINUTE;
  }

  /** Parameters of an API call. */
  get query() {
    return { from: Math.floor(this.from), until: Math.ceil(this.until) };
  }

  /** Move the end to now. */
  renew() {
    if (this.length) this.#toLength(this.length);
    this.#refresh();
  }

  /**
   * Set a fixed range, from a zoom or the form; ms.
   *
   * @param {any} from
   * @param {any} until
   */
  set(from, until) {
    this.#isDefault = false; // what is known comes later than the user's choice on a slow connection
    this.length = null;
    [this.from, this.until] = limited(from, until, this.#longest);
    this.isShortened = until - from > this.#longest;
    this.#write();
    this.#emitChange();
  }

  widen() {
    const span = this.until - this.from;
    this.set(this.from - span / 2, Math.min(this.until + span / 2, Math.max(this.until, serverNow())));
  }

  /** @param {any} direction */
  move(direction) {
    const step = ((this.until - this.from) / 2) * direction;
    this.set(this.from + step, this.until + step);
  }

  /** @param {any} length */
  choose(length) {
    this.#isDefault = false;
    this.isShortened = false;
    this.length = length;
    this.#toLength(length);
    if (this.fixed) this.length = null;
    this.#write();
    this.#emitChange();
  }

  /** The length shown until the user chooses one. */
  #defaultLength() {
    const now = serverNow();
    return this.#extent
      ? fitting(this.#lengths, this.initial, endOf(this.#extent, now) - this.#extent.first)
      : this.initial;
  }

  /** @param {any} length */
  #toLength(length) {
    this.until = endOf(this.#extent, serverNow());
    this.from = this.until - LENGTHS[length][1];
  }

  #read() {
    const search = new URLSearchParams(location.search);
    const from = readMoment(search.get("from"));
    const until = readMoment(search.get("until"));
    if (from !== null && until !== null && from < until) {
      this.#isDefault = false;
      this.length = null;
      this.isShortened = until - from > this.#longest;
      this.from = this.isShortened ? until - this.#longest : from;
      this.until = until;
    } else {
      const requested = search.get("range");
      const length = offered(this.#lengths, requested);
      this.#isDefault = length === null;
      this.isShortened = length !== null && length !== requested;
      this.length = length ?? this.#defaultLength();
      this.#toLength(this.length);
      if (this.fixed) this.length = null;
    }
    this.#show();
  }

  #write() {
    const url = new URL(location.href);
    for (const name of ["range", "from", "until"]) url.searchParams.delete(name);
    if (this.length) url.searchParams.set("range", this.length);
    else {
      url.searchParams.set("from", addressMoment(this.from));
      url.searchParams.set("until", addressMoment(this.until));
    }
    history.pushState(null, "", url);
    this.#show();
  }

  #emitChange() {
    this.dispatchEvent(new Event("change"));
  }

  #build() {
    const lengths = h("div", { class: "segmented lengths", role: "group", "aria-label": "Length of the range" });
    for (const name of this.#lengths) {
      const [label] = LENGTHS[name];
      const button = h(
        "button",
        { type: "button", data: { length: name }, on: { click: () => this.choose(name) } },
        label,
      );
      this.#buttons.set(name, button);
      lengths.append(button);
    }
    /**
     * @param {any} name
     * @param {string} label
     */
    const input = (name, label) => {
      const field = h("input", { type: "datetime-local", step: "1", required: true, name });
      return [h("label", { class: "moment" }, h("span", { class: "sr" }, label), field), field];
    };
    const [fromLabel, from] = input("from", "From");
    const [untilLabel, until] = input("until", "Until");
    this.#inputs = [from, until];
    this.#moments = [new MomentField(from), new MomentField(until)];
    const form = h(
      "form",
      { class: "moments", on: { submit: (event) => this.#submitted(event) } },
      fromLabel,
      h("span", { class: "muted", "aria-hidden": "true" }, "–"),
      untilLabel,
      h("button", { type: "submit" }, "Show"),
    );
    /**
     * @param {string} label
     * @param {any} words
     * @param {(...given: any[]) => any} act
     */
    const step = (label, words, act) =>
      h("button", { type: "button", title: words, "aria-label": words, on: { click: act } }, label);
    const steps = h(
      "div",
      { class: "segmented", role: "group", "aria-label": "Move the range" },
      step("◀", "Earlier by half", () => this.move(-1)),
      step("Wider", "Twice as long", () => this.widen()),
      step("▶", "Later by half", () => this.move(1)),
    );
    this.#words = h("span", { class: "sr", role: "status" });
    this.#box.append(lengths, steps, form, zoneElement(), this.#words);
  }

  /** @param {Event} event */
  #submitted(event) {
    event.preventDefault();
    const [from, until] = this.#moments.map((/** @type {any} */ field) => field.ms);
    const wrong = wrongRange(from, until, this.#longest);
    this.#inputs[0].setCustomValidity(wrong);
    if (wrong) this.#inputs[0].reportValidity();
    else this.set(from, until);
  }

  /** Show a range that has moved with the time. Moments that the user has begun to enter remain. */
  #refresh() {
    this.#show(this.#moments.some((/** @type {MomentField} */ field) => field.isEdited));
  }

  #show(keepsMoments = false) {
    const length = this.length;
    for (const [name, button] of this.#buttons) setAttribute(button, "aria-pressed", String(name === length));
    if (!keepsMoments) {
      this.#inputs[0].setCustomValidity("");
      this.#moments[0].ms = this.from;
      this.#moments[1].ms = this.until;
    }
    this.#words.textContent = `${moment(this.from)} to ${moment(this.until)}`;
  }
}
