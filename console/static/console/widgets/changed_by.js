// Who changed an object since a form showed it, and when: read from the audit trail when an edit meets another.

import { get, query } from "../core/api.js";
import { h, setText } from "../core/elements.js";
import { clock } from "../core/format.js";
import { settings } from "../core/settings.js";

const AUDITED = [0, 500, 2000]; // ms; the row of a change is written just after the change itself

export class ChangedBy {
  #object;
  #shown = Infinity; // the audit row of the newest edit that the form shows, once that is known

  /**
   * `object`: the object's name.
   *
   * @param {any} object
   */
  constructor(object) {
    this.#object = object;
  }

  /** The audit row of the newest edit; {id: 0} if there is none, null if it cannot be known now. */
  async newest() {
    const asked = { broker: settings.broker, object: this.#object, operation: "update", outcome: "done", page_size: 1 };
    try {
      return (await get(`audit/${query(asked)}`)).results[0] ?? { id: 0 };
    } catch {
      return null;
    }
  }

  /**
   * What the form shows includes this edit, a row of `newest`.
   *
   * @param {any} row
   */
  shows(row) {
    if (row) this.#shown = row.id;
  }

  /** A sentence for the form. The name follows when the audit trail has it; a change by another client has none. */
  sentence(at = Date.now()) {
    const element = h("strong", {}, `Changed at ${clock(at)} since you opened it.`);
    this.#name(element);
    return element;
  }

  /** @param {HTMLElement} element */
  async #name(element) {
    for (const wait of AUDITED) {
      await new Promise((resume) => setTimeout(resume, wait));
      const row = await this.newest();
      if (!row || row.id <= this.#shown) continue;
      this.#shown = row.id;
      setText(element, `Changed by ${row.user_name} at ${clock(Date.parse(row.at))} since you opened it.`);
      return;
    }
  }
}
