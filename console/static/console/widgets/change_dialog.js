// A dialog that shows what a change of policies would do, asks for a reason, and makes it.

import { fill, h } from "../core/elements.js";
import { parseName, shortName } from "../core/object_names.js";
import { fieldText, labelBeside } from "./policy_fields.js";
import { showPreview } from "./policy_preview.js";

/**
 * `ask()` -> {preview, changes}: what it would do, asked when the dialog opens; `apply(reason, asked)` makes it. The
 * dialog closes when that has succeeded.
 *
 * @param {any} options
 */
export function openChangeDialog({ title, action, danger = false, ask, apply }) {
  const box = h("div", { class: "preview", "aria-live": "polite" }, h("p", { class: "loading" }, "Asking the broker…"));
  const reason = h("input", { type: "text", maxlength: "500", placeholder: "Why", name: "reason" });
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
      h("small", { class: "hint" }, "Kept in the audit trail."),
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
  const tell = (error) => {
    problem.hidden = false;
    fill(problem, h("p", {}, error.message));
  };
  /** @type {any} */
  let asked = null;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    submit.disabled = true;
    problem.hidden = true;
    try {
      await apply(reason.value.trim(), asked);
      dialog.close();
    } catch (error) {
      submit.disabled = false;
      tell(error);
    }
  });
  dialog.showModal();
  (async () => {
    try {
      asked = await ask();
      const inside = h("div");
      if (asked.preview) showPreview(inside, asked.preview);
      fill(box, changesList(asked.changes ?? []), inside);
      submit.disabled = false;
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
  return type === "Broker" ? "Broker" : `${KINDS[String(type)] ?? type} ${shortName(object)}`;
}

/**
 * The changes themselves: object, then field by field what was and what will be.
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
