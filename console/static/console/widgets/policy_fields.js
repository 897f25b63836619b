// The declared policy fields as text: labels, order, values and origins.

import { h } from "../core/elements.js";
import { amount, exactAmount, unitFor, words } from "../core/format.js";
import { settings } from "../core/settings.js";

/** @type {Record<string, string>} */
const ORIGINS = { own: "queue", virtualhost: "virtual host", broker: "broker", "built-in": "default" };
/** @type {Record<string, string>} */
export const LABELS = {
  capacity: "Capacity",
  flow_stop: "Stop above",
  flow_resume: "Resume at",
  producer_window: "Producer window",
};

/** @param {any} name */
export const stem = (name) => name.replace(/_(bytes|messages)$/, "");
/**
 * The label of a field beside a value with its unit.
 *
 * @param {string} name
 */
export const labelFor = (name) => LABELS[stem(name)] ?? words(name);
/** @param {any} declared */
export const labelOf = (declared) =>
  LABELS[stem(declared.name)]
    ? `${LABELS[stem(declared.name)]}, ${declared.unit}`
    : words(declared.name).replace(/ ms$/, ", ms");

/**
 * Sort fields as the table shows them: by stem, messages before bytes.
 *
 * @param {any} policy
 */
export function inRows(policy) {
  const stems = [...new Set(policy.map((/** @type {any} */ { name }) => stem(name)))];
  return stems.flatMap((wanted) =>
    policy
      .filter((/** @type {any} */ { name }) => stem(name) === wanted)
      .sort((/** @type {any} */ a, /** @type {any} */ b) => b.unit.localeCompare(a.unit)),
  );
}

/** @param {any} of */
export const origin = (of) => ORIGINS[of] ?? of ?? "origin not known";

const PRIORITY = { name: "priority", kind: "integer", unit: "", choices: [] };
/** @param {any} name */
export const declaredField = (name) =>
  settings.policy.find((/** @type {any} */ f) => f.name === name) ?? { ...PRIORITY, name };

/**
 * Format the value of a field: "no limit", "80%", "64 kB".
 *
 * @param {any} name
 * @param {any} value
 */
export function fieldText(name, value) {
  if (value === null || value === undefined) return /^flow_resume/.test(name) ? "the stop level" : "not set";
  if (value === "") return "none";
  if (value === 0 && /^(capacity|flow_stop|producer_window_bytes|maximum_deliveries)/.test(name)) return "no limit";
  const { unit } = declaredField(name);
  return typeof value === "number"
    ? `${amount(value, unit)}${unit && unit !== "bytes" ? ` ${unitFor(value, unit)}` : ""}`
    : String(value);
}

/**
 * The label of a field next to these values, without its unit if one of the values includes it.
 *
 * @param {any} name
 * @param {...any} values
 */
export const labelBeside = (name, ...values) =>
  values.some((value) => typeof value === "number" && value > 0)
    ? labelOf(declaredField(name)).replace(/, (messages|bytes)$/, "")
    : labelOf(declaredField(name));

/**
 * `fieldText` as an element with the exact value as its tooltip.
 *
 * @param {any} name
 * @param {any} value
 */
export const fieldValue = (name, value) =>
  h(
    "span",
    { title: typeof value === "number" ? exactAmount(value, declaredField(name).unit) : null },
    fieldText(name, value),
  );

/**
 * Overrides of an object, one chip per field.
 *
 * @param {any} set
 */
export function settingChips(set) {
  const names = ["priority", ...inRows(settings.policy).map((f) => f.name)].filter((name) => name in set);
  if (!names.length) return h("span", { class: "muted" }, "No overrides");
  return h(
    "ul",
    { class: "settings-list" },
    names.map((name) =>
      h(
        "li",
        { class: "setting" },
        h("span", { class: "muted" }, labelBeside(name, set[name])),
        " ",
        fieldValue(name, set[name]),
      ),
    ),
  );
}

/**
 * The URL of the page of a scope.
 *
 * @param {any} object
 */
export const scopeUrl = (object) => {
  const broker = new URLSearchParams(location.search).get("broker");
  return (
    `/policies/scope/?object=${encodeURIComponent(object)}` + `${broker ? `&broker=${encodeURIComponent(broker)}` : ""}`
  );
};
