// The pages of access and tokens are plain forms; this puts times into the viewer's zone, and a secret that is shown
// once under the cursor.

import { watch } from "../core/connection.js";
import { byId, find, findAll } from "../core/elements.js";
import { moment } from "../core/format.js";

for (const element of findAll("time[data-local]")) element.textContent = moment(Date.parse(element.dateTime));

const secret = byId("secret");
if (secret) {
  const range = document.createRange();
  range.selectNodeContents(secret);
  const selection = /** @type {Selection} */ (getSelection());
  selection.removeAllRanges();
  selection.addRange(range);
}
// Sent again by a reload, a form would do again what it did.
if (secret || find(".notice.error")) history.replaceState(null, "", location.href);

// Asked by the server; as a dialog it cannot be overlooked, and Escape means no.
const question = byId("question");
if (question) {
  question.removeAttribute("open"); // close() would say so later, to the listener below
  question.showModal();
  byId("question-cancel").focus();
  question.addEventListener("close", () => location.replace(location.href));
}

watch({ watch: "objects", object: "" });
