// Throughput, depth and blocked producer time of brokers over the last hour, from the recorded history
// (templates/console/last_hour.html). Its height never changes; unrecorded time is hatched, the unknown is unknown.

import { get } from "../core/api.js";
import { byId, fill, find, h, setAttribute, setText } from "../core/elements.js";
import { clock, count, duration, plural, rate } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { highest, joinedGaps, knownSum, newestSlot, stepPath } from "./spark_shapes.js";

const HOUR = 3_600_000; // ms
const EVERY = 15_000; // ms
const HEIGHT = 40; // units of the drawing
const SVG = "http://www.w3.org/2000/svg";

/** @param {any} value */
const minute = (value) => (value === null ? "not known" : `${duration(value)} blocked`);

/**
 * The charts: their fields, how they are drawn, and their text for a slot (-1: the whole hour).
 *
 * @type {{name: string, lines: {field: string, class: string, closed?: boolean}[], text: (of: any, slot: number) =>
 *   string}[]}
 */
const CHARTS = [
  {
    name: "throughput",
    lines: [
      { field: "rate_in", class: "spark-in" },
      { field: "rate_out", class: "spark-out" },
    ],
    text: (of, slot) => {
      const at = slot < 0 ? newestSlot(of.rate_in) : slot;
      return at < 0 || of.rate_in[at] === null
        ? "not known"
        : `${rate(of.rate_in[at])} in, ${rate(of.rate_out[at])} out /s`;
    },
  },
  {
    name: "depth",
    lines: [{ field: "messages", class: "spark-depth", closed: true }],
    text: (of, slot) => {
      const at = slot < 0 ? newestSlot(of.messages) : slot;
      const value = at < 0 ? null : of.messages[at];
      return value === null ? "not known" : `${plural(Math.round(value), "message")}, mean of a minute`;
    },
  },
  {
    name: "blocked",
    lines: [{ field: "blocked_ms", class: "spark-blocked", closed: true }],
    text: (of, slot) => {
      if (slot >= 0) return minute(of.blocked_ms[slot]);
      const sum = knownSum(of.blocked_ms);
      return sum === null ? "not known" : `${duration(sum)} in all`;
    },
  },
];

/**
 * Show a text that a narrow window may cut off: it is the title, too.
 *
 * @param {HTMLElement} element
 * @param {string} text
 */
function showWhole(element, text) {
  setText(element, text);
  setAttribute(element, "title", text);
}

export class LastHour {
  #box = byId("last-hour");
  #brokers;
  /** @type {any} */
  #totals = null;
  #shown = "";
  #newest = 0;

  /**
   * `brokers`: returns the names of the brokers to add up; empty: all; null: none; undefined: not known yet.
   *
   * @param {() => string[] | null | undefined} brokers
   */
  constructor(brokers) {
    this.#brokers = brokers;
    for (const chart of CHARTS) this.#listen(chart);
    setInterval(() => document.visibilityState === "visible" && this.load(), EVERY);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.load());
    this.load();
  }

  /** Load and show the newest totals. */
  async load() {
    this.#newest += 1;
    const mine = this.#newest;
    const until = serverNow();
    const names = this.#brokers();
    if (names === undefined) return;
    if (names === null) {
      this.#totals = null;
      this.#box.dataset.shows = "note";
      setText(byId("last-hour-note"), "No matching brokers.");
      return;
    }
    const given = [
      `from=${until - HOUR}`,
      `until=${until}`,
      ...names.map((name) => `broker=${encodeURIComponent(name)}`),
    ];
    try {
      const totals = await get(`history/totals/?${given.join("&")}`);
      if (mine !== this.#newest) return;
      const known = CHARTS.some(({ lines: [line] }) => newestSlot(totals[line.field]) >= 0);
      this.#totals = known ? totals : null;
      this.#box.dataset.shows = known ? "charts" : "note";
      if (known) this.#draw();
      else setText(byId("last-hour-note"), "Nothing of the last hour is recorded yet.");
    } catch (error) {
      if (mine !== this.#newest) return;
      this.#totals = null;
      this.#box.dataset.shows = "note";
      setText(byId("last-hour-note"), `The history cannot be read: ${error.message}`);
    }
  }

  #draw() {
    const text = JSON.stringify(this.#totals);
    if (text === this.#shown) return;
    this.#shown = text;
    for (const chart of CHARTS) this.#drawChart(chart);
  }

  /** @param {any} chart */
  #drawChart(chart) {
    const totals = this.#totals;
    const of = find(`[data-spark="${chart.name}"]`, this.#box);
    const drawing = find(".spark", of);
    const series = chart.lines.map((/** @type {any} */ line) => totals[line.field]);
    const most = highest(series);
    const svg = document.createElementNS(SVG, "svg");
    svg.setAttribute("viewBox", `0 0 ${totals.at.length} ${HEIGHT}`);
    svg.setAttribute("preserveAspectRatio", "none");
    svg.setAttribute("aria-hidden", "true");
    chart.lines.forEach((/** @type {any} */ line, /** @type {number} */ index) => {
      const path = document.createElementNS(SVG, "path");
      path.setAttribute("class", line.class);
      path.setAttribute("d", stepPath(series[index], most, HEIGHT, line.closed));
      svg.append(path);
    });
    const span = totals.step_ms * totals.at.length;
    const gaps = joinedGaps(totals.unwatched).map((gap) =>
      h("i", {
        class: "spark-gap",
        title: `Not recorded: ${gap.brokers.join(", ")}`,
        style:
          `inset-inline-start: ${((gap.from - totals.from) / span) * 100}%; ` +
          `inline-size: ${((gap.until - gap.from) / span) * 100}%`,
      }),
    );
    fill(drawing, ...gaps, svg, h("i", { class: "spark-at", hidden: true }));
    const words = this.#words(chart, -1);
    showWhole(find(".spark-value", of), words);
    setText(find(".spark-most", of), this.#most(chart, most));
    const lacks =
      chart.name === "blocked" && totals.unreported.length ? `, not reported by ${totals.unreported.join(", ")}` : "";
    setAttribute(of, "title", lacks ? `Blocked producers are not reported by ${totals.unreported.join(", ")}` : null);
    const title = find(".spark-title", of).textContent;
    setAttribute(drawing, "aria-label", `${title}, last hour: ${words}; highest ${this.#most(chart, most)}${lacks}`);
  }

  /**
   * @param {any} chart
   * @param {number} slot
   */
  #words(chart, slot) {
    return chart.text(this.#totals, slot);
  }

  /**
   * @param {any} chart
   * @param {number} most
   */
  #most(chart, most) {
    if (newestSlot(this.#totals[chart.lines[0].field]) < 0) return "";
    if (chart.name === "throughput") return `max. ${rate(most)} /s`;
    return chart.name === "depth" ? `max. ${count(Math.round(most))}` : `max. ${duration(most)} a minute`;
  }

  /**
   * Show the values of the minute under the pointer.
   *
   * @param {any} chart
   */
  #listen(chart) {
    const of = find(`[data-spark="${chart.name}"]`, this.#box);
    const drawing = find(".spark", of);
    const value = find(".spark-value", of);
    drawing.addEventListener("pointermove", (/** @type {any} */ event) => {
      if (!this.#totals) return;
      const { left, width } = drawing.getBoundingClientRect();
      const slots = this.#totals.at.length;
      const slot = Math.min(slots - 1, Math.max(0, Math.floor(((event.clientX - left) / width) * slots)));
      showWhole(value, `${clock(this.#totals.at[slot])}: ${this.#words(chart, slot)}`);
      const mark = find(".spark-at", drawing);
      if (!mark) return;
      mark.hidden = false;
      mark.style.insetInlineStart = `${((slot + 0.5) / slots) * 100}%`;
    });
    drawing.addEventListener("pointerleave", () => {
      if (!this.#totals) return;
      showWhole(value, this.#words(chart, -1));
      const mark = find(".spark-at", drawing);
      if (mark) mark.hidden = true;
    });
  }
}
