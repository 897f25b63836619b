// The page's connection to the console. It is opened by the first `watch`.

import { Live } from "./live.js";
import { settings } from "./settings.js";

export const live = new Live(settings.socket ?? `/ws/live/?broker=${encodeURIComponent(settings.broker ?? "")}`);

/**
 * Watch something of this page's broker, or of all brokers on their page.
 *
 * @param {any} message
 */
export const watch = (message) => live.watch(message);
