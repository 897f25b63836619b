// Data that the server embeds in the page: its broker, the user's permissions, and the page's own settings.

import { pageData } from "./elements.js";

export const settings = pageData("page-settings") ?? {};
