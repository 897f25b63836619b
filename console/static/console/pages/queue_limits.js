// The limits of a queue: effective values and their origins, and the form that edits the overrides of the queue.

import { ApiError, patch, post } from "../core/api.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { fill, find, h } from "../core/elements.js";
import { amount, exactAmount, words } from "../core/format.js";
import { hostPart, queuePart } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { ChangedBy } from "../widgets/changed_by.js";
import { EditProblem } from "../widgets/edit_problem.js";
import { EditSession } from "../widgets/edit_session.js";
import { field, fieldGrid } from "../widgets/fields.js";
import {
  declaredField,
  fieldText,
  fieldValue,
  inRows,
  LABELS,
  labelOf,
  origin,
  stem,
} from "../widgets/policy_fields.js";
import { consequence, effectiveLimits } from "./limit_effects.js";

const base = `queues/${hostPart(settings.virtualhost ?? "")}/${queuePart(settings.name ?? "")}/`;
export class Limits {
  #element;
  /** @type {any} */
  #queue = null;
  /** @type {any} */
  #explain = null; // origins of the values; null: not known
  /** @type {any} */
  #editing = null;
  #wanted = false; // the form, before the queue is known
  #opened;

  /**
   * `opened(bool)` is called when the form opens and closes.
   *
   * @param {HTMLElement} element
   * @param {(...given: any[]) => any} opened
   */
  constructor(element, opened) {
    this.#element = element;
    this.#opened = opened;
  }

  /**
   * @param {any} queue
   * @param {any} explain
   */
  show(queue, explain) {
    this.#queue = queue;
    this.#explain = explain ?? null;
    if (!this.#editing) this.#render();
    else if (explain) this.#editing.arrived(queue, explain);
    if (this.#wanted) this.edit();
  }

  edit() {
    this.#wanted = !this.#queue; // a click before the queue is known opens the form as soon as it is
    if (this.#wanted || this.#editing) return;
    this.#editing = new Form(this.#queue, this.#explain ?? {}, (/** @type {any} */ saved) => {
      this.#editing = null;
      this.#opened(false);
      if (saved) this.#queue = { ...this.#queue, ...saved };
      this.#render();
    });
    fill(this.#element, this.#editing.element);
    this.#opened(true);
    this.#editing.focus();
  }

  #render() {
    const queue = this.#queue;
    const text = JSON.stringify([
      this.#explain,
      settings.policy.map((/** @type {any} */ p) => [queue[p.name], queue[`effective_${stem(p.name)}`]]),
    ]);
    if (this.#element.dataset.shown === text && this.#element.querySelector(".limits-table")) return;
    this.#element.dataset.shown = text;
    const rows = ["capacity", "flow_stop", "flow_resume"].map((name) =>
      h("tr", {}, h("th", { scope: "row" }, LABELS[name]), this.#cell(name, "messages"), this.#cell(name, "bytes")),
    );
    for (const declared of settings.policy.filter(
      (/** @type {any} */ { name }) => !/^(capacity|flow_stop|flow_resume)_/.test(name),
    )) {
      const explained = this.#explained(declared.name);
      rows.push(
        h(
          "tr",
          {},
          h("th", { scope: "row" }, labelOf(declared).replace(/, ms$/, "")),
          h(
            "td",
            { colspan: "2" },
            explained.unknown
              ? h("span", { class: "muted" }, "not known")
              : [
                  fieldValue(declared.name, explained.value ?? queue[declared.name]),
                  settings.explains ? h("small", { class: "origin" }, origin(explained.origin)) : null,
                ],
          ),
        ),
      );
    }
    fill(
      this.#element,
      h(
        "table",
        { class: "grid limits-table" },
        h("thead", {}, h("tr", {}, h("td"), h("th", { scope: "col" }, "Messages"), h("th", { scope: "col" }, "Bytes"))),
        h("tbody", {}, rows),
      ),
    );
  }

  /**
   * Return the effective value and its origin; without known origins, the override of the queue.
   *
   * @param {any} name
   */
  #explained(name) {
    if (this.#explain) return this.#explain[name] ?? {};
    const own = this.#queue[name] ?? null;
    if (!settings.explains) return { value: own, origin: null };
    return own === null ? { unknown: true } : { value: own, origin: "own" };
  }

  /**
   * @param {any} name
   * @param {string} unit
   */
  #cell(name, unit) {
    if (!settings.attributes.includes(`effective_${name.replace("flow_", "")}_${unit}`)) return h("td", {}, "–");
    const key = `${name}_${unit}`;
    const explained = this.#explained(key);
    const inForce = this.#queue[`effective_${name.replace("flow_", "")}_${unit}`] ?? explained.value ?? null;
    const capacity = this.#queue[`effective_capacity_${unit}`];
    const none = !capacity;
    const from = !settings.explains
      ? ""
      : explained.unknown
        ? "origin not known"
        : explained.origin
          ? origin(explained.origin)
          : this.#queue[key] === null
            ? "inherited"
            : "queue";
    const percent = typeof explained.value === "string" ? `${explained.value}, ` : "";
    return h(
      "td",
      { "data-label": words(unit) },
      none
        ? h("span", { class: "muted" }, name === "capacity" ? "no limit" : "–")
        : h("span", { title: exactAmount(inForce ?? 0, unit) }, amount(inForce, unit)),
      none && name !== "capacity"
        ? null
        : h("small", { class: "origin", "data-origin": explained.origin ?? "" }, `${percent}${from}`),
    );
  }
}

const TYPING = 250; // ms

/**
 * The overrides of a queue in a snapshot or response.
 *
 * @param {any} queue
 */
const overrides = (queue) =>
  Object.fromEntries(
    settings.policy
      .filter((/** @type {any} */ { name }) => name in queue)
      .map((/** @type {any} */ { name }) => [name, queue[name]]),
  );

class Form {
  /** @type {any[]} */
  #fields = [];
  #session;
  #reason;
  #problem = new EditProblem();
  #note = h("p", { class: "hint form-note", "aria-live": "polite" });
  #save = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Save limits");
  #done;
  #changedBy;
  #check = new DebouncedRequest(TYPING);
  #queue;

  /**
   * @param {any} queue
   * @param {any} explain
   * @param {(...given: any[]) => any} done
   */
  constructor(queue, explain, done) {
    this.#queue = queue;
    this.#changedBy = new ChangedBy(queue.object);
    this.#changedBy.newest().then((row) => this.#changedBy.shows(row));
    this.#done = done;
    for (const declared of inRows(settings.policy.filter((/** @type {any} */ { writable }) => writable))) {
      this.#fields.push(
        field(declared, {
          value: queue[declared.name],
          label: labelOf(declared),
          inherits: true,
          helps: true,
          placeholder: this.#inherited(declared.name, explain),
          hint: declared.description,
          changed: () => this.#edited(),
        }),
      );
    }
    this.#session = new EditSession(this.#fields);
    this.#session.rebase(overrides(queue), queue.version);
    this.#reason = field(
      { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
      { label: "Reason", hint: "Recorded in the audit trail." },
    );
    const cancel = h("button", { type: "button", class: "quiet", on: { click: () => this.#done(null) } }, "Cancel");
    this.element = h(
      "form",
      { class: "limits-form", novalidate: true, on: { submit: (event) => this.#submit(event) } },
      h(
        "p",
        { class: "hint" },
        "Leave a field empty to inherit. Amounts can have a unit: 64 kB, 10 MiB. Levels can be a " +
          "percentage of the capacity: 80%.",
      ),
      fieldGrid(this.#fields),
      this.#reason.element,
      this.#note,
      this.#problem.element,
      h("div", { class: "form-actions" }, cancel, this.#save),
    );
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.#done(null));
  }

  focus() {
    this.#fields[0].input.focus();
  }

  /**
   * Take a snapshot. If another user or client has changed limits, report it and preserve the edits.
   *
   * @param {any} queue
   * @param {any} explain
   */
  arrived(queue, explain) {
    this.#queue = queue;
    for (const f of this.#fields) f.input.placeholder = this.#inherited(f.declared.name, explain);
    if (this.#session.arrives(queue.version)) this.#rebase(queue);
  }

  /**
   * @param {any} name
   * @param {any} explain
   */
  #inherited(name, explain) {
    const explained = explain[name];
    if (!explained) return "inherited";
    if (explained.origin === "own")
      return explained.inherited === undefined ? "inherited" : valueText(name, explained.inherited);
    return `${valueText(name, explained.value)} (${origin(explained.origin)})`;
  }

  #body(version = this.#session.version, changes = this.#session.changes()) {
    return { version, reason: this.#reason.input.value.trim(), ...changes };
  }

  #edited() {
    this.#check.cancel();
    if (this.#session.check()) this.#check.schedule(() => this.#preview());
    else this.#note.textContent = "";
  }

  async #preview() {
    try {
      const answer = await this.#check.send((signal) => post(`${base}check/`, this.#body(), signal));
      this.#session.showErrors({});
      fill(this.#note, effectiveLimits(answer), consequence(answer, this.#queue));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.#note);
      if (error instanceof ApiError && error.status === 400) this.#problem.show(this.#session.showErrors(error));
      // Other errors are reported when saving, to not interrupt typing.
    }
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    this.#check.cancel();
    if (!this.#session.check()) return this.#focusError();
    if (!this.#session.dirty) return this.#problem.show("No changes.");
    this.#save.disabled = true;
    try {
      const saved = await this.#session.save((version, changes) => patch(base, this.#body(version, changes)));
      toast("Limits saved.");
      this.#done(saved.attributes ?? saved);
    } catch (error) {
      this.#save.disabled = false;
      if (error.status === 400) {
        this.#problem.show(this.#session.showErrors(error));
        this.#focusError();
      } else if (error.status === 409) {
        const { current = {} } = error.body ?? {};
        const now = current.attributes ?? current;
        this.#rebase({ version: current.version ?? this.#session.version, ...now }, true);
      } else this.#problem.show(error.message);
    }
    return undefined;
  }

  #focusError() {
    find('[aria-invalid="true"]', this.element)?.focus();
  }

  /**
   * @param {any} queue
   * @param {boolean} [refused] whether saving failed because of the change
   */
  #rebase(queue, refused = false) {
    const differences = this.#session.rebase(overrides(queue), queue.version);
    if (!differences.length && !refused) return;
    this.#problem.conflict(
      this.#changedBy.sentence(),
      differences,
      { label: (name) => labelOf(declaredField(name)), value: valueText },
      "Your edits are preserved. Save again to apply them to the new version, or cancel.",
    );
  }
}

/**
 * Format the value of a policy field: exactly, as it can be entered.
 *
 * @param {string} name
 * @param {any} value
 */
function valueText(name, value) {
  if (value === null || value === undefined)
    return name.startsWith("capacity") ? "no limit" : name.startsWith("flow_stop") ? "100%" : "not set";
  return fieldText(name, value);
}
