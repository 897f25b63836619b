// The declared policy fields for people: their labels, their order, their values, and where a value comes from.

import { h } from "../core/elements.js";
import { amount, exactAmount, words } from "../core/format.js";
import { settings } from "../core/settings.js";

/** @type {Record<string, string>} */
const ORIGINS = { own: "its own", virtualhost: "virtual host", broker: "broker", "built-in": "built in" };
/** @type {Record<string, string>} */
export const LABELS = {
  capacity: "Capacity",
  flow_stop: "Stop above",
  flow_resume: "Resume at",
  producer_window: "Producer window",
};

/** @param {any} name */
export const stem = (name) => name.replace(/_(bytes|messages)$/, "");
/** @param {any} declared */
export const labelOf = (declared) =>
  LABELS[stem(declared.name)] ? `${LABELS[stem(declared.name)]}, ${declared.unit}` : words(declared.name);

/**
 * Messages before bytes, as in the table, and what belongs together in one row.
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
export const origin = (of) => ORIGINS[of] ?? of ?? "built in";

const PRIORITY = { name: "priority", kind: "integer", unit: "", choices: [] };
/** @param {any} name */
export const declaredField = (name) =>
  settings.policy.find((/** @type {any} */ f) => f.name === name) ?? { ...PRIORITY, name };

/**
 * A value of a field as text: "no limit", "80%", "64 kB".
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
    ? `${amount(value, unit)}${unit && unit !== "bytes" ? ` ${unit}` : ""}`
    : String(value);
}

/**
 * The label of a field beside these values: without its unit if one of them says it.
 *
 * @param {any} name
 * @param {...any} values
 */
export const labelBeside = (name, ...values) =>
  values.some((value) => typeof value === "number" && value > 0)
    ? labelOf(declaredField(name)).replace(/, (messages|bytes)$/, "")
    : labelOf(declaredField(name));

/**
 * The same as `fieldText`, with the exact value on hover.
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
 * What an object sets: one chip for each field.
 *
 * @param {any} set
 */
export function settingChips(set) {
  const names = ["priority", ...inRows(settings.policy).map((f) => f.name)].filter((name) => name in set);
  if (!names.length) return h("span", { class: "muted" }, "nothing: all is inherited");
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
 * The page of a scope.
 *
 * @param {any} object
 */
export const scopeUrl = (object) => {
  const broker = new URLSearchParams(location.search).get("broker");
  return (
    `/policies/scope/?object=${encodeURIComponent(object)}` + `${broker ? `&broker=${encodeURIComponent(broker)}` : ""}`
  );
};
