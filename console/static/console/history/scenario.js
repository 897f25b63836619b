// A scenario of a simulation: levels, in the address, in the form and in words. A resume level of null follows the
// capacity, as that of a queue without one; 0 is a level: its producers resume when it is empty. Pure.

import { exact, exactAmount, readAmount } from "../core/format.js";

export const UNITS = ["messages", "bytes"];
export const LIMITS = [
  ["capacity_messages", "Capacity, messages"],
  ["resume_messages", "Resume at, messages"],
  ["capacity_bytes", "Capacity, bytes"],
  ["resume_bytes", "Resume at, bytes"],
];

/** @typedef {Record<string, number | null>} Scenario */

const isResume = (/** @type {string} */ name) => name.startsWith("resume_");

/** What a field stands for while it is empty. @param {string} name */
export const placeholderOf = (name) => (isResume(name) ? "as capacity" : "no limit");

/**
 * Parse a scenario of the address: "1000:800:0:0", with nothing for a resume level that follows the capacity.
 *
 * @param {string} text
 * @returns {Scenario}
 */
export function fromAddress(text) {
  const parts = text.split(":");
  return Object.fromEntries(
    LIMITS.map(([name], index) => {
      const part = parts[index] ?? "";
      const number = Number(part);
      if (part === "" || !Number.isSafeInteger(number) || number < 0) return [name, isResume(name) ? null : 0];
      return [name, number];
    }),
  );
}

/**
 * Without a capacity, there is no resume level to leave open.
 *
 * @param {Scenario} scenario
 */
export const toAddress = (scenario) =>
  LIMITS.map(([name]) => scenario[name] ?? (scenario[name.replace("resume_", "capacity_")] ? "" : 0)).join(":");

/**
 * The text of a field of the form.
 *
 * @param {Scenario} scenario
 * @param {string} name
 */
export function fieldText(scenario, name) {
  const value = scenario[name];
  if (value) return exact(value);
  return value === 0 && isResume(name) && scenario[name.replace("resume_", "capacity_")] ? "0" : "";
}

/**
 * Parse the text of a field; undefined: it is not an amount.
 *
 * @param {string} name
 * @param {string} text
 */
export function readLevel(name, text) {
  if (!text.trim()) return isResume(name) ? null : 0;
  return readAmount(text) ?? undefined;
}

/**
 * Return the scenario with all levels multiplied.
 *
 * @param {Scenario} scenario
 * @param {number} factor
 * @returns {Scenario}
 */
export const scaled = (scenario, factor) =>
  Object.fromEntries(
    LIMITS.map(([name]) => {
      const value = scenario[name];
      return [name, value === null || value === undefined ? null : value * factor];
    }),
  );

/**
 * Return why a scenario is contradictory, or "".
 *
 * @param {Scenario} scenario
 */
export function faultOf(scenario) {
  for (const unit of UNITS) {
    const [capacity, resume] = [scenario[`capacity_${unit}`] ?? 0, scenario[`resume_${unit}`] ?? 0];
    if (resume <= capacity) continue;
    return capacity
      ? `the resume level of ${exactAmount(resume, unit)} is above the capacity of ${exactAmount(capacity, unit)}.`
      : `a resume level of ${exactAmount(resume, unit)} needs a capacity in ${unit}.`;
  }
  return "";
}

/**
 * A level of a simulated result in words. `limits` has no null.
 *
 * @param {any} limits
 * @param {string} name
 */
export function levelInWords(limits, name) {
  if (limits[name]) return exact(limits[name]);
  return isResume(name) && limits[name.replace("resume_", "capacity_")] ? "0 (when empty)" : "no limit";
}
