// Who changed an object since a form was opened, and when, from the audit trail: for edit conflicts.

import { get, query } from "../core/api.js";
import { h, setText } from "../core/elements.js";
import { clock } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";

const RETRIES = [0, 500, 2000]; // ms; the audit row of a change is written shortly after the change

export class ChangedBy {
  #object;
  #shown = Infinity; // id of the audit row of the newest edit that the form includes, once it is known

  /**
   * `object`: the object's name.
   *
   * @param {any} object
   */
  constructor(object) {
    this.#object = object;
  }

  /** Return the audit row of the newest edit; {id: 0} if there is none, null if the audit trail is unavailable. */
  async newest() {
    const filter = {
      broker: settings.broker,
      object: this.#object,
      operation: "update",
      outcome: "done",
      page_size: 1,
    };
    try {
      return (await get(`audit/${query(filter)}`)).results[0] ?? { id: 0 };
    } catch {
      return null;
    }
  }

  /**
   * Record that the form includes this edit, a row of `newest`.
   *
   * @param {any} row
   */
  shows(row) {
    if (row) this.#shown = row.id;
  }

  /** Return an element with a sentence. The user name is added when the audit trail has it; a change by another client
   * has none. */
  sentence(at = serverNow()) {
    const element = h("strong", {}, `Changed at ${clock(at)} since you opened it.`);
    this.#name(element);
    return element;
  }

  /** @param {HTMLElement} element */
  async #name(element) {
    for (const wait of RETRIES) {
      await new Promise((resume) => setTimeout(resume, wait));
      const row = await this.newest();
      if (!row || row.id <= this.#shown) continue;
      this.#shown = row.id;
      setText(element, `Changed by ${row.user_name} at ${clock(Date.parse(row.at))} since you opened it.`);
      return;
    }
  }
}
