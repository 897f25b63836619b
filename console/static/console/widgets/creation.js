// Forms that create and delete managed objects of types that allow it.

import { objectPath, post, query, remove } from "../core/api.js";
import { fill, find, h } from "../core/elements.js";
import { words } from "../core/format.js";
import { formatName, hostOf, isolated, parseName, shortName } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { field, fieldGrid } from "./fields.js";

const REASON = { name: "reason", kind: "string", unit: "", choices: [], description: "Recorded in the audit trail." };

/**
 * "VirtualHost" -> "virtual host"
 *
 * @param {any} type
 */
const inWords = (type) => type.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();

/**
 * Return the form for a new object. `where`: attributes given by its place in the tree; `created(name)` is called
 * afterwards.
 *
 * @param {any} type
 * @param {any} where
 * @param {any} created
 */
export function creation(type, where, created) {
  const keys = type.attributes.filter((/** @type {any} */ a) => type.keys.includes(a.name));
  const others = type.attributes.filter(
    (/** @type {any} */ a) => !type.keys.includes(a.name) && (a.writable || a.creatable),
  );
  /** @param {any} declared */
  const make = (declared) =>
    field(declared, {
      value: where[declared.name] ?? null,
      placeholder: declared.secret ? "generated if empty" : declared.nullable ? "not set" : "",
      hint: declared.description,
    });
  const keyFields = keys.map(make);
  const otherFields = others.map(make);
  const reason = field(REASON, { hint: REASON.description });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Create");
  const form = h(
    "form",
    { class: "attributes-form", novalidate: true },
    h(
      "div",
      { class: "field-grid" },
      keyFields.map((/** @type {any} */ f) => f.element),
    ),
    otherFields.length ? fieldGrid(otherFields) : null,
    reason.element,
    problem,
    h("div", { class: "form-actions start" }, submit),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const all = [...keyFields, ...otherFields];
    if (!all.map((f) => f.check()).every(Boolean)) return;
    const name = formatName(
      type.name,
      Object.fromEntries(keyFields.map((/** @type {any} */ f) => [f.declared.name, f.read()])),
    );
    const attributes = Object.fromEntries(
      otherFields
        .map((/** @type {any} */ f) => [f.declared.name, f.read()])
        .filter((/** @type {any} */ [, value]) => value !== null && value !== undefined && value !== ""),
    );
    submit.disabled = true;
    try {
      const made = await post(`brokers/${encodeURIComponent(settings.broker)}/objects/`, {
        object: name,
        attributes,
        reason: reason.input.value.trim(),
      });
      toast(`Created ${isolated(shortName(made.name))}.`);
      const secrets = type.attributes.filter((/** @type {any} */ a) => a.secret && made.attributes[a.name]);
      if (secrets.length) fill(form, ...shownOnce(secrets, made, () => created(made.name)));
      else created(made.name);
    } catch (error) {
      submit.disabled = false;
      for (const f of all) f.wrong(error.fields?.[f.declared.name] ?? "");
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
    }
  });
  return [
    h("header", { class: "card-head" }, h("h2", {}, `New ${inWords(type.name)}`)),
    h("p", { class: "card-text muted" }, type.description),
    form,
  ];
}

/**
 * Show generated secrets, which are shown only once; `noted` is called when the user confirms.
 *
 * @param {any} secrets
 * @param {any} made
 * @param {any} noted
 */
function shownOnce(secrets, made, noted) {
  return [
    h("div", { class: "notice", role: "status" }, h("p", {}, h("strong", {}, "Note this now: it is not shown again."))),
    h(
      "dl",
      { class: "facts" },
      secrets.flatMap((/** @type {any} */ a) => [
        h("dt", {}, words(a.name)),
        h("dd", {}, h("code", { class: "shown-once" }, made.attributes[a.name])),
      ]),
    ),
    h(
      "div",
      { class: "form-actions start" },
      h("button", { type: "button", class: "primary", on: { click: noted } }, "I have noted it"),
    ),
  ];
}

/**
 * Return the form that deletes an object, with the same confirmation as other destructive operations.
 *
 * @param {any} name
 * @param {any} version
 */
export function deletion(name, version) {
  const parsed = /** @type {import("../core/object_names.js").ObjectName} */ (parseName(name));
  const type = inWords(parsed.type);
  const sure = h(
    "label",
    { class: "sure" },
    h("input", { type: "checkbox" }),
    h("span", {}, "I understand that this cannot be undone"),
  );
  const reason = field(REASON, { hint: REASON.description });
  const answer = h("div", { class: "operation-answer", "aria-live": "polite" });
  const button = h(
    "button",
    {
      type: "submit",
      class: "danger",
      ...unlessAllowed(parsed.type, "delete", parsed.type === "VirtualHost" ? null : hostOf(name)),
    },
    `Delete this ${type}`,
  );
  const form = h(
    "form",
    { class: "operation", novalidate: true },
    h("h3", {}, h("code", {}, "delete"), h("span", { class: "tag effect-destroy" }, "cannot be undone")),
    h("p", { class: "muted" }, `Remove the ${type} and what is in it.`),
    reason.element,
    sure,
    h("div", { class: "form-actions start" }, button),
    answer,
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!find("input", sure).checked) {
      fill(answer, h("p", { class: "wrong" }, "Confirm first: this cannot be undone."));
      find("input", sure).focus();
      return;
    }
    button.disabled = true;
    try {
      await remove(
        objectPath(settings.broker, name) + query({ version: version(), reason: reason.input.value.trim() }),
      );
      fill(answer, h("p", { class: "done" }, "It is deleted."));
      toast(`Deleted ${isolated(shortName(name))}.`);
    } catch (error) {
      button.disabled = false;
      fill(answer, h("p", { class: "wrong" }, error.message));
    }
  });
  return form;
}
