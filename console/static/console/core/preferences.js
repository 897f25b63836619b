// The user's preferences, which the server stores. What it has not confirmed yet stays with the tab: a page that is
// opened before the answer has it too, and sends it again, since a browser may cancel the requests of a page it leaves.

import { patch } from "./api.js";
import { settings } from "./settings.js";
import { toast } from "./toast.js";

const KEY = `headgate-preferences-${settings.user}`;

/** @returns {Record<string, unknown>} */
const unconfirmed = () => {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}");
  } catch {
    return {}; // no storage: the server alone has them
  }
};

/** @param {Record<string, unknown>} values */
const remember = (values) => {
  try {
    if (Object.keys(values).length) sessionStorage.setItem(KEY, JSON.stringify(values));
    else sessionStorage.removeItem(KEY);
  } catch {
    // no storage
  }
};

/** @param {Record<string, unknown>} values those that are confirmed or refused, unless changed again since */
const forget = (values) =>
  remember(
    Object.fromEntries(
      Object.entries(unconfirmed()).filter(([name, value]) => JSON.stringify(value) !== JSON.stringify(values[name])),
    ),
  );

/** @param {Record<string, unknown>} values */
async function send(values) {
  try {
    await patch("preferences/", values);
    forget(values);
  } catch (error) {
    if (error.status) {
      forget(values);
      toast(`The preferences were not saved: ${error.message}`, "error");
    } else toast("The preferences are not saved yet: the console's server does not answer.", "error");
  }
}

/** The preferences as the page has them, also those that were just changed. */
export const preferences = { ...settings.preferences, ...unconfirmed() };

if (Object.keys(unconfirmed()).length) send(unconfirmed());

/**
 * Change some preferences, here and on the server.
 *
 * @param {Record<string, unknown>} values
 */
export async function savePreferences(values) {
  Object.assign(preferences, values);
  remember({ ...unconfirmed(), ...values });
  await send(values);
}
