// A queue's limits: what is in force and where it comes from, and the form that edits the queue's own.

import { ApiError, patch, post } from "../core/api.js";
import { fill, find, h } from "../core/elements.js";
import { amount, exact, exactAmount, words } from "../core/format.js";
import { hostPart, queuePart } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { ChangedBy } from "../widgets/changed_by.js";
import { field, fieldGrid } from "../widgets/fields.js";
import { inRows, LABELS, labelOf, origin, stem } from "../widgets/policy_fields.js";

const base = `queues/${hostPart(settings.virtualhost ?? "")}/${queuePart(settings.name ?? "")}/`;
export class Limits {
  #element;
  /** @type {any} */
  #queue = null;
  /** @type {any} */
  #explain = null; // where each value comes from; null: not known
  /** @type {any} */
  #editing = null;
  #opened;

  /**
   * `opened(bool)` is told when the form opens and closes.
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
  }

  edit() {
    if (!this.#queue || this.#editing) return;
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
          h("th", { scope: "row" }, LABELS[stem(declared.name)] ?? words(declared.name)),
          h(
            "td",
            { colspan: "2" },
            explained.unknown
              ? h("span", { class: "muted" }, "not known")
              : [
                  this.#value(explained.value ?? queue[declared.name], declared),
                  h("small", { class: "origin" }, origin(explained.origin)),
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
   * The value in force and its origin; while the origins are not known, what the queue sets itself is.
   *
   * @param {any} name
   */
  #explained(name) {
    if (this.#explain) return this.#explain[name] ?? {};
    const own = this.#queue[name] ?? null;
    return own === null ? { unknown: true } : { value: own, origin: "own" };
  }

  /**
   * @param {any} value
   * @param {any} declared
   */
  #value(value, declared) {
    if (typeof value !== "number") return value ?? "not set";
    return h(
      "span",
      { title: exactAmount(value, declared.unit) },
      `${amount(value, declared.unit)} ${declared.unit === "bytes" ? "" : declared.unit}`,
    );
  }

  /**
   * @param {any} name
   * @param {string} unit
   */
  #cell(name, unit) {
    const key = `${name}_${unit}`;
    const explained = this.#explained(key);
    const inForce = this.#queue[`effective_${name.replace("flow_", "")}_${unit}`] ?? explained.value ?? null;
    const capacity = this.#queue[`effective_capacity_${unit}`];
    const none = !capacity;
    const from = explained.unknown
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

class Form {
  #version;
  #start;
  /** @type {any[]} */
  #fields = [];
  #reason;
  #problem = h("div", { class: "notice error", role: "alert", hidden: true });
  #note = h("p", { class: "hint form-note", "aria-live": "polite" });
  #save = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Save limits");
  #done;
  #changedBy;
  #timer = 0;
  /** @type {any} */
  #asked = null;

  /**
   * @param {any} queue
   * @param {any} explain
   * @param {(...given: any[]) => any} done
   */
  constructor(queue, explain, done) {
    this.#version = queue.version;
    this.#changedBy = new ChangedBy(queue.object);
    this.#changedBy.newest().then((row) => this.#changedBy.shows(row));
    this.#start = Object.fromEntries(settings.policy.map((/** @type {any} */ { name }) => [name, queue[name] ?? null]));
    this.#done = done;
    for (const declared of inRows(settings.policy)) {
      this.#fields.push(
        field(declared, {
          value: queue[declared.name],
          label: labelOf(declared),
          inherits: true,
          placeholder: this.#inherited(declared.name, explain),
          hint: declared.description,
          changed: () => this.#typed(),
        }),
      );
    }
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
      this.#problem,
      h("div", { class: "form-actions" }, cancel, this.#save),
    );
    this.element.addEventListener("keydown", (event) => event.key === "Escape" && this.#done(null));
  }

  focus() {
    this.#fields[0].input.focus();
  }

  /**
   * While it is edited, somebody else may change it: say so, keep what was typed.
   *
   * @param {any} queue
   * @param {any} explain
   */
  arrived(queue, explain) {
    for (const f of this.#fields) f.input.placeholder = this.#inherited(f.declared.name, explain);
    const changed = settings.policy.some((/** @type {any} */ { name }) => (queue[name] ?? null) !== this.#start[name]);
    if (changed && this.#problem.hidden) this.#conflict(queue);
  }

  /**
   * @param {any} name
   * @param {any} explain
   */
  #inherited(name, explain) {
    const explained = explain[name];
    if (!explained) return "inherited";
    if (explained.origin === "own")
      return explained.inherited === undefined ? "inherited" : this.#value(name, explained.inherited);
    return `${this.#value(name, explained.value)} (${origin(explained.origin)})`;
  }

  /**
   * @param {any} name
   * @param {any} value
   */
  #value(name, value) {
    if (value === null || value === undefined)
      return name.startsWith("capacity") ? "no limit" : name.startsWith("flow_stop") ? "100%" : "not set";
    if (value === 0 && name.startsWith("capacity")) return "no limit";
    return typeof value === "number" ? exact(value) : String(value);
  }

  #changes() {
    return Object.fromEntries(
      this.#fields.map((f) => [f.declared.name, f.read()]).filter(([name, value]) => value !== this.#start[name]),
    );
  }

  #body() {
    return { version: this.#version, reason: this.#reason.input.value.trim(), ...this.#changes() };
  }

  #typed() {
    clearTimeout(this.#timer);
    this.#asked?.abort();
    if (!this.#fields.map((f) => f.check()).every(Boolean)) {
      this.#note.textContent = "";
      return;
    }
    this.#timer = setTimeout(() => this.#askServer(), 250);
  }

  async #askServer() {
    this.#asked = new AbortController();
    try {
      const answer = await post(`${base}check/`, this.#body(), this.#asked.signal);
      for (const f of this.#fields) f.wrong("");
      fill(this.#note, ...this.#willBe(answer));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(this.#note);
      if (error instanceof ApiError && error.status === 400) this.#showWrong(error);
      // Anything else is told when saving: typing must not be interrupted by it.
    }
  }

  /** @param {any} answer */
  #willBe(answer) {
    const effective = answer.effective ?? answer;
    const parts = [];
    for (const unit of ["messages", "bytes"]) {
      /** @param {any} name */
      const get = (name) => effective[`effective_${name}_${unit}`] ?? effective[`${name}_${unit}`];
      if (get("capacity"))
        parts.push(
          `capacity ${amount(get("capacity"), unit)}, stop above ${amount(get("stop"), unit)}, ` +
            `resume at ${amount(get("resume"), unit)}`,
        );
    }
    return [
      parts.length
        ? `Effective limits: ${parts.join("; ")}.`
        : "Effective limits: none. The depth of the queue never blocks producers.",
    ];
  }

  /** @param {any} error */
  #showWrong(error) {
    const left = [];
    for (const f of this.#fields) f.wrong(error.fields[f.declared.name] ?? "");
    for (const [name, text] of Object.entries(error.fields))
      if (!this.#fields.some((f) => f.declared.name === name)) left.push(text);
    this.#tell(left.join(" "));
  }

  /** @param {...any} content */
  #tell(...content) {
    this.#problem.hidden = content.every((part) => part === "");
    fill(this.#problem, h("div", {}, ...content));
  }

  /** @param {Event} event */
  async #submit(event) {
    event.preventDefault();
    clearTimeout(this.#timer);
    if (!this.#fields.map((f) => f.check()).every(Boolean)) {
      find('[aria-invalid="true"]', this.element)?.focus();
      return;
    }
    if (!Object.keys(this.#changes()).length) {
      this.#tell("No changes.");
      return;
    }
    this.#save.disabled = true;
    try {
      const saved = await patch(base, this.#body());
      toast("Limits saved.");
      this.#done(saved.attributes ?? saved);
    } catch (error) {
      this.#save.disabled = false;
      if (error.status === 400) {
        this.#showWrong(error);
        find('[aria-invalid="true"]', this.element)?.focus();
      } else if (error.status === 409) this.#conflict(error.body?.current ?? {});
      else this.#tell(error.message);
    }
  }

  /**
   * Another change came first: show what is there now, keep what was typed, and save over it only if asked again.
   *
   * @param {any} current
   */
  #conflict(current) {
    const now = current.attributes ?? current;
    if (now.version ?? current.version) this.#version = current.version ?? now.version;
    const lines = [];
    for (const f of this.#fields) {
      const name = f.declared.name;
      if (!(name in now)) continue;
      const there = now[name] ?? null;
      if (there !== this.#start[name])
        lines.push(
          h(
            "li",
            {},
            h("strong", {}, words(name)),
            `: ${this.#value(name, this.#start[name])} → ${this.#value(name, there)}`,
            there === null ? " (inherited)" : "",
          ),
        );
      // What was not touched here follows what is there now.
      let mine;
      try {
        mine = f.read();
      } catch {
        mine = undefined;
      }
      if (mine === this.#start[name]) f.set(there);
      this.#start[name] = there;
    }
    this.#tell(
      h("p", {}, this.#changedBy.sentence()),
      lines.length ? h("ul", {}, lines) : "",
      h("p", {}, "Your edits are preserved. Save again to apply them to the new version, or cancel."),
    );
  }
}
