// The state of the connection: the dot in the header, and the banner with the problem and the time of the snapshot.

import { setAway } from "../core/away.js";
import { byId, fill, h, icon, setText } from "../core/elements.js";
import { clock } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";

const BLINK = 1000; // ms: shorter losses are not reported
const RELOAD_AFTER = 4000; // ms, for a broker that was added again: every process of the console knows it by then
/** @type {Record<string, string>} */
const WORDS = {
  connecting: "Connecting…",
  live: "Live",
  lost: "Reconnecting…",
  "signed-out": "Signed out",
  removed: "Removed",
  returned: "Added again",
  "broker-lost": "Disconnected",
};

export class ConnectionBanner {
  #live;
  #dot = byId("connection");
  #text = byId("connection-text");
  #banner = byId("banner-lost");
  /** From the page, then from the frames. `connected`: null while it is not known. */
  #broker = settings.state ?? { connected: null, since: 0, error: "" };
  /** The time of the newest snapshot, even if it arrived late; null: there is none. */
  #asOf = settings.state?.as_of ?? null;
  #dated = this.#asOf; // the time that banner and page show
  #changed;
  #edited = false; // whether the user has entered something that loading the page again would discard

  /**
   * `changed()` is called when the connection or the broker connects or disconnects: load what snapshots do not have.
   *
   * @param {any} live
   * @param {(...given: any[]) => any} changed
   */
  constructor(live, changed) {
    this.#live = live;
    this.#changed = changed;
    live.addEventListener("beat", (/** @type {any} */ event) => {
      // Frames also arrive while the broker hangs; they have the time of their data.
      if (event.detail.asOf !== undefined) this.#asOf = event.detail.asOf;
    });
    live.addEventListener("state", (/** @type {any} */ event) => {
      if (event.detail.state === "live") changed();
      this.#show();
      if (event.detail.state === "returned") setTimeout(() => this.#hasInput() || location.reload(), RELOAD_AFTER);
    });
    addEventListener("input", (event) => {
      const field = /** @type {any} */ (event.target);
      if (field.type !== "search") this.#edited = true;
    });
    live.addEventListener("broker", (/** @type {any} */ event) => this.#brokerChanged(event.detail));
    this.#show();
  }

  /** Whether the broker is known not to answer. */
  get brokerAway() {
    return this.#broker.connected === false;
  }

  #hasInput() {
    return this.#edited || document.querySelector("dialog[open]") !== null;
  }

  /** @param {any} broker */
  #brokerChanged(broker) {
    const before = this.#broker;
    this.#broker = broker;
    if (before.connected !== broker.connected || before.error !== broker.error || this.#asOf !== this.#dated)
      this.#show();
    if (broker.connected !== before.connected) this.#changed();
  }

  /** @param {any} state */
  #shown(state) {
    if ((state === "live" || state === "connecting") && this.brokerAway) return "broker-lost";
    return state === "live" && this.#broker.connected === null ? "connecting" : state;
  }

  #show() {
    const { state, since } = this.#live.state;
    const shown = this.#shown(state);
    this.#dot.dataset.state = shown;
    document.body.classList.toggle("stale", shown !== "live" && shown !== "connecting");
    setText(this.#text, WORDS[shown]);
    /** @type {Record<string, any>} */
    const titles = {
      live: `Live since ${clock(since)}`,
      lost: `Lost at ${clock(since)}`,
      "broker-lost": this.#broker.error,
    };
    this.#dot.title = titles[shown] ?? WORDS[shown];
    if (shown === "lost" && serverNow() - since < BLINK) {
      setTimeout(() => this.#show(), BLINK); // the dot changes at once, the banner later
      return;
    }
    this.#dated = this.#asOf;
    this.#banner.hidden = shown === "live" || shown === "connecting";
    setAway(this.#reasonNot(shown), this.#asOf);
    if (!this.#banner.hidden) fill(this.#banner, ...this.#lines(shown, since));
  }

  /**
   * @param {any} shown
   * @param {any} since
   */
  #lines(shown, since) {
    const when = this.#asOf === null ? "Nothing is known yet" : `Shown as of ${clock(this.#asOf)}`;
    if (shown === "lost") {
      return [
        icon("info"),
        h("p", {}, h("strong", {}, "Connection lost. "), `${when}, reconnecting… (for `, sinceElement(since), ")"),
        h("button", { type: "button", class: "quiet", on: { click: () => this.#live.retry() } }, "Try now"),
      ];
    }
    if (shown === "signed-out") {
      const back = `${settings.loginUrl}?next=${encodeURIComponent(location.pathname + location.search)}`;
      return [
        icon("lock"),
        h("p", {}, h("strong", {}, "You are signed out. "), `${when}. `, h("a", { href: back }, "Sign in again")),
      ];
    }
    if (shown === "removed") {
      return [
        icon("info"),
        h(
          "p",
          {},
          h("strong", {}, `${settings.brokerTitle} was removed`),
          ` from the console, or you have no permission to view it any more. ${when}. `,
          h("a", { href: "/" }, "Other brokers"),
        ),
      ];
    }
    if (shown === "returned") {
      return [
        icon("info"),
        h("p", {}, h("strong", {}, `${settings.brokerTitle} was removed and added again. `), `${when}.`),
        h("button", { type: "button", class: "quiet", on: { click: () => location.reload() } }, "Load the page again"),
      ];
    }
    const { error, since: awaySince } = this.#broker;
    return [
      icon("info"),
      h(
        "p",
        {},
        h("strong", {}, `${settings.brokerTitle} cannot be reached`),
        error ? `: ${error.replace(/\.$/, "")}` : "",
        ". ",
        `${when}. `,
        "The console reconnects automatically",
        awaySince ? [" (disconnected for ", sinceElement(awaySince), ")"] : "",
        ".",
      ),
    ];
  }

  /**
   * The reason why the broker cannot be changed now; empty: it can.
   *
   * @param {any} shown
   */
  #reasonNot(shown) {
    if (shown === "broker-lost") return `${settings.brokerTitle} does not answer: changes are not possible.`;
    if (shown === "lost") return "The connection to the console is lost: changes are not possible.";
    if (shown === "signed-out") return "You are signed out: sign in again to make changes.";
    if (shown === "removed") return `${settings.brokerTitle} was removed: changes are not possible.`;
    if (shown === "returned") return `${settings.brokerTitle} was added again: load the page again to make changes.`;
    return shown === "connecting" && this.#broker.connected === null && settings.broker
      ? `${settings.brokerTitle} has not answered yet.`
      : "";
  }
}
