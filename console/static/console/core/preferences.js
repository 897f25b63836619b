// The user's preferences, which the server stores.

import { patch } from "./api.js";
import { settings } from "./settings.js";
import { toast } from "./toast.js";

/** The preferences as the page has them, also those that were just changed. */
export const preferences = settings.preferences ?? {};

/**
 * Change some preferences, here and on the server.
 *
 * @param {Record<string, unknown>} values
 */
export async function savePreferences(values) {
  Object.assign(preferences, values);
  try {
    await patch("preferences/", values);
  } catch (error) {
    toast(`The preferences were not saved: ${error.message}`, "error");
  }
}
