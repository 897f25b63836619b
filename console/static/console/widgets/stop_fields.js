// Fields of the stop dialog: the automatic end of a stop, and a staged start. Each returns {element, read()}; `read`
// returns arguments of the call, or {wrong, field}: an error message and its input; `limit` follows what brokers have.

import { h } from "../core/elements.js";
import { fieldHelp } from "./field_help.js";

/** The optional end of a stop: after a time, at a depth, or at the earlier of both. */
export function endFields() {
  const timed = h("input", { type: "checkbox", id: "end-timed" });
  const minutes = h("input", {
    type: "number",
    id: "end-minutes",
    min: "1",
    max: "10080",
    step: "1",
    value: "30",
    "aria-label": "Minutes until producers are started again",
  });
  const deep = h("input", { type: "checkbox", id: "end-deep" });
  const below = h("input", {
    type: "number",
    id: "end-below",
    min: "1",
    max: "99",
    step: "1",
    value: "20",
    "aria-label": "Percent of the capacity",
  });
  for (const [box, number] of [
    [timed, minutes],
    [deep, below],
  ])
    number.addEventListener("input", () => (box.checked = true));
  const element = h(
    "fieldset",
    { class: "ends", "aria-labelledby": "ends-title" },
    h("legend", {}, h("span", { id: "ends-title" }, "Resume automatically"), fieldHelp("end")),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, timed, h("span", {}, "after")),
      minutes,
      h("span", {}, "minutes"),
    ),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, deep, h("span", {}, "when all queues are at or below")),
      below,
      h("span", {}, "% of their capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "Whichever comes first. This happens whether or not a page is open. Neither: an operator starts them.",
    ),
  );
  const read = () => {
    const ends = {};
    if (timed.checked) {
      const value = Number(minutes.value);
      if (!Number.isFinite(value) || value <= 0) return { wrong: "Minutes must be a number above 0.", field: minutes };
      ends.for_ms = Math.round(value * 60_000);
    }
    if (deep.checked) {
      const value = Number(below.value);
      if (!Number.isInteger(value) || value < 1 || value > 99)
        return { wrong: "The depth is a whole percentage from 1 to 99.", field: below };
      ends.below = value;
    }
    return ends;
  };
  return { element, read, limit: limitedTo(element, ["for_ms", "below"]) };
}

/** The fields of a staged start, which stops the producers again above a depth. */
export function stageFields() {
  const box = h("input", { type: "checkbox", id: "stage" });
  const rate = h("input", {
    type: "number",
    id: "stage-rate",
    min: "1",
    step: "1",
    value: "10",
    "aria-label": "Initial messages per second",
  });
  const step = h("input", {
    type: "number",
    id: "stage-step",
    min: "1",
    max: "3600",
    step: "1",
    value: "10",
    "aria-label": "Seconds per step",
  });
  const halt = h("input", {
    type: "number",
    id: "stage-halt",
    min: "1",
    max: "100",
    step: "1",
    value: "60",
    "aria-label": "Percent of the capacity at which the start halts",
  });
  for (const number of [rate, step, halt]) number.addEventListener("input", () => (box.checked = true));
  const element = h(
    "fieldset",
    { class: "ends", "aria-labelledby": "stage-title" },
    h("legend", {}, h("span", { id: "stage-title" }, "Staged start"), fieldHelp("stage")),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, box, h("span", {}, "start in stages: initially")),
      rate,
      h("span", {}, "messages/s into each queue, doubled every"),
      step,
      h("span", {}, "s;"),
    ),
    h(
      "div",
      { class: "end-line" },
      h("span", {}, "stop again if a queue is above"),
      halt,
      h("span", {}, "% of its capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "After six steps the throttle is removed. This happens whether or not a page is open.",
    ),
  );
  const read = () => {
    if (!box.checked) return {};
    for (const [field, most, name] of /** @type {[HTMLInputElement, number, string][]} */ ([
      [rate, 1_000_000, "Messages per second"],
      [step, 3600, "Seconds per step"],
      [halt, 100, "The depth"],
    ])) {
      const value = Number(field.value);
      if (!Number.isInteger(value) || value < 1 || value > most)
        return { wrong: `${name} must be a whole number from 1 to ${most.toLocaleString("en")}.`, field };
    }
    return { rate: Number(rate.value), step_ms: Number(step.value) * 1000, halt: Number(halt.value) };
  };
  return { element, read, limit: limitedTo(element, ["rate"]) };
}

/**
 * Return a function that hides the fields if none of the brokers has their arguments, and names those that have not.
 *
 * @param {HTMLElement} element
 * @param {string[]} names
 */
const limitedTo = (element, names) => {
  const note = h("small", { class: "hint", hidden: true });
  element.append(note);
  /** @param {any[]} entries previews of brokers */
  return (entries) => {
    const known = entries.filter((each) => each.arguments && !each.error && !each.cannot);
    const lacking = known.filter((each) => !names.every((name) => each.arguments.includes(name)));
    element.hidden = known.length > 0 && lacking.length === known.length;
    for (const field of element.querySelectorAll("input")) field.disabled = element.hidden;
    if (element.hidden)
      for (const box of element.querySelectorAll("input[type=checkbox]")) /** @type {any} */ (box).checked = false;
    note.hidden = !lacking.length;
    note.textContent = `Not on ${lacking.map((each) => each.title).join(", ")}: with it, nothing is done there.`;
  };
};
