// The preferences: the time zone and the clock of all pages, with how a time looks then.

import { patch } from "../core/api.js";
import { byId, fill, h, setText } from "../core/elements.js";
import { clock } from "../core/format.js";
import { zoneName } from "../core/moments.js";
import { preferences } from "../core/preferences.js";
import { toast } from "../core/toast.js";
import { useZone, zoneId } from "../core/zone.js";

const form = byId("preferences");
const problem = byId("problem");
const known = new Set([...byId("time-zones").options].map((option) => option.value));

useZone("", preferences.clock);
setText(byId("browser-zone"), zoneId());

/** The zone of the field as the server knows it; null: there is no such zone. */
function zone() {
  const text = form.time_zone.value.trim();
  if (!text || known.has(text)) return text;
  const alike = [...known].filter((name) => name.toLowerCase().replaceAll("_", " ").includes(text.toLowerCase()));
  return alike.length === 1 ? alike[0] : null;
}

/** Show a time as it would look. The rest of the page has the saved preferences. */
function preview() {
  const name = zone();
  useZone(name ?? "", form.clock.value);
  setText(byId("sample"), name === null ? "no such time zone" : `${clock(Date.now())}, ${zoneName()}`);
  useZone(preferences.time_zone, preferences.clock);
}

form.addEventListener("input", preview);
form.addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const name = zone();
  problem.hidden = name !== null;
  if (name === null) {
    fill(problem, h("p", {}, `${form.time_zone.value} is not a time zone: choose one of the list.`));
    form.time_zone.focus();
    return;
  }
  try {
    await patch("preferences/", { time_zone: name, clock: form.clock.value });
  } catch (error) {
    problem.hidden = false;
    fill(problem, h("p", {}, error.message));
    return;
  }
  Object.assign(preferences, { time_zone: name, clock: form.clock.value });
  form.time_zone.value = name;
  preview();
  toast("Saved. Pages that you open from now on have it.");
});
preview();
