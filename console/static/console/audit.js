// The audit list is the server's; this puts its times into the viewer's zone, also after htmx brought new rows.

import { clock, moment } from "./format.js";
import "./frame.js";

function localTimes() {
  for (const element of document.querySelectorAll("time[data-local]")) {
    const ms = Date.parse(element.dateTime);
    element.textContent = clock(ms);
    element.title = moment(ms);
    element.removeAttribute("data-local");
  }
}

document.addEventListener("htmx:afterSettle", localTimes);
localTimes();
