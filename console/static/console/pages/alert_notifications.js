// The choice of browser notifications on the alerts page.

import { byId, fill, h } from "../core/elements.js";
import { toast } from "../core/toast.js";
import { isOn, obstacle, turnOff, turnOn } from "../widgets/browser_notifications.js";

/** Show the state of browser notifications, and the button that changes it. */
export function setUpNotificationChoice() {
  const place = byId("notifications");

  async function change() {
    if (isOn()) turnOff();
    else if (!(await turnOn())) toast("The browser did not allow notifications.", "error");
    draw();
  }

  function draw() {
    const why = obstacle();
    fill(
      place,
      h(
        "div",
        {},
        h("p", {}, why || (isOn() ? "On in this browser." : "Off in this browser.")),
        h(
          "p",
          { class: "muted small" },
          "They show alerts that begin to fire, and work only while a page of this console is open in the browser.",
        ),
      ),
      why
        ? null
        : h(
            "button",
            { type: "button", class: "quiet row-act", id: "notifications-change", on: { click: change } },
            isOn() ? "Turn off" : "Turn on",
          ),
    );
  }
  draw();
}
