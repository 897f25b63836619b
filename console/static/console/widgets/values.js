// Attribute values as text or elements, by their declared kind and unit.

import { h, icon } from "../core/elements.js";
import { bytes, duration, exact, rate } from "../core/format.js";
import { isolated, objectUrl, partsOf, scopeInWords, shortName } from "../core/object_names.js";
import { clockElement, sinceElement } from "../core/times.js";
import { stateElement } from "./states.js";

/**
 * Return an element (or text) for a value. `declared` has kind, unit, nullable.
 *
 * @param {any} declared
 * @param {any} value
 */
export function valueNode(declared, value) {
  if (declared.secret && !value) return h("span", { class: "muted" }, "never shown");
  if (value === null || value === undefined) return h("span", { class: "muted" }, "not set");
  if (declared.name === "state") return stateElement(value);
  if (declared.name === "stops") return stopsNode(value);
  switch (declared.kind) {
    case "boolean":
      return value ? "yes" : "no";
    case "timestamp":
      return h("span", {}, clockElement(value), h("span", { class: "muted" }, " (", sinceElement(value), " ago)"));
    case "name":
      return String(value).startsWith("type=") ? h("a", { href: objectUrl(value) }, shortName(value)) : String(value);
    case "integer":
      if (declared.unit === "bytes" && value >= 1000)
        return h("span", {}, exact(value), h("span", { class: "muted" }, ` bytes (${bytes(value)})`));
      if (declared.unit === "ms") return h("span", { title: `${exact(value)} ms` }, duration(value));
      return withUnit(exact(value), declared.unit);
    case "number":
      return h("span", { title: String(value) }, withUnit(rate(value), declared.unit));
    case "level":
      return typeof value === "number" ? withUnit(exact(value), declared.unit) : value;
    case "list":
      if (!value.length) return h("span", { class: "muted" }, "none");
      return value.every((/** @type {any} */ item) => typeof item !== "object") ? value.join(", ") : json(value);
    case "map":
      return json(value);
    default:
      return value === "" ? h("span", { class: "muted" }, "empty") : String(value);
  }
}

/**
 * @param {string} text
 * @param {string} unit
 */
const withUnit = (text, unit) => (unit ? h("span", {}, text, h("span", { class: "muted" }, ` ${unit}`)) : text);

/** @param {any} value */
const json = (value) => h("pre", { class: "json" }, JSON.stringify(value, null, 2));

/** @param {any[]} stops */
function stopsNode(stops) {
  if (!stops.length) return h("span", { class: "muted" }, "none");
  return h(
    "ul",
    { class: "plain-list" },
    stops.map((/** @type {any} */ stop) =>
      h(
        "li",
        {},
        icon("stopped"),
        ` ${scopeInWords(stop.scope)}: ${stop.reason || "no reason given"} `,
        h(
          "span",
          { class: "muted" },
          `– ${stop.actor || (stop.halted ? "the broker" : "an unknown user")}, for `,
          sinceElement(stop.since),
        ),
      ),
    ),
  );
}

/**
 * An object name in full, each value isolated: one in a right-to-left script does not move the keys around it.
 *
 * @param {string} name
 */
export const nameInFull = (name) =>
  partsOf(name)?.flatMap(([key, value], index) => [`${index ? "," : ""}${key}=`, h("bdi", {}, value)]) ?? name;

/**
 * "queue-overfull:orders" -> "queue orders is overfull"
 *
 * @param {any} reason
 */
export function reasonInWords(reason) {
  const [kind, ...rest] = reason.split(":");
  const name = rest.join(":");
  if (kind === "queue-overfull")
    return `queue ${isolated(name.startsWith("type=") ? shortName(name) : name)} is overfull`;
  if (kind === "operator-stop") return `an operator stopped ${name ? scopeInWords(name) : "it"}`;
  return reason.replaceAll("-", " ");
}
