// Data that the server embeds in the page: its broker, the user's permissions and preferences, and the page's own
// settings. Times of the page are in the zone of the preferences from here on.

import { pageData } from "./elements.js";
import { useZone } from "./zone.js";

export const settings = pageData("page-settings") ?? {};

/**
 * Return the title of a broker; its slug, if the history alone knows it.
 *
 * @param {string} slug
 */
export const brokerTitle = (slug) =>
  settings.brokers?.find((/** @type {any} */ each) => each.slug === slug)?.title ?? slug;

useZone(settings.preferences?.time_zone ?? "", settings.preferences?.clock ?? "24");
