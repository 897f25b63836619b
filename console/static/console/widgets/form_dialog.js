// Plain fields with error messages, and a dialog with such fields.

import { fill, h, setAttribute, setText } from "../core/elements.js";
import { withHelp } from "./field_help.js";

/**
 * Return a labelled input: {element, input, wrong(text)}. `choices`: [[value, text]] for a select; `rows`: a textarea;
 * `helps`: with help beside its label.
 *
 * @param {any} name
 * @param {string} label
 * @param {any} [options]
 */
export function plainField(
  name,
  label,
  { value = "", hint = "", type = "text", choices = null, rows = 0, helps = false, ...more } = {},
) {
  const id = `p-${name}-${Math.random().toString(36).slice(2, 8)}`;
  const attributes = { id, name, "aria-describedby": `${id}-wrong ${id}-hint`, ...more };
  const input = choices
    ? h(
        "select",
        attributes,
        choices.map((/** @type {any} */ [choice, text]) =>
          h("option", { value: choice, selected: String(choice) === String(value) }, text),
        ),
      )
    : rows
      ? h("textarea", { rows, spellcheck: "false", ...attributes, value })
      : h("input", { type, autocomplete: "off", spellcheck: "false", ...attributes, value });
  const problem = h("small", { class: "wrong", id: `${id}-wrong`, role: "alert" });
  const element = h(
    "div",
    { class: "field" },
    helps ? withHelp(h("label", { for: id }, label), name) : h("label", { for: id }, label),
    input,
    h("small", { class: "hint", id: `${id}-hint` }, hint),
    problem,
  );
  return {
    name,
    element,
    input,
    wrong(/** @type {string} */ text) {
      setText(problem, text);
      setAttribute(input, "aria-invalid", text ? "true" : null);
    },
  };
}

/**
 * Show the errors of an ApiError at their fields, and the others in `problem`.
 *
 * @param {any} error
 * @param {any[]} fields
 * @param {any} problem
 */
export function showWrong(error, fields, problem) {
  const named = { ...(error.fields ?? {}) };
  let first = null;
  for (const each of fields) {
    each.wrong(named[each.name] ?? "");
    if (named[each.name]) first ??= each.input;
    delete named[each.name];
  }
  const rest = Object.values(named).join(" ");
  const text = rest || (first ? "" : error.message);
  problem.hidden = !text;
  fill(problem, h("p", {}, text));
  first?.focus();
}

/**
 * Open a dialog. `submit(values, form)` can throw an ApiError; elements that it returns replace the form.
 *
 * @param {any} options
 */
export function openFormDialog({ title, says = "", fields, action, danger = false, submit }) {
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const button = h("button", { type: "submit", class: danger ? "danger solid" : "primary" }, action);
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "form-title" }, title),
    says ? h("p", { class: "muted" }, says) : null,
    fields.map((/** @type {any} */ f) => f.element),
    problem,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"),
      button,
    ),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "form-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    try {
      const after = await submit(Object.fromEntries(fields.map((/** @type {any} */ f) => [f.name, f.input.value])));
      if (!after) return dialog.close();
      fill(
        form,
        h("h2", { id: "form-title" }, title),
        after,
        h(
          "div",
          { class: "dialog-actions" },
          h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, "Close"),
        ),
      );
    } catch (error) {
      button.disabled = false;
      showWrong(error, fields, problem);
    }
    return undefined;
  });
  dialog.showModal();
  (fields[0]?.input ?? button).focus();
  return dialog;
}
