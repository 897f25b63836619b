// The only module that owns the socket. It watches one thing at a time, and keeps watching it through lost
// connections: it reconnects with growing pauses, asks for the events after the last one it has, and passes on whole
// snapshots, never deltas. It must not touch the page.
//
// Events it dispatches (CustomEvent, `detail` in brackets):
//   state    {state: "connecting" | "live" | "lost" | "signed-out", since: ms, retryAt: ms | null}
//            live: from the first snapshot on; a socket that is open shows nothing of now yet
//   broker   {connected, since, error}      asOf (ms, or null) is in what `beat` tells before it
//   snapshot the frame; `state` and `broker` say after it that it is of now. None that knows nothing follows one that
//            does, until something else is watched
//   events   {events: [...], reset: bool}   reset: older events have expired, start a new list; the first may be empty:
//                                           there are none yet
//   beat     {at, asOf}                     any frame; asOf: what is known of the broker is as of then, ms, null if
//                                           nothing is, undefined if the frame knows less than the page

import { asksWhy, isSignedOut, pauseAfter, SILENCE } from "./reconnect.js";

export class Live extends EventTarget {
  #url;
  /** @type {any} */
  #socket = null;
  /** @type {any} */
  #watch = null;
  /** @type {any} */
  #lastEvent = null;
  #lastFrame = 0;
  #lastSnapshot = 0;
  #known = false; // the page has a snapshot of what is watched that says something
  #failures = 0;
  /** @type {any} */
  #retry = null;
  /** @type {any} */
  #silence = null;
  #state = "connecting";
  #since = Date.now();
  #reset = false;
  #eventsBegan = false;

  constructor(path = "/ws/live/") {
    super();
    const url = new URL(path, location.href);
    url.protocol = url.protocol.replace("http", "ws");
    this.#url = url.href;
  }

  #listen() {
    addEventListener("online", () => this.#now());
    addEventListener("pageshow", (event) => event.persisted && this.#now());
    addEventListener("pagehide", () => this.#drop());
    document.addEventListener("visibilitychange", () => {
      // Timers of hidden pages are slowed down, and a closed laptop stops them: look again at once when shown.
      if (document.visibilityState === "visible") this.#lookAlive();
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

  /** When the last frame came, ms; 0 if none did. */
  get lastFrame() {
    return this.#lastFrame;
  }

  /**
   * Watch something else from now on, such as {watch: "overview", search: "ord"}.
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

  /** Do not wait for the next attempt. */
  retry() {
    this.#now();
  }

  #open() {
    clearTimeout(this.#retry);
    this.#retry = null;
    const socket = new WebSocket(this.#url);
    this.#socket = socket;
    this.#lastSnapshot = 0;
    socket.addEventListener("open", () => socket === this.#socket && this.#sendWatch());
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
    this.#lastFrame = Date.now();
    this.#failures = 0;
    this.#watchSilence();
    // A server that was restarted while the broker is away knows nothing of it: what the page has is more, and stays.
    const less = frame.as_of === null && this.#known;
    this.#tell("beat", { at: this.#lastFrame, asOf: less ? undefined : frame.as_of });
    if (frame.type === "snapshot") {
      if (frame.n <= this.#lastSnapshot) return; // overtaken: a newer whole truth is on the page already
      this.#lastSnapshot = frame.n;
      this.#known ||= frame.as_of !== null;
      // First what is so, then that it is of now: whatever draws at the second has the first.
      if (!less) this.#tell("snapshot", frame);
      this.#become("live");
      this.#tell("broker", {
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
      if (!events.length && !reset && this.#eventsBegan) return;
      this.#eventsBegan = true;
      if (events.length) this.#lastEvent = events.at(-1).number;
      this.#tell("events", { events, reset });
    } else if (frame.type === "events-expired") {
      this.#lastEvent = Math.max(0, frame.first - 1);
      this.#reset = true;
    } else if (frame.type === "broker") {
      // That it is back says the snapshot that follows: until then the page has nothing that is of now.
      if (!frame.connected) this.#tell("broker", { connected: false, since: frame.since, error: frame.error ?? "" });
    } else if (frame.type === "error") {
      this.#become("live"); // no snapshot follows
      this.#tell("refused", frame);
    }
  }

  /** @param {number} code */
  #lost(code) {
    this.#drop();
    if (isSignedOut(code)) return this.#become("signed-out");
    this.#failures += 1;
    const pause = pauseAfter(this.#failures, Math.random());
    this.#become("lost", Date.now() + pause);
    this.#retry = setTimeout(() => this.#open(), pause);
    if (asksWhy(this.#failures)) this.#askWhy();
    return undefined;
  }

  async #askWhy() {
    try {
      const response = await fetch("/api/v1/brokers/", { credentials: "same-origin", redirect: "manual" });
      if (response.status === 401 || response.status === 403) {
        this.#drop();
        this.#become("signed-out");
      }
    } catch {
      // No answer either: the server is away, and the next attempt is under way.
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

  #now() {
    if (this.#state === "signed-out" || this.#watch === null) return;
    if (this.#socket?.readyState === WebSocket.OPEN) return;
    this.#drop();
    this.#open();
  }

  #lookAlive() {
    if (this.#state === "signed-out" || this.#watch === null) return;
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
      this.#since = Date.now();
    } else if (retryAt === null) return;
    this.#tell("state", { state, since: this.#since, retryAt });
  }

  /**
   * @param {any} type
   * @param {any} detail
   */
  #tell(type, detail) {
    this.dispatchEvent(new CustomEvent(type, { detail }));
  }
}
