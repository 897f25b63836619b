// The form for an object's writable attributes: checked here as far as can be, and again by the broker; a change that
// another user made in the meantime is shown, and what was typed is kept.

import { get, objectPath, patch } from "../core/api.js";
import { fill, h } from "../core/elements.js";
import { words } from "../core/format.js";
import { shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { ChangedBy } from "./changed_by.js";
import { field, fieldGrid } from "./fields.js";
import { valueNode } from "./values.js";

export class AttributesForm {
  #name;
  #version;
  #start;
  #fields;
  #reason;
  #problem = h("div", { class: "notice error", role: "alert", hidden: true });
  #save = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Save");
  #done;
  #changedBy;

  /**
   * @param {any} name
   * @param {any} type
   * @param {any} object
   * @param {(...given: any[]) => any} done
   */
  constructor(name, type, object, done) {
    this.#name = name;
    this.#done = done;
    this.#version = object.version;
    this.#changedBy = new ChangedBy(name);
    this.#changedBy.newest().then((row) => this.#changedBy.shows(row));
    this.#start = { ...object.attributes };
    this.#fields = type.attributes
      .filter((/** @type {any} */ a) => a.writable)
      .map((/** @type {any} */ a) =>
        field(a, {
          value: object.attributes[a.name],
          placeholder: a.secret ? "unchanged" : a.nullable ? "not set" : "",
          hint: a.description,
        }),
      );
    this.#reason = field(
      { name: "reason", kind: "string", unit: "", choices: [] },
      { hint: "Recorded in the audit trail." },
    );
    this.element = h(
      "form",
      { class: "attributes-form", novalidate: true, on: { submit: (event) => this.#submit(event) } },
      fieldGrid(this.#fields),
      this.#reason.element,
      this.#problem,
      h(
        "div",
        { class: "form-actions" },
        h("button", { type: "button", class: "quiet", on: { click: () => done(null) } }, "Cancel"),
        this.#save,
      ),
    );
  }

  focus() {
    this.#fields[0]?.input.focus();
  }

  arrived() {
    // What is typed stays; a conflict is told when it is saved.
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    if (!this.#fields.map((/** @type {any} */ f) => f.check()).every(Boolean)) return;
    const changes = Object.fromEntries(
      this.#fields
        .map((/** @type {any} */ f) => [f.declared.name, f.read()])
        .filter(
          (/** @type {any} */ [key, value]) =>
            value !== undefined && JSON.stringify(value) !== JSON.stringify(this.#start[key] ?? null),
        ),
    );
    if (!Object.keys(changes).length) return this.#tell("No changes.");
    this.#save.disabled = true;
    try {
      const saved = await patch(objectPath(settings.broker, this.#name), {
        version: this.#version,
        attributes: changes,
        reason: this.#reason.input.value.trim(),
      });
      toast(`Changed ${shortName(this.#name)}.`);
      this.#done(saved);
    } catch (error) {
      this.#save.disabled = false;
      for (const f of this.#fields) f.wrong(error.fields?.[f.declared.name] ?? "");
      if (error.status === 409) await this.#conflict();
      else this.#tell(error.message);
    }
    return undefined;
  }

  async #conflict() {
    try {
      const now = await get(objectPath(settings.broker, this.#name));
      this.#version = now.version;
      const lines = this.#fields
        .filter(
          (/** @type {any} */ f) =>
            JSON.stringify(now.attributes[f.declared.name]) !== JSON.stringify(this.#start[f.declared.name]),
        )
        .map((/** @type {any} */ f) =>
          h(
            "li",
            {},
            h("strong", {}, words(f.declared.name)),
            " is now ",
            valueNode(f.declared, now.attributes[f.declared.name]),
          ),
        );
      for (const f of this.#fields) {
        const untouched = JSON.stringify(f.read() ?? null) === JSON.stringify(this.#start[f.declared.name] ?? null);
        const there = now.attributes[f.declared.name];
        if (untouched) f.set(there);
      }
      this.#start = { ...now.attributes };
      this.#tell(
        h("p", {}, this.#changedBy.sentence()),
        h("ul", {}, lines),
        h("p", {}, "Your edits are preserved. Save again to apply them to the new version, or cancel."),
      );
    } catch (error) {
      this.#tell(error.message);
    }
  }

  /** @param {...any} content */
  #tell(...content) {
    this.#problem.hidden = false;
    fill(this.#problem, h("div", {}, ...content));
  }
}
