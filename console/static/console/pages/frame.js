// What is around every page: the connection's state, the banners, the theme, the menus and the keys. It is the first
// module of each page, and no other imports it.

import { whyNot } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, find, setText } from "../core/elements.js";
import { offsetText, zoneName } from "../core/moments.js";
import { addBrokerToLinks } from "../core/page_broker.js";
import { settings } from "../core/settings.js";
import { setUpTheme } from "../core/theme.js";
import { toast } from "../core/toast.js";
import { setUpBrokerSwitcher } from "../widgets/broker_switcher.js";
import { setUpBrowserNotifications } from "../widgets/browser_notifications.js";
import { ConnectionBanner } from "../widgets/connection_banner.js";
import { showKeys } from "../widgets/keys.js";
import { refreshStops } from "../widgets/stop_banner.js";

/** Pages without a watch of their own still show the connection and the stops. */
const WITHOUT_WATCH = ["audit", "api-docs", "first-steps", "help", "history", "preferences"];

// On a narrow screen the links scroll sideways: the one of this page shall be seen.
find(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const connection = new ConnectionBanner(live, () => refreshStops(connection.brokerAway));
live.addEventListener("events", (event) => {
  if (
    event.detail.events.some((/** @type {any} */ e) => e.kind === "producers-stopped" || e.kind === "producers-started")
  )
    refreshStops(connection.brokerAway);
});

setUpTheme(byId("theme"));

const zone = byId("page-zone");
if (zone) {
  setText(zone.lastElementChild, offsetText());
  zone.title = `Times in ${zoneName()}. Change it in the preferences`;
}
addBrokerToLinks();

const menu = byId("user-menu");
addEventListener("click", (event) => {
  if (menu?.open && !menu.contains(event.target)) menu.open = false;
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu?.open) menu.open = false;
});
byId("keys")?.addEventListener("click", () => showKeys());

setUpBrokerSwitcher();
setUpBrowserNotifications();

// A disabled action stays focusable and says why.
addEventListener(
  "click",
  (event) => {
    const disabled = /** @type {any} */ (event.target).closest?.('[aria-disabled="true"]');
    if (!disabled) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    toast(
      disabled.dataset.off === undefined
        ? `This requires the role of ${disabled.dataset.needs ?? "operator"}.`
        : whyNot(),
      "error",
    );
  },
  true,
);

if (WITHOUT_WATCH.includes(settings.page)) watch({ watch: "objects", object: "" });
