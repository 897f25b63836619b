// A table of episodes with search, sorting, pages and export.

import { fill, h, icon, setAttribute, setText } from "../core/elements.js";
import { bytes, clock, count, duration, exact, exactAmount, moment, plural } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { stopInWords } from "../core/object_names.js";
import { serverNow } from "../core/server_clock.js";
import { brokerTitle } from "../core/settings.js";
import { fetchHistory, fileUrl, historyQueueUrl, incidentUrl, Loading, showEmpty } from "./data.js";
import { endInWords, knownUntil } from "./episode_end.js";

const SIZE = matchMedia("(max-width: 760px)").matches ? 10 : 25;
const COLUMNS = [
  ["start", "Start", ""],
  ["queue", "Queue or scope", ""],
  ["duration", "Duration", "num"],
  ["peak_messages", "Peak, messages", "num"],
  ["peak_bytes", "Peak, bytes", "num"],
  ["producers", "Blocked producers", "num"],
  ["blocked", "Blocked producer time", "num"],
  [null, "Cleared by", ""],
];
/** @type {Record<string, string>} */
const CLEARED_BY = {
  drained: "drained",
  policy: "policy change",
  purged: "purge",
  deleted: "deletion",
  restart: "broker restart",
  stopped: "stop",
  started: "start",
  seen: "not recorded",
};
const UNREPORTED = "This broker does not report the blocked producers of queues";
const AROUND = 5 * 60_000;

export class Episodes {
  #table;
  #body;
  #note;
  #pager;
  #files;
  #loading = new Loading();
  /** @type {any} */
  #parameters = {};
  #page = 1;
  #sort = "-start";
  #search = "";
  #kind = "";
  #onCount;
  #several;

  /**
   * `onCount(count)`: called with the number of matching episodes. `several()`: whether rows name their broker.
   *
   * @param {HTMLElement} box
   * @param {any} [options]
   */
  constructor(box, { onCount = () => {}, several = () => false, search = true } = {}) {
    this.#onCount = onCount;
    this.#several = several;
    const headers = COLUMNS.map(([sort, label, kind]) => {
      const content = sort
        ? h("button", { type: "button", class: "sort", data: { sort }, on: { click: () => this.#sortBy(sort) } }, label)
        : label;
      return h("th", { scope: "col", class: kind }, content);
    });
    this.#body = h("tbody", {});
    this.#table = h(
      "table",
      { class: "grid episodes-table stacked", hidden: true },
      h("thead", {}, h("tr", {}, headers)),
      this.#body,
    );
    this.#note = h("div", {});
    this.#pager = h("nav", { class: "pager", "aria-label": "Pages of episodes", hidden: true });
    this.#files = h("span", { class: "files" });
    const input = h("input", {
      type: "search",
      placeholder: "Queue, user, reason",
      maxlength: "200",
      spellcheck: "false",
      "aria-label": "Search episodes",
      ...(search ? { id: "search" } : {}),
    });
    /** @type {any} */
    let wait = null;
    input.addEventListener("input", () => {
      clearTimeout(wait);
      wait = setTimeout(() => {
        this.#search = input.value.trim();
        this.#reload();
      }, 250);
    });
    const kinds = h(
      "select",
      { "aria-label": "Type of episode" },
      h("option", { value: "" }, "Overfull and stopped"),
      h("option", { value: "overfull" }, "Overfull"),
      h("option", { value: "stopped" }, "Stopped"),
    );
    kinds.addEventListener("change", () => {
      this.#kind = kinds.value;
      this.#reload();
    });
    box.append(
      h(
        "div",
        { class: "filters list-filters" },
        h(
          "label",
          { class: "search" },
          icon("search"),
          input,
          search ? h("kbd", { "aria-hidden": "true" }, "/") : null,
        ),
        kinds,
        this.#files,
      ),
      h("div", { class: "table-box", tabindex: "0", role: "region", "aria-label": "Episodes" }, this.#table),
      this.#note,
      this.#pager,
    );
  }

  /**
   * `parameters`: range, broker and queue.
   *
   * @param {any} parameters
   */
  show(parameters) {
    const text = JSON.stringify({ ...parameters, from: 0, until: 0 });
    if (text !== JSON.stringify({ ...this.#parameters, from: 0, until: 0 })) this.#page = 1;
    this.#parameters = parameters;
    this.#load();
  }

  #reload() {
    this.#page = 1;
    this.#load();
  }

  /** @param {any} name */
  #sortBy(name) {
    this.#sort =
      this.#sort === `-${name}` ? name : this.#sort === name ? `-${name}` : name === "queue" ? name : `-${name}`;
    this.#reload();
  }

  get #values() {
    return { ...this.#parameters, search: this.#search, kind: this.#kind, sort: this.#sort };
  }

  #load() {
    for (const button of /** @type {any} */ (this.#table).querySelectorAll("button.sort")) {
      const name = button.dataset.sort;
      const way = this.#sort === name ? "ascending" : this.#sort === `-${name}` ? "descending" : null;
      setAttribute(button.closest("th"), "aria-sort", way);
    }
    this.#loading.load(
      "page",
      (/** @type {AbortSignal} */ signal) =>
        fetchHistory("episodes", { ...this.#values, page: this.#page, page_size: SIZE }, signal),
      (/** @type {any} */ answer) => this.#shown(answer),
      this.#note,
      () => this.#load(),
    );
  }

  /** @param {any} options */
  #shown({ count: matching, results, page }) {
    if (!results.length && page > 1) {
      this.#page = 1;
      this.#load();
      return;
    }
    fill(
      this.#body,
      results.map((/** @type {any} */ episode) => this.#row(episode)),
    );
    this.#table.hidden = !results.length;
    if (results.length) fill(this.#note);
    else if (this.#search || this.#kind) showEmpty(this.#note, "No matching episodes. Change the search or the range.");
    else showEmpty(this.#note, "No episodes recorded in this range.");
    this.#onCount(matching);
    const last = (page - 1) * SIZE + results.length;
    this.#pager.hidden = matching <= SIZE;
    /**
     * @param {string} label
     * @param {any} by
     * @param {any} disabled
     */
    const turn = (label, by, disabled) =>
      h(
        "button",
        {
          type: "button",
          disabled,
          on: {
            click: () => {
              this.#page += by;
              this.#load();
            },
          },
        },
        label,
      );
    fill(
      this.#pager,
      turn("Previous", -1, page <= 1),
      h("span", { class: "muted" }, `${exact((page - 1) * SIZE + 1)}–${exact(last)} of ${exact(matching)}`),
      turn("Next", 1, last >= matching),
    );
    /**
     * @param {any} kind
     * @param {string} label
     */
    const link = (kind, label) => h("a", { href: fileUrl("episodes", this.#values, kind), download: "" }, label);
    fill(
      this.#files,
      matching
        ? [
            h("span", { class: "muted" }, `Export ${plural(matching, "episode")}: `),
            link("csv", "CSV"),
            h("span", { class: "muted" }, ", "),
            link("parquet", "Parquet"),
          ]
        : null,
    );
  }

  /** @param {any} episode */
  #row(episode) {
    const now = serverNow();
    const until = knownUntil(episode, now);
    const range = { from: addressMoment(episode.start - AROUND), until: addressMoment(until + AROUND) };
    const end = endInWords(episode, now);
    const length = [
      h("span", end === "ongoing" ? { class: "hot", title: `since ${moment(episode.start)}` } : {}, [
        duration(until - episode.start),
        end === "ongoing" ? ", ongoing" : "",
      ]),
      end && end !== "ongoing" ? h("small", { class: "muted block wrap" }, end) : null,
    ];
    const stopped = episode.kind === "stopped";
    // Its events were read from the broker's journal later.
    const isUnrecorded = !stopped && episode.producers > 0 && !episode.blocked_ms;
    const what = stopped
      ? [
          icon("stopped"),
          " ",
          stopInWords(episode.scope),
          h("small", { class: "muted" }, `${episode.actor || "unknown"}: ${episode.reason || "no reason given"}`),
        ]
      : [
          icon("overfull"),
          " ",
          h("a", { href: historyQueueUrl(episode, range) }, episode.queue),
          episode.virtualhost === "default" ? null : h("small", { class: "muted" }, episode.virtualhost),
        ];
    /**
     * @param {any} value
     * @param {any} stop
     * @param {string} unit
     */
    const peak = (value, stop, unit) =>
      h(
        "td",
        {
          class: "num",
          "data-label": unit === "bytes" ? "Peak, bytes" : "Peak",
          title:
            value === null
              ? "unknown"
              : `${exactAmount(value, unit)}${stop ? `, stop level ${exactAmount(stop, unit)}` : ""}`,
        },
        value === null ? "–" : unit === "bytes" ? bytes(value) : count(value),
      );
    const cause = episode.end === null ? "" : (CLEARED_BY[episode.released_by] ?? episode.released_by ?? "");
    const ended = episode.released_actor ? `${episode.released_actor} (${cause})` : cause;
    return h(
      "tr",
      { data: { state: stopped ? "STOPPED" : "OVERFULL" } },
      h(
        "td",
        { "data-label": "Start" },
        h(
          "a",
          {
            href: incidentUrl(episode, range),
            title:
              `${moment(episode.start)}` +
              `${episode.end === null ? "" : ` to ${moment(episode.end)}`}\nShow the incident`,
          },
          clock(episode.start),
        ),
      ),
      h(
        "th",
        { scope: "row", class: "wrap c-what" },
        what,
        this.#several() ? h("small", { class: "muted" }, brokerTitle(episode.broker)) : null,
      ),
      h(
        "td",
        {
          class: "num",
          "data-label": "Duration",
          title: episode.duration_ms === null ? "" : `${exact(episode.duration_ms)} ms`,
        },
        length,
      ),
      peak(episode.peak_messages, episode.stop_messages, "messages"),
      peak(episode.peak_bytes, episode.stop_bytes, "bytes"),
      h(
        "td",
        {
          class: "num",
          "data-label": "Blocked producers",
          title:
            episode.producers === null
              ? UNREPORTED
              : `${plural(episode.producers, "producer")} of ${plural(episode.connections ?? 0, "connection")}`,
        },
        count(episode.producers),
      ),
      h(
        "td",
        {
          class: "num",
          "data-label": "Blocked producer time",
          title: isUnrecorded
            ? "Only recorded time counts: no time of this episode was recorded"
            : episode.blocked_ms === null
              ? UNREPORTED
              : `${exact(episode.blocked_ms)} ms, sum over all blocked producers`,
        },
        isUnrecorded ? "–" : duration(episode.blocked_ms),
      ),
      h(
        "td",
        { class: "wrap", "data-label": "Cleared by" },
        ended,
        episode.released_reason ? h("small", { class: "muted" }, `“${episode.released_reason}”`) : null,
      ),
    );
  }
}

/**
 * @param {HTMLElement} element
 * @param {any} n
 */
export const setCount = (element, n) => setText(element, n ? exact(n) : "");
