// The pages of access and API tokens, which are plain forms: shows times in the browser's zone, and selects a new
// secret.

import { watch } from "../core/connection.js";
import { byId, find, findAll, setText } from "../core/elements.js";
import { moment } from "../core/format.js";

for (const element of findAll("time[data-local]")) element.textContent = moment(Date.parse(element.dateTime));

const role = find("#give [name=role]");
if (role) {
  const says = () => setText(byId("role-says"), role.selectedOptions[0]?.dataset.says ?? "");
  role.addEventListener("change", says);
  says();
}

const secret = byId("secret");
if (secret) {
  const range = document.createRange();
  range.selectNodeContents(secret);
  const selection = /** @type {Selection} */ (getSelection());
  selection.removeAllRanges();
  selection.addRange(range);
}
// A reload must not submit the form again.
if (secret || find(".notice.error")) history.replaceState(null, "", location.href);

// A confirmation from the server, shown as a modal dialog; Escape cancels.
const question = byId("question");
if (question) {
  question.removeAttribute("open"); // close() would call the listener below
  question.showModal();
  byId("question-cancel").focus();
  question.addEventListener("close", () => location.replace(location.href));
}

watch({ watch: "objects", object: "" });
