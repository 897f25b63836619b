// Data that the server embeds in the page: its broker, the user's permissions and preferences, and the page's own
// settings. Times of the page are in the zone of the preferences from here on.

import { pageData } from "./elements.js";
import { useZone } from "./zone.js";

export const settings = pageData("page-settings") ?? {};

useZone(settings.preferences?.time_zone ?? "", settings.preferences?.clock ?? "24");
