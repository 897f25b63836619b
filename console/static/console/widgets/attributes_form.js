// The form for an object's writable attributes, checked in the browser and by the broker. If another user changes the
// object meanwhile, saving reports the difference and preserves the edits.

import { get, objectPath, patch } from "../core/api.js";
import { h } from "../core/elements.js";
import { words } from "../core/format.js";
import { isolated, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { ChangedBy } from "./changed_by.js";
import { EditProblem } from "./edit_problem.js";
import { EditSession } from "./edit_session.js";
import { field, fieldGrid } from "./fields.js";
import { valueNode } from "./values.js";

export class AttributesForm {
  #name;
  #declared;
  #session;
  #firstInput;
  #reason;
  #problem = new EditProblem();
  #save = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Save");
  #done;
  #changedBy;

  /**
   * `done(saved)` is called with the saved object, or with null if the edit was cancelled.
   *
   * @param {any} name
   * @param {any} type
   * @param {any} object
   * @param {(...given: any[]) => any} done
   */
  constructor(name, type, object, done) {
    this.#name = name;
    this.#done = done;
    this.#changedBy = new ChangedBy(name);
    this.#changedBy.newest().then((row) => this.#changedBy.shows(row));
    const writable = type.attributes.filter((/** @type {any} */ a) => a.writable);
    this.#declared = new Map(writable.map((/** @type {any} */ a) => [a.name, a]));
    const fields = writable.map((/** @type {any} */ a) =>
      field(a, {
        value: object.attributes[a.name],
        placeholder: a.secret ? "unchanged" : a.nullable ? "not set" : "",
        hint: a.description,
      }),
    );
    this.#firstInput = fields[0]?.input;
    this.#session = new EditSession(fields);
    this.#session.rebase(object.attributes, object.version);
    this.#reason = field(
      { name: "reason", kind: "string", unit: "", choices: [] },
      { hint: "Recorded in the audit trail." },
    );
    this.element = h(
      "form",
      { class: "attributes-form", novalidate: true, on: { submit: (event) => this.#submit(event) } },
      fieldGrid(fields),
      this.#reason.element,
      this.#problem.element,
      h(
        "div",
        { class: "form-actions" },
        h("button", { type: "button", class: "quiet", on: { click: () => done(null) } }, "Cancel"),
        this.#save,
      ),
    );
  }

  focus() {
    this.#firstInput?.focus();
  }

  /** Snapshots do not change the form: a conflict is reported when it is saved. */
  arrived() {}

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    if (!this.#session.check()) return;
    if (!this.#session.dirty) return this.#problem.show("No changes.");
    this.#save.disabled = true;
    try {
      const saved = await this.#session.save((version, attributes) =>
        patch(objectPath(settings.broker, this.#name), {
          version,
          attributes,
          reason: this.#reason.input.value.trim(),
        }),
      );
      toast(`Changed ${isolated(shortName(this.#name))}.`);
      this.#done(saved);
    } catch (error) {
      this.#save.disabled = false;
      this.#session.showErrors(error);
      if (this.#session.isConflict(error)) await this.#conflict();
      else this.#problem.show(error.message);
    }
    return undefined;
  }

  async #conflict() {
    try {
      const now = await get(objectPath(settings.broker, this.#name));
      this.#problem.conflict(
        this.#changedBy.sentence(),
        this.#session.rebase(now.attributes, now.version),
        { label: words, value: (name, value) => valueNode(this.#declared.get(name), value) },
        "Your edits are preserved. Save again to apply them to the new version, or cancel.",
      );
    } catch (error) {
      this.#problem.show(error.message);
    }
  }
}
