// The WebSocket of the page. It watches one thing at a time and reconnects with increasing delays; then it requests the
// events since the last one received. It dispatches complete snapshots, never deltas, and does not touch the page.
//
// Events (CustomEvent, `detail` in brackets):
//   state    {state: "connecting" | "live" | "lost" | "signed-out" | "removed" | "returned", since: ms,
//             retryAt: ms | null}
//            live: from the first snapshot on, not from the open socket
//            returned: a broker was removed and added again, and may be another one: the page must be loaded again
//   broker   {connected, since, error}      follows a `beat` with the time of the data (asOf)
//   snapshot the frame; `state` and `broker` follow. A snapshot without data never follows one with data of the same
//            subject
//   events   {events: [...], reset: bool}   reset: older events have expired, start a new list. The first list can be
//                                           empty: there are no events
//   alerts   {alerts: [...]}                the firing alerts, after `followAlerts`, whenever they have changed
//   beat     {at, asOf}                     any frame; asOf: time of the console's data of the broker, ms; null: none;
//                                           undefined: the page has newer data than the frame

import { isRemoved, isSignedOut, LONGEST, pauseAfter, SILENCE, shouldCheckSession } from "./reconnect.js";
import { noteServerTime, serverNow } from "./server_clock.js";

export class Live extends EventTarget {
  #url;
  #isOfBroker; // and not of all brokers, of which more may come
  /** @type {any} */
  #socket = null;
  #wasOpen = false; // whether the socket has received a frame
  /** @type {any} */
  #watch = null;
  /** @type {any} */
  #lastEvent = null;
  #lastFrame = 0;
  #lastSnapshot = 0;
  #known = false; // whether the page has a snapshot with data of what it watches
  #failures = 0;
  /** @type {any} */
  #retry = null;
  /** @type {any} */
  #silence = null;
  #state = "connecting";
  #since = serverNow();
  #reset = false;
  #eventsBegan = false;
  #followsAlerts = false;

  constructor(path = "/ws/live/") {
    super();
    const url = new URL(path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#url = url.href;
    this.#isOfBroker = Boolean(url.searchParams.get("broker"));
  }

  #listen() {
    addEventListener("online", () => this.#now());
    addEventListener("pageshow", (event) => event.persisted && this.#now());
    addEventListener("pagehide", () => this.#drop());
    document.addEventListener("visibilitychange", () => {
      // Browsers slow down timers of hidden pages, and suspend stops them: check at once when the page is shown.
      if (document.visibilityState === "visible") this.#checkAlive();
    });
  }

  /**
   * @param {string} type
   * @param {(event: any) => void} listener
   */
  addEventListener(type, listener) {
    super.addEventListener(type, listener);
  }

  get state() {
    return { state: this.#state, since: this.#since };
  }

  /** Time of the last frame, ms; 0 if there was none. */
  get lastFrame() {
    return this.#lastFrame;
  }

  /**
   * Watch something else, such as {watch: "overview", search: "ord"}.
   *
   * @param {any} message
   */
  watch(message) {
    if (this.#watch === null) this.#listen();
    this.#watch = message;
    this.#known = false;
    if (this.#socket === null && this.#retry === null) this.#open();
    else this.#sendWatch();
  }

  /**
   * Follow the firing alerts, or no longer, beside what is watched.
   *
   * @param {boolean} follows
   */
  followAlerts(follows) {
    this.#followsAlerts = follows;
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify({ alerts: follows }));
  }

  /** Reconnect at once. */
  retry() {
    this.#now();
  }

  #open() {
    clearTimeout(this.#retry);
    this.#retry = null;
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    this.#wasOpen = false;
    this.#lastSnapshot = 0;
    socket.addEventListener("open", () => {
      if (socket !== this.#socket) return;
      this.#sendWatch();
      if (this.#followsAlerts) socket.send(JSON.stringify({ alerts: true }));
    });
    socket.addEventListener("message", (message) => socket === this.#socket && this.#receive(JSON.parse(message.data)));
    socket.addEventListener("close", (event) => socket === this.#socket && this.#lost(event.code));
    this.#watchSilence();
  }

  #sendWatch() {
    if (this.#watch === null || this.#socket?.readyState !== WebSocket.OPEN) return;
    const after = this.#lastEvent === null ? {} : { after: this.#lastEvent };
    this.#socket.send(JSON.stringify({ ...this.#watch, ...after }));
  }

  /** @param {any} frame */
  #receive(frame) {
    if (this.#state === "removed") {
      this.#drop();
      return this.#become("returned");
    }
    this.#lastFrame = Date.now();
    noteServerTime(frame.at);
    this.#failures = 0;
    this.#wasOpen = true;
    this.#watchSilence();
    // A console that was restarted while the broker is disconnected has no data of it: the page's data stay.
    const less = frame.as_of === null && this.#known;
    this.#dispatch("beat", { at: this.#lastFrame, asOf: less ? undefined : frame.as_of });
    if (frame.type === "snapshot") {
      if (frame.n <= this.#lastSnapshot) return undefined; // the page has a newer snapshot
      this.#lastSnapshot = frame.n;
      this.#known ||= frame.as_of !== null;
      // First the data, then the state: listeners that draw on `state` have the data.
      if (!less) this.#dispatch("snapshot", frame);
      this.#become("live");
      this.#dispatch("broker", {
        connected: frame.connected !== false,
        since: frame.since ?? frame.at,
        error: frame.error ?? "",
      });
    } else if (frame.type === "events") {
      const events = frame.events.filter(
        (/** @type {any} */ event) => this.#lastEvent === null || event.number > this.#lastEvent,
      );
      const reset = this.#reset;
      this.#reset = false;
      if (!events.length && !reset && this.#eventsBegan) return undefined;
      this.#eventsBegan = true;
      if (events.length) this.#lastEvent = events.at(-1).number;
      this.#dispatch("events", { events, reset });
    } else if (frame.type === "alerts") {
      this.#dispatch("alerts", { alerts: frame.alerts });
    } else if (frame.type === "events-expired") {
      this.#lastEvent = Math.max(0, frame.first - 1);
      this.#reset = true;
    } else if (frame.type === "broker") {
      // The next snapshot reports that the broker is connected: until then the page has no current data.
      if (!frame.connected)
        this.#dispatch("broker", { connected: false, since: frame.since, error: frame.error ?? "" });
    } else if (frame.type === "error") {
      this.#become("live"); // no snapshot follows
      this.#dispatch("refused", frame);
    }
    return undefined;
  }

  /** @param {number} code */
  #lost(code) {
    this.#drop();
    if (isSignedOut(code)) return this.#become("signed-out");
    this.#failures += 1;
    if (this.#isOfBroker && isRemoved(code, this.#failures, this.#wasOpen)) this.#become("removed");
    if (this.#state === "removed") {
      // It may be added again under its name.
      this.#retry = setTimeout(() => this.#open(), pauseAfter(LONGEST, Math.random()));
      return undefined;
    }
    const pause = pauseAfter(this.#failures, Math.random());
    this.#become("lost", Date.now() + pause);
    this.#retry = setTimeout(() => this.#open(), pause);
    if (shouldCheckSession(this.#failures)) this.#checkSession();
    return undefined;
  }

  async #checkSession() {
    try {
      const response = await fetch("/api/v1/brokers/", { credentials: "same-origin", redirect: "manual" });
      if (response.status === 401 || response.status === 403) {
        this.#drop();
        this.#become("signed-out");
      }
    } catch {
      // The console does not answer: the next attempt is scheduled.
    }
  }

  #drop() {
    clearTimeout(this.#silence);
    clearTimeout(this.#retry);
    this.#retry = null;
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  get #hasEnded() {
    return this.#state === "signed-out" || this.#state === "returned";
  }

  #now() {
    if (this.#hasEnded || this.#watch === null) return;
    if (this.#socket?.readyState === WebSocket.OPEN) return;
    this.#drop();
    this.#open();
  }

  #checkAlive() {
    if (this.#hasEnded || this.#watch === null) return;
    if (this.#socket?.readyState !== WebSocket.OPEN) this.#now();
    else if (Date.now() - this.#lastFrame > SILENCE) this.#lost(0);
  }

  #watchSilence() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#lost(0), SILENCE);
  }

  /**
   * @param {any} state
   * @param {any} [retryAt]
   */
  #become(state, retryAt = null) {
    if (state !== this.#state) {
      this.#state = state;
      this.#since = serverNow();
    } else if (retryAt === null) return;
    this.#dispatch("state", { state, since: this.#since, retryAt });
  }

  /**
   * @param {any} type
   * @param {any} detail
   */
  #dispatch(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
