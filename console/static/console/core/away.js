// While the broker does not answer, the page shows its last snapshot: times stop at the snapshot's time, and controls
// that need the broker (`data-acts`) are disabled with a reason. connection_banner.js decides when.

import { findAll, onNextFrame } from "./elements.js";
import { clock } from "./format.js";
import { serverNow } from "./server_clock.js";
import { holdTimes } from "./times.js";

/** The text for facts that the last snapshot does not have. */
export const UNKNOWN = "Not known while the broker does not answer.";

const ACTS = "[data-acts]";
let why = "";
/** @type {any} */
let since = null;

/** Whether the page shows a past snapshot. */
export const away = () => why !== "";

/**
 * The time of the past snapshot, ms; null: there is none, or the page is current.
 *
 * @type {any}
 */
export const shownAsOf = () => (why ? since : null);

/** The reason why controls are disabled, a sentence. */
export const whyNot = () => why;

/**
 * Call `act` each time that the broker answers again.
 *
 * @param {(...given: any[]) => any} act
 */
export const whenBack = (act) => addEventListener("headgate-away", () => away() || act());

/**
 * " at 12:34:56" to follow a fact of a past snapshot; empty while the page is current.
 *
 * @type {any}
 */
export const atThatTime = () => (shownAsOf() === null ? "" : ` at ${clock(since)}`);

/**
 * Call `act(away)` each time that `away` or the time of the snapshot changes.
 *
 * @param {(...given: any[]) => any} act
 */
export const whenAway = (act) => addEventListener("headgate-away", () => act(away()));

/**
 * Return a function that schedules `draw`, at most once per frame. Page and connection banner change together: `draw`
 * is also called when the banner changes, even if no snapshot follows and in tabs without frames. `draw` reads `away`,
 * and works with any snapshot or none.
 *
 * @param {any} draw
 */
export function drawing(draw) {
  whenAway(() => draw());
  return onNextFrame(draw);
}

/**
 * `reason`: a sentence; empty: the page is current. `asOf`: the time of the snapshot, ms; null: there is none.
 *
 * @param {any} reason
 * @param {any} asOf
 */
export function setAway(reason, asOf) {
  if (reason === why && asOf === since) return;
  const turned = Boolean(reason) !== Boolean(why);
  /** @type {any} */
  const redated = asOf !== since;
  [why, since] = [reason, asOf];
  holdTimes(reason ? (asOf ?? serverNow()) : null);
  if (reason) {
    for (const element of findAll(ACTS)) switchOff(element);
    if (turned) watching.observe(document.body, { childList: true, subtree: true });
  } else {
    watching.disconnect();
    for (const element of findAll("[data-off]")) switchOn(element);
  }
  if (turned || (reason && redated)) dispatchEvent(new Event("headgate-away"));
}

/** @param {any} element */
function switchOff(element) {
  if (element.dataset.off === undefined) {
    if (element.getAttribute("aria-disabled") === "true") return; // disabled for another reason
    element.dataset.off = element.title;
    element.setAttribute("aria-disabled", "true");
  }
  element.title = why;
}

/** @param {any} element */
function switchOn(element) {
  element.title = element.dataset.off;
  if (!element.title) element.removeAttribute("title");
  element.removeAttribute("aria-disabled");
  delete element.dataset.off;
}

/** Disables controls that are added meanwhile. */
const watching = new MutationObserver((changes) => {
  for (const node of changes.flatMap((change) => [...change.addedNodes])) {
    if (!(node instanceof Element)) continue;
    if (node.matches(ACTS)) switchOff(node);
    for (const element of node.querySelectorAll(ACTS)) switchOff(element);
  }
});
