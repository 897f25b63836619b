// The event feed: newest first; consecutive similar events are one line.
//
// While events arrive, only the lines at the top are drawn: a thousand events a second replace all lines four times a
// second, and to draw what is not seen would delay what the user does, such as a stop of all producers.

import { get } from "../core/api.js";
import { away, UNKNOWN, whenAway } from "../core/away.js";
import {
  atMostEvery,
  fill,
  forgetNodes,
  h,
  icon,
  onNextFrame,
  reconcile,
  setAttribute,
  setText,
} from "../core/elements.js";
import { clock, eventName, moment } from "../core/format.js";
import { objectUrl, parseName, queueUrl, shortName } from "../core/object_names.js";

const MAX_LINES = 200;
const LINE_HEIGHT = 40; // px, at least
const OTHERS_AFTER = 1000; // ms without events, for the lines below; at once if the list is scrolled
const RETRY_AFTER = 2000; // ms, for past events while the broker does not answer
const REDRAW_EVERY = 250; // ms, at most
/** @type {Record<string, string>} */
export const SHAPES = {
  "queue-overfull": "overfull",
  "queue-underfull": "normal",
  "producer-blocked": "blocked",
  "producer-released": "running",
  "producers-stopped": "stopped",
  "producers-started": "start",
  "policy-changed": "pencil",
};

/**
 * Return the log line without subject and code: the line above has them as text, the tooltip has the full line.
 *
 * @param {string} text
 */
export const said = (text) => text.replace(/^(?:MESSAGE\s+)?(?:\[[^\]]*\]\s*)+/, "").replace(/^[A-Z]{3}-\d{4} : /, "");

/**
 * Return the subject of an event as text: for a producer, its queue rather than its number.
 *
 * @param {any} event
 */
export function subject(event) {
  const name = parseName(event.object);
  const queue = event.attributes?.queue;
  if (name?.type === "Producer" && queue) return String(queue).startsWith("type=") ? shortName(queue) : String(queue);
  return shortName(event.object);
}

/** @param {any} event */
export function target(event) {
  const name = parseName(event.object);
  const queue = event.attributes?.queue;
  if (name?.type === "Producer" && queue) {
    return String(queue).startsWith("type=")
      ? objectUrl(queue, event.broker)
      : queueUrl(name.keys.virtualhost, String(queue), event.broker);
  }
  return objectUrl(event.object, event.broker);
}

/** The number of lines at the top that the window can show. */
const topLines = () => Math.ceil(innerHeight / LINE_HEIGHT);

export class Feed {
  #list;
  #note;
  #keep;
  /** @type {any[]} */
  #lines = [];
  #linked;
  #draw;
  #drawAll;
  #drawsOthers = 0; // timer
  #scrolled = false;
  #known = false; // whether events were received: no lines then means no events

  /**
   * `keep(event)`: whether the feed shows the event. `linked`: subjects are links.
   *
   * @param {HTMLElement} list
   * @param {any} note
   * @param {any} [options]
   */
  constructor(list, note, { keep = () => true, linked = true } = {}) {
    this.#list = list;
    this.#note = note;
    this.#keep = keep;
    this.#linked = linked;
    this.#draw = atMostEvery(REDRAW_EVERY, () => this.#render(this.#scrolled ? MAX_LINES : topLines()));
    this.#drawAll = onNextFrame(() => this.#render());
    list.addEventListener("scroll", () => {
      this.#scrolled = list.scrollTop > 0;
      if (this.#scrolled) this.#drawAll();
    });
    whenAway(() => this.#lines.length || this.#render()); // events are dated, that there are none is not
    this.#render();
  }

  clear() {
    this.#lines = [];
    this.#render();
  }

  /**
   * Add events. A first empty list means that there are none.
   *
   * @param {any[]} events
   * @param {boolean} [reset]
   */
  add(events, reset = false) {
    this.#known = true;
    if (reset) {
      this.#lines = [];
      if (this.#note) setText(this.#note, "older events are not available");
    }
    for (const event of events) {
      if (!this.#keep(event)) continue;
      const top = this.#lines[0];
      if (
        top &&
        top.event.kind === event.kind &&
        subject(top.event) === subject(event) &&
        event.kind.startsWith("producer-")
      ) {
        top.times += 1;
        top.event = event;
      } else {
        this.#lines.unshift({ key: event.number, event, times: 1 });
      }
    }
    this.#lines.length = Math.min(this.#lines.length, MAX_LINES);
    this.#draw();
    clearTimeout(this.#drawsOthers);
    if (this.#lines.length > topLines()) this.#drawsOthers = setTimeout(this.#drawAll, OTHERS_AFTER);
  }

  #render(most = MAX_LINES) {
    if (!this.#lines.length) {
      forgetNodes(this.#list);
      const none = this.#known && !away() ? "No events yet" : away() ? UNKNOWN : "Loading…";
      fill(this.#list, h("li", { class: "empty" }, h("p", {}, none)));
      return;
    }
    if (this.#list.firstElementChild?.classList.contains("empty")) fill(this.#list);
    reconcile(
      this.#list,
      this.#lines.slice(0, most),
      (line) => line.key,
      () => this.#line(),
      (node, line) => this.#update(node, line),
    );
  }

  #line() {
    return h(
      "li",
      { class: "event" },
      h("time", { class: "clock" }),
      h("span", { class: "event-icon" }),
      h("div", { class: "event-body" }, h("p", { class: "event-head" }), h("p", { class: "event-text" })),
    );
  }

  /**
   * @param {any} node
   * @param {any} options
   */
  #update(node, { event, times }) {
    if (node.dataset.number === String(event.number)) return;
    node.dataset.number = event.number;
    node.dataset.kind = event.kind;
    const [time, shape, body] = node.children;
    setText(time, clock(event.at));
    setAttribute(time, "datetime", new Date(event.at).toISOString());
    setAttribute(time, "title", moment(event.at));
    if (!shape.firstChild) fill(shape, icon(SHAPES[event.kind] ?? "info"));
    const about = this.#linked
      ? h("a", { href: target(event) }, subject(event))
      : h("span", { class: "muted" }, subject(event));
    fill(
      body.firstChild,
      h("strong", {}, eventName(event.kind)),
      " ",
      about,
      times > 1 ? h("span", { class: "times" }, ` ×${times}`) : null,
    );
    setText(body.lastChild, said(event.text));
    setAttribute(body.lastChild, "title", `${event.text}\nNumber ${event.number}`);
  }
}

/**
 * Deliver each event once, in order: recent past events first, then live ones. `deliver(events, reset)` is called with
 * the past events when they are loaded (or with none if that fails), then with each batch of live events.
 *
 * @param {any} live
 * @param {any} deliver
 */
export function pastAndPresent(live, deliver) {
  /** @type {any[] | null} */
  let waiting = [];
  let last = 0;
  live.addEventListener("events", (/** @type {any} */ { detail: { events, reset } }) => {
    if (waiting) {
      waiting.push(...events);
      return;
    }
    if (reset) last = 0;
    const fresh = events.filter((/** @type {any} */ event) => event.number > last);
    if (fresh.length) last = fresh.at(-1).number;
    deliver(fresh, reset);
  });
  /** @param {any[]} past */
  const begin = (past) => {
    /** @type {any} */
    const known = new Map([...past, ...(waiting ?? [])].map((event) => [event.number, event]));
    const all = [...known.values()].sort((a, b) => a.number - b.number);
    waiting = null;
    if (all.length) last = all.at(-1).number;
    deliver(all, false);
  };
  const load = () =>
    get("events/?count=1000").then(
      (response) => begin(response.events),
      (error) => {
        if (error.status === 503) setTimeout(load, RETRY_AFTER);
        else begin([]);
      },
    );
  load();
}
