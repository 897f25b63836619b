// A dialog that shows the impact preview of a policy change, with a field for the reason, and applies the change.

import { fill, h } from "../core/elements.js";
import { isolated, parseName, shortName } from "../core/object_names.js";
import { fieldText, labelBeside } from "./policy_fields.js";
import { showPreview } from "./policy_preview.js";

/**
 * `load()` -> {preview, changes, notes, nothing} is called when the dialog opens; `notes`: sentences about what stays
 * as it is; `nothing`: there is nothing to apply. `apply(reason, loaded)` applies the change. The dialog closes when
 * `apply` succeeds.
 *
 * @param {any} options
 */
export function openChangeDialog({ title, action, danger = false, load, apply }) {
  const box = h("div", { class: "preview", "aria-live": "polite" }, h("p", { class: "loading" }, "Loading…"));
  const reason = h("input", { type: "text", maxlength: "500", placeholder: "Reason", name: "reason" });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h(
    "button",
    { type: "submit", class: danger ? "danger solid" : "primary", disabled: true, data: { acts: "" } },
    action,
  );
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "change-title" }, title),
    box,
    h(
      "label",
      { class: "field" },
      h("span", {}, "Reason"),
      reason,
      h("small", { class: "hint" }, "Recorded in the audit trail."),
    ),
    problem,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"),
      submit,
    ),
  );
  const dialog = h("dialog", { class: "dialog wide-dialog", "aria-labelledby": "change-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  /** @param {any} error */
  const showProblem = (error) => {
    problem.hidden = false;
    fill(problem, h("p", {}, error.message));
  };
  /** @type {any} */
  let loaded = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.hidden = true;
    try {
      await apply(reason.value.trim(), loaded);
      dialog.close();
    } catch (error) {
      submit.disabled = false;
      showProblem(error);
    }
  });
  dialog.showModal();
  (async () => {
    try {
      loaded = await load();
      const inside = h("div");
      if (loaded.preview) showPreview(inside, loaded.preview);
      const notes = (loaded.notes ?? []).map((/** @type {string} */ note) => h("p", { class: "muted" }, note));
      fill(box, changesList(loaded.changes ?? []), inside, ...notes);
      submit.disabled = Boolean(loaded.nothing);
      reason.focus();
    } catch (error) {
      fill(box, h("p", { class: "wrong" }, error.message));
    }
  })();
  return dialog;
}

/** @type {Record<string, string>} */
const VERBS = { update: "", create: "is created", delete: "is removed" };

/** @type {Record<string, string>} */
const KINDS = { Broker: "Broker", VirtualHost: "Virtual host", Policy: "Pattern" };
/** @param {any} options */
function inWords({ object }) {
  const type = parseName(object)?.type;
  return type === "Broker" ? "Broker" : `${KINDS[String(type)] ?? type} ${isolated(shortName(object))}`;
}

/**
 * List changes: the object, then each field with its value before and after.
 *
 * @param {any[]} changes
 * @param {any} [nameOf]
 */
export function changesList(changes, nameOf = inWords) {
  return h(
    "ul",
    { class: "changes-list" },
    changes.map((/** @type {any} */ change) =>
      h(
        "li",
        {},
        h("strong", {}, nameOf(change)),
        ` ${VERBS[change.action]}`,
        Object.entries(change.action === "delete" ? (change.was ?? {}) : change.attributes).map(([name, value]) =>
          h(
            "div",
            { class: "change" },
            h("span", { class: "muted" }, labelBeside(name, value, change.was?.[name])),
            " ",
            change.action === "create" ? null : h("del", {}, fieldText(name, change.was?.[name])),
            change.action === "update" ? " → " : null,
            change.action === "delete" ? null : h("ins", {}, fieldText(name, value)),
          ),
        ),
      ),
    ),
  );
}
