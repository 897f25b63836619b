// How an object that does not exist ended. A page says so only if it showed the object before, or the event log or the
// audit trail has the end: a mistyped name never existed.

import { get, query } from "./api.js";
import { clock } from "./format.js";
import { parseName } from "./object_names.js";

/** @type {Record<string, string>} */
const EVENTS = {
  Connection: "connection-closed",
  Exchange: "exchange-deleted",
  Queue: "queue-deleted",
  Subscription: "subscription-deleted",
  User: "user-deleted",
};
/** Types whose objects end with their client. */
const ENDED = new Set(["Connection", "Consumer", "Producer", "Session", "Subscription"]);

/**
 * Return when the newest entry of a timeline says that the object ended, ms; null if none does.
 *
 * @param {any[]} entries newest first
 * @param {string} object
 * @returns {number | null}
 */
export const endIn = (entries, object) =>
  entries.find((one) => one.object === object && (one.source === "broker" || one.outcome === "done"))?.at ?? null;

export class Ending {
  #object;
  #type;
  #changed;
  #read;
  #wasSeen = false;
  #requested = false;
  /** @type {number | null} */
  #at = null;

  /**
   * `changed()` is called when the end becomes known: draw again. `read`: for tests.
   *
   * @param {string} object its name
   * @param {() => void} changed
   * @param {(path: string) => Promise<any>} [read]
   */
  constructor(object, changed, read = get) {
    this.#object = object;
    this.#type = parseName(object)?.type ?? "";
    this.#changed = changed;
    this.#read = read;
  }

  /** The object exists. */
  exists() {
    this.#wasSeen = true;
    this.#requested = false;
    this.#at = null;
  }

  /** A sentence about the end of the object, which does not exist; empty: nothing is known of it. */
  text(subject = "It") {
    if (!this.#requested) this.#request();
    const ended = `${subject} ${ENDED.has(this.#type) ? "ended" : "was deleted"}`;
    if (this.#at !== null) return `${ended} at ${clock(this.#at)}.`;
    return this.#wasSeen ? `${ended}.` : "";
  }

  async #request() {
    this.#requested = true;
    const kind = [EVENTS[this.#type], "delete"].filter(Boolean);
    const about = this.#type === "Queue" ? { queue: this.#object } : { search: this.#object };
    try {
      const { entries } = await this.#read(`timeline/${query({ kind, ...about })}`);
      if (!this.#requested) return; // it was created meanwhile
      this.#at = endIn(entries, this.#object);
    } catch {
      return; // the page does without
    }
    if (this.#at !== null) this.#changed();
  }
}
