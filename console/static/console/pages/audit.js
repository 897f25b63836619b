// The audit list is the server's; this puts its times into the viewer's zone, also after htmx brought new rows, and
// opens the way back from a row.

import { get, post } from "../core/api.js";
import { byId, find, findAll } from "../core/elements.js";
import { clock, moment } from "../core/format.js";
import { readMoment } from "../core/moments.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { MomentField, zoneElement } from "../widgets/moment_field.js";

function localTimes() {
  for (const element of findAll("time[data-local]")) {
    const ms = Date.parse(element.dateTime);
    element.textContent = clock(ms);
    element.title = moment(ms);
    element.removeAttribute("data-local");
  }
}

document.addEventListener("htmx:afterSettle", localTimes);
localTimes();

// The fields are in the zone of the rows; what is asked for and stands in the address names its own.
for (const input of findAll("input[data-moment]")) {
  const field = new MomentField(input);
  const sent = input.form.elements[input.dataset.moment];
  field.ms = readMoment(sent.value);
  const follow = () => {
    sent.value = field.address;
  };
  input.addEventListener("input", follow); // before the form hears of it and sends
  input.addEventListener("change", follow);
}
byId("zone").append(zoneElement());

document.addEventListener("click", (event) => {
  const number = /** @type {any} */ (event.target).closest?.("[data-revert]")?.dataset.revert;
  if (!number) return;
  openChangeDialog({
    title: "Revert this change",
    action: "Revert",
    async load() {
      const { change, preview } = await get(`audit/${number}/revert/`);
      return { preview, changes: [change] };
    },
    async apply(/** @type {any} */ reason, /** @type {any} */ { changes: [change] }) {
      await post(`audit/${number}/revert/`, { reason, version: change.version });
      toast("It is as it was before. This is a row of the audit, too.");
      find("form.filters")?.requestSubmit();
    },
  });
});
