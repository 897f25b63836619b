// What the server says of this page: its broker, what the viewer is permitted to do, and the page's own facts.

import { pageData } from "./elements.js";

export const settings = pageData("page-settings") ?? {};
