// The pages of messages for a broker that does not offer them. Of a broker that has not answered yet this is not known:
// the page is loaded again when it has.

import { whenBack } from "../core/away.js";
import { watch } from "../core/connection.js";
import { settings } from "../core/settings.js";

if (!settings.known) whenBack(() => location.reload());
watch({ watch: "objects", object: "" });
