// What the viewer is permitted to do, for controls that say so. The server decides again in each call.

import { settings } from "./settings.js";

/** @type {Record<string, string>} */
const ROLES = { operate: "operator", edit: "policy editor", administer: "administrator" };

/**
 * Whether the viewer may `operate`, `edit` or `administer` a virtual host, the broker as a whole (null), or, left out,
 * anything at all on this page's broker.
 *
 * @param {any} what
 * @param {any} [host]
 */
export function may(what, host = undefined) {
  const hosts = settings.may?.[what];
  if (hosts === null) return true;
  return Boolean(hosts?.length) && (host === undefined || hosts.includes(host));
}

/**
 * Properties of a button: a viewer without the permission sees it all the same, and reads why it is off.
 *
 * @param {any} what
 * @param {any} [host]
 */
export const unless = (what, host = undefined) =>
  may(what, host) ? { data: {} } : { "aria-disabled": "true", data: { needs: ROLES[what] } };

/**
 * The same for what is done at the broker: it is off while that does not answer.
 *
 * @param {any} what
 * @param {any} [host]
 */
export function acting(what, host = undefined) {
  const { data, ...others } = unless(what, host);
  return { ...others, data: { ...data, acts: "" } };
}

/**
 * The same for what is done to objects of a type: `update`, `create`, `delete`, or an operation.
 *
 * @param {any} type
 * @param {string} [action]
 * @param {any} [host]
 */
export function unlessAllowed(type, action = "call", host = undefined) {
  const policy = type === "Policy" || type === "SlowConsumerPolicy";
  if (type === "User") return acting("administer", null);
  return acting(action === "update" || (policy && action !== "call") ? "edit" : "operate", host);
}
