// The banner of the operator stops in force, above every page.

import { get, objectPath } from "../core/api.js";
import { byId, fill, h, icon } from "../core/elements.js";
import { scopeInWords } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { haltInWords, stepsOf, stopLines } from "./stop_lines.js";
import { ON_BANNER, setStopsInForce } from "./stops_in_force.js";

let shown = "";
/** @type {any} */
let knownHalts = null; // halted staged starts at the last update; null: no update yet

/**
 * Show the stops in force: maps of scope, reason, actor, since.
 *
 * @param {any[]} stops
 */
export function showStops(stops) {
  const text = JSON.stringify([stops, stops.map((/** @type {any} */ stop) => (stop.stage ? stepsOf(stop.stage) : 0))]);
  if (text === shown) return;
  shown = text;
  setStopsInForce(stops);
  announceHalts(stops);
  const banner = byId("banner-stops");
  banner.hidden = stops.length === 0;
  if (!stops.length) return;
  fill(banner, icon("stopped"), h("div", { class: "banner-lines" }, stopLines(stops, ON_BANNER)));
}

/**
 * Announce staged starts that halt while the page is open. The banner lists those that had halted before.
 *
 * @param {any[]} stops
 */
function announceHalts(stops) {
  const halts = new Map(
    stops
      .filter((/** @type {any} */ stop) => stop.halted)
      .map((/** @type {any} */ stop) => [`${stop.scope} ${stop.since}`, stop]),
  );
  if (knownHalts)
    for (const [key, stop] of halts)
      if (!knownHalts.has(key))
        toast(
          `The staged start of ${scopeInWords(stop.scope)} halted: ${haltInWords(stop.halted)}. ` +
            "The producers are stopped again.",
          "error",
        );
  knownHalts = halts;
}

/**
 * Load the stops in force, on pages whose snapshots do not have them. `away`: the broker does not answer; load the
 * stops that the console knows. Dispatches "headgate-stops" afterwards.
 *
 * @param {any} away
 */
export async function refreshStops(away) {
  if (settings.page === "overview" || !settings.broker) return;
  try {
    const path = away ? `brokers/${encodeURIComponent(settings.broker)}/` : objectPath(settings.broker, "type=Broker");
    const { attributes } = await get(path);
    if (!attributes) return;
    showStops(attributes.stops ?? []);
    dispatchEvent(new Event("headgate-stops"));
  } catch {
    // The banner stays as it is; the connection banner reports that the broker is disconnected.
  }
}
