// Buttons that set the fields From and Until of a list to the last 15 minutes, hour, day … with an open end.

import { h, setAttribute } from "../core/elements.js";
import { LENGTHS } from "../core/lengths.js";
import { serverNow } from "../core/server_clock.js";

const OFFERED = ["15m", "1h", "6h", "24h", "7d", "30d"];

/**
 * Add the buttons to `box`. `choose(from)` sets the fields; other changes of `form` end the choice.
 *
 * @param {HTMLElement} box
 * @param {HTMLFormElement} form
 * @param {(from: number) => void} choose
 */
export function addTimePresets(box, form, choose) {
  const buttons = OFFERED.map((name) => {
    const [label, length] = LENGTHS[name];
    const button = h("button", { type: "button", "aria-pressed": "false", title: `The last ${label}` }, label);
    button.addEventListener("click", () => {
      press(button);
      choose(Math.floor((serverNow() - length) / 1000) * 1000);
    });
    return button;
  });
  /** @param {Element | null} pressed */
  const press = (pressed) => {
    for (const button of buttons) setAttribute(button, "aria-pressed", String(button === pressed));
  };
  form.addEventListener("input", (event) => {
    if (/** @type {HTMLInputElement} */ (event.target).type === "datetime-local") press(null);
  });
  form.addEventListener("headgate-cleared", () => press(null));
  box.append(h("div", { class: "segmented", role: "group", "aria-label": "The last" }, buttons));
}
