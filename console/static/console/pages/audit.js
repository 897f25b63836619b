// The audit page: loads the rows that match the filter, shows times in the browser's zone, and reverts changes.

import { get, post } from "../core/api.js";
import { byId, find, findAll } from "../core/elements.js";
import { clock, moment } from "../core/format.js";
import { readMoment } from "../core/moments.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { MomentField, zoneElement } from "../widgets/moment_field.js";
import { addTimePresets } from "../widgets/time_presets.js";

const TYPING = 300; // ms
const form = find("form.filters");
const search = byId("search");
let request = new AbortController();
let pause = 0;

function localTimes() {
  for (const element of findAll("time[data-local]")) {
    const ms = Date.parse(element.dateTime);
    element.textContent = clock(ms);
    element.title = moment(ms);
    element.removeAttribute("data-local");
  }
}

/** The URL of the filter. */
function address() {
  const filter = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) filter.append(name, String(value));
  return filter.size ? `${location.pathname}?${filter}` : location.pathname;
}

/** Load the page of the filter, show its rows, and put its URL into the address bar. The newest filter wins. */
async function load() {
  clearTimeout(pause);
  request.abort();
  request = new AbortController();
  const url = address();
  const rows = byId("audit-rows");
  rows.setAttribute("aria-busy", "true");
  try {
    const response = await fetch(url, { signal: request.signal });
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const found = page.getElementById("audit-rows");
    if (!found) return location.assign(url); // the sign-in page, or an error
    rows.replaceChildren(...found.childNodes);
    byId("clear").hidden = Boolean(page.getElementById("clear")?.hidden);
    if (url !== location.pathname + location.search) history.pushState(null, "", url);
    localTimes();
  } catch (error) {
    if (error.name === "AbortError") return undefined;
    toast("The console does not answer. Try again.", "error");
  }
  rows.removeAttribute("aria-busy");
  return undefined;
}

localTimes();

// The fields show the zone of the rows; the parameters of the URL have their own offset.
/** @type {Record<string, (ms: number | null) => void>} */
const setMoment = {};
for (const input of findAll("input[data-moment]")) {
  const field = new MomentField(input);
  const sent = input.form.elements[input.dataset.moment];
  field.ms = readMoment(sent.value);
  const follow = () => {
    sent.value = field.address;
  };
  setMoment[input.dataset.moment] = (ms) => {
    field.ms = ms;
    follow();
  };
  input.addEventListener("input", follow); // before the form's listener
  input.addEventListener("change", follow);
}
byId("zone").append(zoneElement());
addTimePresets(byId("presets"), form, (from) => {
  setMoment.from(from);
  setMoment.until(null);
  load();
});

form.addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  load();
});
form.addEventListener("change", (/** @type {any} */ event) => {
  // Of all brokers there are other users and actions to choose from.
  if (event.target.name === "all") location.assign(address());
  else load();
});
search.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(load, TYPING);
});
addEventListener("popstate", () => location.reload());

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
      toast("Reverted. The audit trail has an entry for it.");
      load();
    },
  });
});
