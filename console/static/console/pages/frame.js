// What is around every page: the connection and its state, the banners, the theme, the menus.
// Pages take `live` and `settings` from here.

import { get, objectPath } from "../core/api.js";
import { setAway, whyNot } from "../core/away.js";
import { fill, h, icon, pageData, setText } from "../core/elements.js";
import { clock, duration, exact, plural } from "../core/format.js";
import { showKeys } from "../widgets/keys.js";
import { Live } from "../core/live.js";
import { parseName, scopeInWords, shortName } from "../core/object_names.js";
import { sinceElement, untilElement } from "../core/times.js";

export const settings = pageData("page-settings") ?? {};
export const live = new Live(`/ws/live/?broker=${encodeURIComponent(settings.broker ?? "")}`);

// On a narrow screen the links scroll sideways: the one of this page shall be seen.
document.querySelector(".nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

/** Watch something of this page's broker. */
export const watch = (message) => live.watch(message);

// -- the connection ---------------------------------------------------------------------------------------------

const connection = document.getElementById("connection");
const connectionText = document.getElementById("connection-text");
const lost = document.getElementById("banner-lost");
/** As the server knew it when it made the page, then as the frames say. `connected`: null if that is not known yet. */
let broker = settings.state ?? { connected: null, since: 0, error: "" };
/** When what is shown was so: the time of the newest snapshot, however late it came; null: nothing is known. */
let asOf = settings.state?.as_of ?? null;
let dated = asOf; // what the banner and the page say

function showConnection() {
  const { state, since } = live.state;
  const reached = state === "live" || state === "connecting";
  const shown = reached && broker.connected === false ? "broker-lost" : state === "live" && broker.connected === null ? "connecting" : state;
  connection.dataset.state = shown;
  document.body.classList.toggle("stale", shown === "lost" || shown === "broker-lost" || shown === "signed-out");
  const text = {
    connecting: "Connecting…",
    live: "Live",
    lost: "Reconnecting…",
    "signed-out": "Signed out",
    "broker-lost": "Disconnected",
  }[shown];
  setText(connectionText, text);
  connection.title = { live: `Live since ${clock(since)}`, lost: `Lost at ${clock(since)}`, "broker-lost": broker.error }[shown] ?? text;
  if (shown === "lost" && Date.now() - since < 1000) {
    setTimeout(showConnection, 1000); // a blink is no news: the dot changed, the banner can wait
    return;
  }
  dated = asOf;
  lost.hidden = shown === "live" || shown === "connecting";
  setAway(reasonNot(shown), asOf);
  if (lost.hidden) return;
  const when = asOf === null ? "Nothing is known yet" : `Shown as of ${clock(asOf)}`;
  if (shown === "lost") {
    fill(lost, icon("info"), h("p", {}, h("strong", {}, "Connection lost. "), `${when}, reconnecting… (for `, sinceElement(since), ")"),
      h("button", { type: "button", class: "quiet", on: { click: () => live.retry() } }, "Try now"));
  } else if (shown === "signed-out") {
    const back = `${settings.loginUrl}?next=${encodeURIComponent(location.pathname + location.search)}`;
    fill(lost, icon("lock"), h("p", {}, h("strong", {}, "You are signed out. "), `${when}. `, h("a", { href: back }, "Sign in again")));
  } else {
    fill(
      lost,
      icon("info"),
      h("p", {}, h("strong", {}, `${settings.brokerTitle} cannot be reached`), broker.error ? `: ${broker.error.replace(/\.$/, "")}` : "", ". ",
        `${when}. `, "The console keeps trying", broker.since ? [" (away for ", sinceElement(broker.since), ")"] : "", "."),
    );
  }
}

/** Why nothing can be done at the broker now; empty: it can. */
function reasonNot(shown) {
  if (shown === "broker-lost") return `${settings.brokerTitle} does not answer: nothing can be changed there until it does.`;
  if (shown === "lost") return "The connection to the console is lost: nothing can be changed until it is back.";
  if (shown === "signed-out") return "You are signed out: sign in again to change anything.";
  return shown === "connecting" && broker.connected === null && settings.broker ? `${settings.brokerTitle} has not answered yet.` : "";
}

live.addEventListener("beat", (event) => {
  // Frames come while the broker hangs, too; they say as of when they are.
  if (event.detail.asOf !== undefined) asOf = event.detail.asOf;
});
live.addEventListener("state", (event) => {
  if (event.detail.state === "live") refreshStops();
  showConnection();
});
live.addEventListener("broker", (event) => {
  const before = broker;
  broker = event.detail;
  if (before.connected !== broker.connected || before.error !== broker.error || asOf !== dated) showConnection();
  if (broker.connected !== before.connected) refreshStops();
});

// -- operator stops in force ------------------------------------------------------------------------------------

const banner = document.getElementById("banner-stops");
const MOST_LINES = 3;
let stopsShown = "";
let onBanner = new Set();
let inForce = [];

/** Whether a stop with this reason is in force still. */
export const isStoppedFor = (reason) => inForce.some((stop) => stop.reason === reason);

/** Whether the banner above says that this stop is in force. */
export const isOnBanner = (stop) => onBanner.has(stop.scope);

/** Show the stops in force: maps of scope, reason, actor, since. */
export function showStops(stops) {
  const steps = stops.map((stop) => (stop.stage ? Math.floor((Date.now() - stop.stage.since) / stop.stage.step_ms) : 0));
  const text = JSON.stringify([stops, steps]);
  if (text === stopsShown) return;
  stopsShown = text;
  inForce = stops;
  tellHalted(stops);
  banner.hidden = stops.length === 0;
  onBanner = new Set(together(stops).slice(0, MOST_LINES).flat().map((stop) => stop.scope));
  if (!stops.length) return;
  fill(banner, icon("stopped"), h("div", { class: "banner-lines" }, stopLines(stops, MOST_LINES)));
}

let knownHalts = null; // of the stops that were shown last; null: none was shown yet

/** A staged start that halts while the page is open is told; one that had halted before stands in the banner. */
function tellHalted(stops) {
  const halts = new Map(stops.filter((stop) => stop.halted).map((stop) => [`${stop.scope} ${stop.since}`, stop]));
  if (knownHalts) for (const [key, stop] of halts) if (!knownHalts.has(key)) toast(`The staged start of ${scopeInWords(stop.scope)} halted: ${haltInWords(stop.halted)}. The producers are stopped again.`, "error");
  knownHalts = halts;
}

/** "queue stock.eu is at 65%, above 60%" */
const haltInWords = (halted) => `${halted.queue ? `queue ${shortName(halted.queue)}` : "a queue"} is at ${halted.percent}%, above ${halted.limit}%`;

/** Stops that were made in one call for one queue each are one entry: {stops: [...]}. */
function together(stops) {
  const entries = new Map();
  for (const stop of stops) {
    const single = String(stop.object ?? "").startsWith("type=Queue");
    const key = single ? JSON.stringify([stop.actor, stop.halted ? "halted" : stop.reason, stop.since, stop.until, stop.below, Boolean(stop.stage)]) : JSON.stringify(stop.scope);
    if (!entries.has(key)) entries.set(key, []);
    entries.get(key).push(stop);
  }
  return [...entries.values()];
}

/** When a stop ends, in words and a running time. */
export function endOf(stop) {
  const ends = [];
  if (stop.until) ends.push(["in ", untilElement(stop.until)]);
  if (stop.below) ends.push([`when the depth is down to ${stop.below} %`]);
  return ends.length ? [" They start again by themselves ", ...ends.flatMap((end, index) => (index ? [" or ", ...end] : end)), "."] : [];
}

/** One line for each stop: what, why, who, since when, until when, and the way to lift it. */
export function stopLines(stops, most) {
  const entries = together(stops);
  const lines = entries.slice(0, most).map((group) => {
    const [stop] = group;
    const what = group.length > 1 ? `${exact(group.length)} queues` : scopeInWords(stop.scope);
    const names = group.length > 1 ? group.slice(0, 20).map((each) => scopeInWords(each.scope)).join(", ") : null;
    return h("p", {}, h("strong", { title: names }, headOf(stop, what)), stop.stage ? pace(stop.stage) : null, ...whyOf(stop),
      stop.object ? [" ", h("button", { type: "button", class: "quiet lift", ...acting("operate", hostOf(stop.object)),
        on: { click: () => lift(group) } }, icon("start"), stop.stage ? "Remove throttle" : "Start again"),
      stop.stage ? h("button", { type: "button", class: "quiet lift", ...acting("operate", hostOf(stop.object)), on: { click: () => lift(group, "stop") } }, icon("stop"), "Stop again") : null] : null);
  });
  if (entries.length > most) lines.push(h("p", { class: "muted" }, `and ${plural(entries.length - most, "more stop")}`));
  return lines;
}

function headOf(stop, what) {
  if (stop.halted) return `The staged start of ${what} halted`;
  return `Producers of ${what} are ${stop.stage ? "being started in stages" : "stopped"}`;
}

/** Why, by whom and for how long: of a staged start what it is, and not the stop that it ends. */
function whyOf(stop) {
  const by = (...content) => h("span", { class: "by" }, ...content);
  if (stop.halted) {
    const { actor, reason, since } = stop.halted;
    return [`: ${haltInWords(stop.halted)}. The producers are stopped again`, by(", for ", sinceElement(stop.since), `. Started by ${actor || "an unknown user"} at ${clock(since)}${reason ? `: ${reason}` : ""}.`)];
  }
  const { reason, actor, since } = stop.stage ?? stop;
  return [reason ? `: ${reason}` : "", by(` – ${actor || "an unknown user"}, for `, sinceElement(since), ".", stop.stage ? null : endOf(stop))];
}

/** How fast a staged start is, by now, and what makes it halt. */
function pace(stage) {
  const steps = Math.max(0, Math.floor((Date.now() - stage.since) / stage.step_ms));
  return ` (${exact(stage.rate * 2 ** Math.min(steps, 5))} messages/s into each queue, doubled every ${duration(stage.step_ms)}${stage.halt ? `; halts above ${stage.halt} %` : ""})`;
}

async function lift(group, action = "start") {
  // Loaded when it is wanted: the dialog itself takes its settings from here.
  const { aimOf, aimOfQueues, openStopDialog } = await import("../widgets/stop_dialog.js");
  openStopDialog(action, group.length > 1 ? aimOfQueues(group) : aimOf(group[0]));
}

/** Ask for the stops in force, where no snapshot tells them. */
export async function refreshStops() {
  if (settings.page === "overview" || !settings.broker) return;
  try {
    // While the broker does not answer: those that the console knew last.
    const path = broker.connected === false ? `brokers/${encodeURIComponent(settings.broker)}/` : objectPath(settings.broker, "type=Broker");
    const { attributes } = await get(path);
    if (!attributes) return;
    showStops(attributes.stops ?? []);
    dispatchEvent(new Event("headgate-stops"));
  } catch {
    // The banner keeps what it had; the connection's own banner says that the broker is away.
  }
}

live.addEventListener("events", (event) => {
  if (event.detail.events.some((e) => e.kind === "producers-stopped" || e.kind === "producers-started")) refreshStops();
});

// -- messages that come and go ----------------------------------------------------------------------------------

const toasts = document.getElementById("toasts");

const SHOWN = 8000; // ms
const OFFERED = 60_000; // ms: time to read what it undoes, and to see what it did

/** Tell what came of an action; an error stays until it is closed. `offer`: [word, function] of what can be done about it. */
export function toast(text, kind = "done", offer = null) {
  const close = () => element.remove();
  const take = () => {
    close();
    offer[1]();
  };
  const element = h("div", { class: `toast ${kind}` }, h("p", {}, text), offer ? h("button", { type: "button", data: { acts: "" }, on: { click: take } }, offer[0]) : null,
    h("button", { type: "button", class: "quiet icon-only", "aria-label": "Close", on: { click: close } }, icon("close")));
  // Over a dialog, too: what is not in it is behind it.
  const dialog = [...document.querySelectorAll("dialog[open]")].at(-1);
  if (toasts.parentElement !== (dialog ?? document.body)) (dialog ?? document.body).append(toasts);
  dialog?.addEventListener("close", () => document.body.append(toasts), { once: true });
  toasts.append(element);
  while (toasts.children.length > 4) toasts.firstChild.remove();
  if (kind !== "error") setTimeout(close, offer ? OFFERED : SHOWN);
}

// -- theme, menus, keys -----------------------------------------------------------------------------------------

const THEMES = ["system", "light", "dark"];
const themeButton = document.getElementById("theme");

function theme() {
  return document.documentElement.dataset.theme ?? "system";
}

function showTheme() {
  const now = theme();
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  themeButton.querySelector("use").setAttribute("href", `#i-${now}`);
  themeButton.title = `Theme: ${now}. Change to ${next}`;
  setText(document.getElementById("theme-text"), themeButton.title);
}

themeButton?.addEventListener("click", () => {
  const next = THEMES[(THEMES.indexOf(theme()) + 1) % THEMES.length];
  if (next === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = next;
  try {
    localStorage.setItem("headgate-theme", next);
  } catch {
    // It holds for this page then.
  }
  showTheme();
  dispatchEvent(new Event("headgate-theme"));
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => dispatchEvent(new Event("headgate-theme")));

const menu = document.getElementById("user-menu");
addEventListener("click", (event) => {
  if (menu?.open && !menu.contains(event.target)) menu.open = false;
});

addEventListener("keydown", (event) => {
  if (event.key === "Escape" && menu?.open) menu.open = false;
});
document.getElementById("keys")?.addEventListener("click", () => showKeys());

document.getElementById("broker-choice")?.addEventListener("change", (event) => {
  const about = { "/queues/": "/", "/history/": "/history/" };
  const home = Object.keys(about).find((path) => location.pathname.startsWith(path));
  const url = new URL(home ? about[home] : location.pathname, location.origin);
  url.searchParams.set("broker", event.target.value);
  location.assign(url);
});

const ROLES = { operate: "operator", edit: "policy editor", administer: "administrator" };

/** Whether they may `operate`, `edit` or `administer` a virtual host, the broker as a whole (null), or, left out, anything
 * at all on this page's broker. The server decides again in each call. */
export function may(what, host) {
  const hosts = settings.may?.[what];
  if (hosts === null) return true;
  return Boolean(hosts?.length) && (host === undefined || hosts.includes(host));
}

/** Properties of a button: whoever may not do it sees it all the same, and is told why. */
export const unless = (what, host) => (may(what, host) ? { data: {} } : { "aria-disabled": "true", data: { needs: ROLES[what] } });

/** The same for what is done at the broker: it is off while that does not answer. */
export function acting(what, host) {
  const { data, ...others } = unless(what, host);
  return { ...others, data: { ...data, acts: "" } };
}

/** The same for what is done to objects of a type: `update`, `create`, `delete`, or an operation. */
export function unlessAllowed(type, action = "call", host = undefined) {
  const policy = type === "Policy" || type === "SlowConsumerPolicy";
  if (type === "User") return acting("administer", null);
  return acting(action === "update" || (policy && action !== "call") ? "edit" : "operate", host);
}

/** The virtual host that an object is in, or is; null: it belongs to the broker as a whole. */
export function hostOf(text) {
  const name = parseName(text ?? "");
  return (name?.type === "VirtualHost" ? name.keys.name : name?.keys.virtualhost) ?? null;
}

// A disabled action stays focusable and says why.
addEventListener("click", (event) => {
  const disabled = event.target.closest?.('[aria-disabled="true"]');
  if (!disabled) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  toast(disabled.dataset.off === undefined ? `You may look, but not do that: it needs the role of ${disabled.dataset.needs ?? "operator"}.` : whyNot(), "error");
}, true);

if (themeButton) showTheme();
showConnection();
// Pages with a watch of their own replace this one; the others still show the connection and the stops.
if (["audit", "api-docs", "history"].includes(settings.page)) watch({ watch: "objects", object: "" });
