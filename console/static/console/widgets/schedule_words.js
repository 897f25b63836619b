// Schedules as text: action, target, duration and times.

import { duration } from "../core/format.js";
import { isolated, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { fieldText, labelBeside } from "./policy_fields.js";

/** @type {Record<string, string>} */
export const ACTIONS = { stop: "Stop", start: "Start", policy: "Policy" };
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const SHORT = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/**
 * Format a moment in a time zone: "Mon 4 Jan, 22:00", with the year unless it is the current one.
 *
 * @param {string} text
 * @param {any} zone
 */
export function inZone(text, zone) {
  const at = new Date(text);
  /** @type {Intl.DateTimeFormatOptions} */
  const year = at.getFullYear() === new Date().getFullYear() ? {} : { year: "numeric" };
  return at.toLocaleString("en-GB", {
    timeZone: zone,
    weekday: "short",
    day: "numeric",
    month: "short",
    ...year,
    hour: "2-digit",
    minute: "2-digit",
  });
}

/**
 * Format a policy field that a schedule sets. Pages without the fields' declarations show name and value only.
 *
 * @param {any} name
 * @param {any} value
 */
const settingText = (name, value) =>
  settings.policy
    ? `${labelBeside(name, value)} ${value === null ? "inherited" : fieldText(name, value)}`
    : `${name} ${value}`;

/** @param {any} of */
export function whatInWords(of) {
  const target = of.target === "type=Broker" ? "the broker" : of.target ? isolated(shortName(of.target)) : "…";
  let what =
    of.action === "policy"
      ? `Set ${Object.entries(of.attributes)
          .map(([name, value]) => settingText(name, value))
          .join(", ")} on ${target}`
      : `${ACTIONS[of.action]} producers of ${of.pattern ? `queues ${isolated(of.pattern)} of ` : ""}${target}`;
  if (of.effect) what += ` (${of.effect})`;
  return of.lasts ? `${what} for ${duration(of.lasts * 60_000).replace(/ 0 (s|min|h)$/, "")}` : what;
}

/**
 * Parse the weekdays of a cron expression ("0,6", "mon-fri"); null if they have another form.
 *
 * @param {string} text
 */
function daysOf(text) {
  const found = new Set();
  for (const part of text.toLowerCase().split(",")) {
    const [first, last = first] = part
      .split("-")
      .map((day) => (/^\d$/.test(day) ? Number(day) % 7 : SHORT.indexOf(day)));
    if (first < 0 || last < 0 || Number.isNaN(first)) return null;
    for (let day = first; ; day = (day + 1) % 7) {
      found.add(day);
      if (day === last) break;
    }
  }
  return found;
}

/** @param {string} text */
export function weekdaysOf(text) {
  return text === "*" ? new Set([0, 1, 2, 3, 4, 5, 6]) : daysOf(text);
}

/** @param {any} of */
export function whenInWords(of) {
  if (of.once) return `Once, ${of.once.replace("T", " ")}`;
  const days = of.days === "*" && of.months === "*" ? weekdaysOf(of.weekdays) : null;
  if (!days || !/^\d+$/.test(of.hour) || !/^\d+$/.test(of.minute))
    return `Cron: ${of.minute} ${of.hour} ${of.days} ${of.months} ${of.weekdays}`;
  const at = `${of.hour.padStart(2, "0")}:${of.minute.padStart(2, "0")}`;
  if (days.size === 7) return `Every day at ${at}`;
  return `${[1, 2, 3, 4, 5, 6, 0]
    .filter((day) => days.has(day))
    .map((day) => (days.size > 2 ? DAYS[day].slice(0, 3) : DAYS[day]))
    .join(", ")} at ${at}`;
}
