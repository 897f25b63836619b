// While the broker does not answer, what is shown is of the past and nothing can be done at it: times stand still at
// the snapshot's time, and controls that need the broker (`data-acts`) are off and say why. connection_banner.js
// decides when.

import { findAll, onNextFrame } from "./elements.js";
import { clock } from "./format.js";
import { holdTimes } from "./times.js";

/** For what was not known at the snapshot's time. */
export const UNKNOWN = "Not known while the broker does not answer.";

const ACTS = "[data-acts]";
let why = "";
/** @type {any} */
let since = null;

/** Whether what the page shows is of the past. */
export const away = () => why !== "";

/**
 * The time of what is shown while that is so, ms; null: nothing is known, or it is of now.
 *
 * @type {any}
 */
export const shownAsOf = () => (why ? since : null);

/** Why nothing can be done now, a sentence. */
export const whyNot = () => why;

/**
 * Call `act` each time that the broker answers again.
 *
 * @param {(...given: any[]) => any} act
 */
export const whenBack = (act) => addEventListener("headgate-away", () => away() || act());

/**
 * " at 12:34:56" behind a fact that is of that time; empty while facts are of now.
 *
 * @type {any}
 */
export const atThatTime = () => (shownAsOf() === null ? "" : ` at ${clock(since)}`);

/**
 * Call `act(away)` each time that changes, or the time of what is shown does.
 *
 * @param {(...given: any[]) => any} act
 */
export const whenAway = (act) => addEventListener("headgate-away", () => act(away()));

/**
 * A page's drawing of what it knows: the function asks for it, at most once in a frame. What the page says and what the
 * banner says of it change in one step: `draw` is called with the banner's change, also where no snapshot follows it
 * and in a tab that has no next frame. It reads `away`, and works with any snapshot or none.
 *
 * @param {any} draw
 */
export function drawing(draw) {
  whenAway(() => draw());
  return onNextFrame(draw);
}

/**
 * `reason`: a sentence; empty: the page is current. `asOf`: the time of what is shown, ms; null: nothing is known.
 *
 * @param {any} reason
 * @param {any} asOf
 */
export function setAway(reason, asOf) {
  if (reason === why && asOf === since) return;
  const turned = Boolean(reason) !== Boolean(why);
  /** @type {any} */
  const dated = asOf !== since;
  [why, since] = [reason, asOf];
  holdTimes(reason ? (asOf ?? Date.now()) : null);
  if (reason) {
    for (const element of findAll(ACTS)) switchOff(element);
    if (turned) watching.observe(document.body, { childList: true, subtree: true });
  } else {
    watching.disconnect();
    for (const element of findAll("[data-off]")) switchOn(element);
  }
  if (turned || (reason && dated)) dispatchEvent(new Event("headgate-away"));
}

/** @param {any} element */
function switchOff(element) {
  if (element.dataset.off === undefined) {
    if (element.getAttribute("aria-disabled") === "true") return; // for a reason of its own
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

/** Controls that are drawn meanwhile. */
const watching = new MutationObserver((changes) => {
  for (const node of changes.flatMap((change) => [...change.addedNodes])) {
    if (!(node instanceof Element)) continue;
    if (node.matches(ACTS)) switchOff(node);
    for (const element of node.querySelectorAll(ACTS)) switchOff(element);
  }
});
