// The permissions of the user, for the state of controls. The server checks them again in each call.

import { settings } from "./settings.js";

/** @type {Record<string, string>} */
const ROLES = {
  operate: "operator",
  edit: "policy editor",
  administer: "administrator",
  read: "message reader",
  publish: "publisher",
};

/**
 * Return whether the user can `operate`, `edit`, `administer`, `read` (bodies of messages) or `publish` in a virtual
 * host, the broker (null), or, if omitted, any part of this page's broker.
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
 * Return the properties of a button: without the permission it is disabled and shows the reason.
 *
 * @param {any} what
 * @param {any} [host]
 */
export const unless = (what, host = undefined) =>
  may(what, host) ? { data: {} } : { "aria-disabled": "true", data: { needs: ROLES[what] } };

/**
 * `unless` for actions of the broker: also disabled while the broker does not answer.
 *
 * @param {any} what
 * @param {any} [host]
 */
export function acting(what, host = undefined) {
  const { data, ...others } = unless(what, host);
  return { ...others, data: { ...data, acts: "" } };
}

/**
 * `acting` for actions on objects of a type: `update`, `create`, `delete`, or an operation.
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
