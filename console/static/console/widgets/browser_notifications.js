// Browser notifications of firing alerts, for users who turn them on in this browser, while a page is open in it.
//
// All pages of the browser share in local storage whether they are on and which alerts were shown: several open pages
// show one notification, and a new page repeats none.

import { live } from "../core/connection.js";
import { objectUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { newAlerts, notificationsOf, SEVERAL } from "./notification_choice.js";

const KEY = "headgate-notifications";
const SHOWN = "headgate-notified";

/** The alerts of the newest frame. */
/** @type {any[]} */
let firing = [];
/** Notifications that this page has shown, by alert. */
/** @type {Map<string, Notification>} */
const open = new Map();

/**
 * Why this browser cannot show notifications, a sentence; empty: it can, or may ask.
 */
export function obstacle() {
  if (!globalThis.isSecureContext)
    return "Browsers show notifications only of pages that are opened by HTTPS, or on the machine itself.";
  if (typeof Notification === "undefined") return "This browser does not support notifications.";
  if (Notification.permission === "denied")
    return "Notifications of this site are blocked in the settings of the browser.";
  return "";
}

/** Whether notifications are on in this browser. */
export const isOn = () =>
  !obstacle() && Notification.permission === "granted" && localStorage.getItem(KEY) === settings.user;

/** Turn notifications on, after a click: the browser asks for the permission. Alerts that fire now are not shown. */
export async function turnOn() {
  if ((await Notification.requestPermission()) !== "granted") return false;
  localStorage.setItem(KEY, settings.user);
  localStorage.removeItem(SHOWN);
  live.followAlerts(true);
  return true;
}

export function turnOff() {
  localStorage.removeItem(KEY);
  live.followAlerts(false);
}

/** @returns {string[] | null} */
function shown() {
  try {
    return JSON.parse(localStorage.getItem(SHOWN) ?? "null");
  } catch {
    return null;
  }
}

/** @param {any[]} alerts */
function show(alerts) {
  firing = alerts;
  if (!isOn()) return;
  const { fresh, remembered } = newAlerts(firing, shown());
  localStorage.setItem(SHOWN, JSON.stringify(remembered));
  for (const [id, notification] of open) {
    if (id === SEVERAL ? firing.length : firing.some((each) => each.id === id)) continue;
    notification.close();
    open.delete(id);
  }
  for (const each of notificationsOf(fresh)) {
    const { title, body, tag, renotify } = each;
    const notification = new Notification(title, /** @type {NotificationOptions} */ ({ body, tag, renotify }));
    notification.addEventListener("click", () => {
      globalThis.focus();
      location.assign(each.alert ? objectUrl(each.alert.object, each.alert.broker) : "/alerts/");
    });
    open.set(each.tag, notification);
  }
}

/** Show notifications on this page if they are on. */
export function setUpBrowserNotifications() {
  live.addEventListener("alerts", (event) => show(event.detail.alerts));
  if (isOn()) live.followAlerts(true);
  addEventListener("storage", (event) => event.key === KEY && live.followAlerts(isOn()));
}
