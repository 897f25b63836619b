// The page's one connection to the console. Nothing is opened until something is watched.

import { Live } from "./live.js";
import { settings } from "./settings.js";

export const live = new Live(`/ws/live/?broker=${encodeURIComponent(settings.broker ?? "")}`);

/**
 * Watch something of this page's broker.
 *
 * @param {any} message
 */
export const watch = (message) => live.watch(message);
