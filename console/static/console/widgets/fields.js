// Inputs for declared attributes and arguments, and parsing of their values.

import { h, setAttribute, setText } from "../core/elements.js";
import { exact, readAmount, words } from "../core/format.js";
import { withHelp } from "./field_help.js";
import { grantsField } from "./grants_field.js";

const LONG = new Set(["reason"]);

/**
 * Format a value for an input.
 *
 * @param {any} value
 */
const asText = (value) =>
  value === null || value === undefined ? "" : typeof value === "object" ? JSON.stringify(value) : String(value);

/**
 * Return an input with label, hint and error for a declared attribute. `hint` is shown below the input; `placeholder`
 * while it is empty. `read()` returns the value or throws Error with a message; `set(value)`; `wrong(text)` shows an
 * error; `input` is the element. `inherits`: an empty field inherits the value of another object. `helps`: the field
 * has help beside its label.
 *
 * @param {any} declared
 * @param {any} [options]
 */
export function field(
  declared,
  {
    value = null,
    hint = "",
    placeholder = "",
    label = words(declared.name),
    inherits = false,
    helps = false,
    changed = () => {},
  } = {},
) {
  if (declared.name === "grants" && declared.kind === "list")
    return grantsField(declared, { value, hint, label, changed });
  const id = `f-${declared.name}-${Math.random().toString(36).slice(2, 8)}`;
  const input = inputFor(declared, value, placeholder);
  input.id = id;
  input.name = declared.name;
  // If values are inherited, empty text ("none") is a value that differs from inherited.
  const none =
    inherits && declared.nullable && declared.kind === "string" && !declared.choices?.length && !declared.secret
      ? h("input", { type: "checkbox", name: `${declared.name}-none`, checked: value === "" })
      : null;
  if (none) input.disabled = none.checked;
  const exactly = h("small", { class: "hint exactly" });
  const note = h("small", { class: "hint", id: `${id}-hint` }, hint);
  const error = h("small", { class: "wrong", id: `${id}-wrong`, role: "alert" });
  input.setAttribute("aria-describedby", `${id}-hint ${id}-wrong`);
  const labelled = h("label", { for: id }, h("span", {}, label, declared.required ? h("em", {}, " required") : null));
  const element = h(
    "div",
    { class: `field kind-${declared.kind}` },
    helps ? withHelp(labelled, declared.name) : labelled,
    input,
    none ? h("label", { class: "sure none" }, none, h("span", {}, "None (override inherited value)")) : null,
    exactly,
    note,
    error,
  );

  const self = {
    element,
    input,
    declared,
    note,
    read: () => (none?.checked ? "" : readField(declared, input)),
    /** Show a value; null: not set. */
    set(/** @type {any} */ to) {
      input.value = asText(to);
      if (none) input.disabled = none.checked = to === "";
    },
    wrong(/** @type {string} */ text) {
      setText(error, text);
      setAttribute(input, "aria-invalid", text ? "true" : null);
    },
    /** Show errors that can be detected in the browser; return whether there are none. */
    check() {
      try {
        const read = self.read();
        self.wrong("");
        const typed = input.value?.trim() ?? "";
        setText(exactly, Number.isInteger(read) && typed !== String(read) ? `= ${exact(read)} ${declared.unit}` : "");
        return true;
      } catch (problem) {
        setText(exactly, "");
        self.wrong(problem.message);
        return false;
      }
    },
  };
  input.addEventListener("input", () => changed(self, self.check()));
  none?.addEventListener("change", () => {
    input.disabled = none.checked;
    if (none.checked) input.value = "";
    changed(self, self.check());
  });
  input.addEventListener("change", () => changed(self, self.check()));
  return self;
}

/**
 * @param {any} declared
 * @param {any} value
 * @param {any} placeholder
 */
function inputFor(declared, value, placeholder) {
  const text = asText(value);
  if (declared.choices?.length || declared.kind === "boolean") {
    const choices = declared.choices?.length ? declared.choices : ["true", "false"];
    return h(
      "select",
      {},
      declared.nullable || value === null ? h("option", { value: "" }, placeholder || "not set") : null,
      choices.map((/** @type {any} */ choice) => h("option", { value: choice, selected: choice === text }, choice)),
    );
  }
  if (declared.kind === "list" || declared.kind === "map" || LONG.has(declared.name)) {
    return h("textarea", { rows: "2", value: text, placeholder, spellcheck: LONG.has(declared.name) ? null : "false" });
  }
  if (declared.secret) return h("input", { type: "password", value: "", placeholder, autocomplete: "new-password" });
  const numeric = declared.kind === "integer" || declared.kind === "level" || declared.kind === "number";
  return h("input", {
    type: "text",
    value: text,
    placeholder,
    spellcheck: "false",
    autocomplete: "off",
    class: numeric ? "numeric" : null,
  });
}

/**
 * @param {any} declared
 * @param {any} input
 */
function readField(declared, input) {
  if (declared.secret) return input.value || undefined; // as entered; empty: unchanged
  const text = input.value.trim();
  if (text === "") {
    if (declared.nullable) return null;
    if (declared.kind === "string" && !declared.required) return "";
    if (!declared.required) return undefined;
    throw new Error("This must not be empty.");
  }
  switch (declared.kind) {
    case "boolean":
      return text === "true";
    case "integer":
    case "timestamp":
      return amountIn(text, "a whole number of 0 or more, such as 5000, 64 kB or 10 MiB");
    case "level": {
      const match = /^(\d+(?:\.\d+)?)\s*%$/.exec(text);
      if (match) {
        if (Number(match[1]) > 100) throw new Error("A percentage goes from 0% to 100%.");
        return `${match[1]}%`;
      }
      return amountIn(text, "a whole number of 0 or more, or a percentage such as 80%");
    }
    case "number":
      if (Number.isNaN(Number(text))) throw new Error("This must be a number.");
      return Number(text);
    case "list":
    case "map":
      try {
        return JSON.parse(text);
      } catch {
        throw new Error(`This must be JSON: ${declared.kind === "list" ? '["a", "b"]' : '{"key": "value"}'}.`);
      }
    default:
      return text;
  }
}

/**
 * @param {string} text
 * @param {any} what
 */
function amountIn(text, what) {
  const value = readAmount(text);
  if (value === null) throw new Error(`This must be ${what}.`);
  return value;
}

/**
 * Return fields in a grid, with the description of the focused field below all of them: nothing moves when the focus
 * changes, so that a click on a button below hits it.
 *
 * @param {any[]} fields
 */
export function fieldGrid(fields) {
  const says = h("p", { class: "hint says", "aria-hidden": "true" }, fields[0]?.declared.description ?? "");
  const grid = h(
    "div",
    { class: "field-grid" },
    fields.map((/** @type {any} */ f) => f.element),
  );
  grid.addEventListener("focusin", (event) => {
    const focused = fields.find((/** @type {any} */ f) => f.input === event.target);
    if (focused) setText(says, focused.declared.description);
  });
  return [grid, says];
}
