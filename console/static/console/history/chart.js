// Charts of a queue's history: depth and levels with episodes shaded and operators' actions marked; and rates.

import { duration, exact, exactAmount, moment, plural } from "../core/format.js";
import { stopInWords } from "../core/object_names.js";
import { serverNow } from "../core/server_clock.js";
import { plain, withAreas } from "../widgets/chart_figures.js";
import { TimeChart } from "../widgets/charts.js";
import { knownUntil, lengthInWords } from "./episode_end.js";
import { editLines } from "./events.js";
import { recorded, stepPoints } from "./recorded_time.js";

/** @type {Record<string, string>} */
const SYMBOLS = {
  "policy-changed": "diamond",
  "producers-stopped": "octagon",
  "producers-started": "triangle-right",
  "queue-purged": "x",
};
/** @type {Record<string, string>} */
const WORDS = {
  "policy-changed": "Policy changed",
  "producers-stopped": "Producers stopped",
  "producers-started": "Producers started",
  "queue-purged": "Purged",
};
/** @type {Record<string, string>} */
const RESOLUTIONS = {
  raw: "as recorded",
  minute: "one point per minute",
  hour: "one point per hour",
  day: "one point per day (UTC)",
};

/**
 * Describe a chart's resolution.
 *
 * @param {any} series
 */
export function describeResolution(series) {
  const text = RESOLUTIONS[series.resolution] ?? series.resolution;
  return series.resolution === "raw" ? `Depth ${text}` : `Mean depth, ${text}; zoom in for more`;
}

/**
 * @param {any} figure
 * @param {any} meta
 */
const trace = (figure, meta) => figure.data.find((/** @type {any} */ one) => one.meta === meta);

/**
 * @param {any} figure
 * @param {any} meta
 * @param {any[]} spans
 */
export function putSpans(figure, meta, spans) {
  const bars = trace(figure, meta);
  if (!bars) return;
  if (!spans.length) {
    // Without spans there is no legend entry either.
    bars.visible = false;
    return;
  }
  bars.x = spans.map((/** @type {any} */ span) => (span.from + span.until) / 2);
  bars.width = spans.map((/** @type {any} */ span) => span.until - span.from);
  bars.y = spans.map(() => 1);
  bars.text = spans.map((/** @type {any} */ span) => span.text);
}

/**
 * Episodes as labelled spans, cut to the recorded time: the rest is shaded as no data.
 *
 * @param {any[]} episodes
 * @param {any} kind
 * @param {any} series
 * @param {any} now
 */
function spansOf(episodes, kind, series, now) {
  return episodes
    .filter((/** @type {any} */ episode) => episode.kind === kind)
    .flatMap((/** @type {any} */ episode) => {
      const lasted = lengthInWords(episode, now);
      const why =
        kind === "stopped"
          ? `${plain(stopInWords(episode.scope))}: ${plain(episode.reason || "no reason given")} – ` +
            `${plain(episode.actor || "unknown")}`
          : episode.producers === null
            ? "blocked producers not reported"
            : `${plural(episode.producers, "producer")} blocked`;
      const word = kind === "stopped" ? "Stopped" : "Overfull";
      return recorded(episode.start, knownUntil(episode, now), series).map(([from, to]) => ({
        from,
        until: to,
        text: `${word} ${lasted}; ${why}`,
      }));
    });
}

/**
 * Tooltip of an operator's edit or action.
 *
 * @param {any} event
 */
function markText(event) {
  const who = event.actor ? ` by ${plain(event.actor)}` : "";
  const why = event.reason ? `<br>“${plain(event.reason)}”` : "";
  const what =
    event.kind === "policy-changed"
      ? editLines(event)
          .map((line) => `<br>${plain(line)}`)
          .join("")
      : event.scope
        ? `: ${plain(stopInWords(event.scope))}`
        : "";
  return `<b>${WORDS[event.kind] ?? event.kind}</b>${what}${who}${why}<br>${moment(event.at)}`;
}

/**
 * Times of a chart's lines, and a function from the values of a series to those of a line. Samples are valid as the API
 * has them; the value of a minute, hour or day for the recorded parts of it.
 *
 * @param {any} series
 */
export function lineOf(series) {
  if (series.resolution === "raw") return { x: series.at, values: (/** @type {any[]} */ given) => given };
  const points = stepPoints(series, serverNow());
  return {
    x: points.map(([at]) => at),
    values: (/** @type {any[]} */ given) => points.map(([, index]) => (index < 0 ? null : given[index])),
  };
}

export class QueueChart {
  #depth;
  #rates;
  #figures;
  /** @type {any} */
  #shown = null;
  #element;

  /**
   * `figures`: {messages, bytes, rates}; `rates`: its element, or null.
   *
   * @param {HTMLElement} element
   * @param {any} figures
   * @param {any} [options]
   */
  constructor(element, figures, { rates = null, zoomed, widen } = {}) {
    this.#element = element;
    this.#figures = figures;
    this.unit = "messages";
    this.#depth = new TimeChart(element, figures.messages, { zoomed, widen });
    this.#rates = rates ? new TimeChart(rates, figures.rates, { zoomed, widen }) : null;
  }

  /** @param {string} unit */
  use(unit) {
    this.unit = unit;
    if (!this.#shown) return;
    this.#depth.figure(this.#figures[unit]);
  }

  clear() {
    this.#shown = null;
    this.#depth.clear();
    this.#rates?.clear();
  }

  /**
   * `height`: px, for a page that has several.
   *
   * @param {any} series
   * @param {any[]} episodes
   * @param {any[]} marks
   * @param {any} [options]
   */
  show(series, episodes, marks, { height } = {}) {
    // Plotly preserves axes between updates, but an axis without data has no range to preserve: then start afresh.
    /** @param {any} shown */
    const alike = (shown) =>
      [
        shown.series.resolution,
        ...["messages", "bytes"].map((unit) => shown.series[unit].some((/** @type {any} */ value) => value !== null)),
      ].join();
    if (this.#shown && alike(this.#shown) !== alike({ series })) this.#depth.clear();
    this.#shown = { series, episodes, marks };
    this.#depth.figure(this.#figures[this.unit]);
    this.#depth.show(series.from, series.until, (/** @type {any} */ figure) => this.#putDepth(figure, height));
    if (
      ["rate_in", "rate_out", "blocked_producers"].every((name) =>
        series[name].every((/** @type {any} */ value) => value === null),
      )
    )
      this.#rates?.clear();
    else this.#rates?.show(series.from, series.until, (/** @type {any} */ figure) => this.#putRates(figure));
    const all =
      series.unwatched.length === 1 &&
      series.unwatched[0][0] <= series.from &&
      series.unwatched[0][1] >= Math.min(series.until, serverNow() - 60_000);
    this.#element.setAttribute(
      "aria-label",
      all
        ? "No data in this range"
        : `Depth of the queue in ${this.unit} from ${moment(series.from)} to ` +
            `${moment(series.until)}, with ${exact(episodes.length)} episodes and ` +
            `${exact(marks.length)} edits and actions`,
    );
  }

  /** @param {any} figure */
  #spans(figure) {
    const { series, episodes } = this.#shown;
    const gaps = series.unwatched.map((/** @type {any} */ [from, until]) => ({
      from,
      until,
      text: `No data for ${duration(until - from)}`,
    }));
    putSpans(figure, "unwatched", gaps);
    const now = serverNow();
    putSpans(figure, "overfull", spansOf(episodes, "overfull", series, now));
    putSpans(figure, "stopped", spansOf(episodes, "stopped", series, now));
  }

  /**
   * @param {any} figure
   * @param {any} height
   */
  #putDepth(figure, height) {
    const { series, marks } = this.#shown;
    const { unit } = this;
    this.#spans(figure);
    const raw = series.resolution === "raw";
    const { x, values: along } = lineOf(series);
    /**
     * @param {any} meta
     * @param {any[]} values
     */
    const put = (meta, values) => {
      const line = trace(figure, meta);
      line.x = x;
      line.y = values ? along(values) : [];
      if (line.y.every((/** @type {any} */ value) => value === null)) line.visible = false;
    };
    const continuous = series.continuous;
    const values = series[unit];
    put(
      unit,
      continuous
        ? values.map((/** @type {any} */ value, /** @type {any} */ index) => (continuous[index] ? value : null))
        : values,
    );
    put(
      `logged_${unit}`,
      continuous?.some((/** @type {any} */ one) => !one)
        ? values.map((/** @type {any} */ value, /** @type {any} */ index) => (continuous[index] ? null : value))
        : values.map(() => null),
    );
    put(`${unit}_max`, raw ? null : series[`${unit}_max`]);
    put(`${unit}_p95`, raw ? null : series[`${unit}_p95`]);
    const limits = Object.fromEntries(
      ["capacity", "stop", "resume"].map((level) => [
        level,
        series[`${level}_${unit}`].map((/** @type {any} */ value) => value || null),
      ]),
    );
    for (const [level, line] of Object.entries(limits)) put(`${level}_${unit}`, line);
    // A stop level at the capacity, and a resume level at the stop level, would draw the same line twice.
    if (String(limits.stop) === String(limits.capacity)) trace(figure, `stop_${unit}`).visible = false;
    if (String(limits.resume) === String(limits.stop)) trace(figure, `resume_${unit}`).visible = false;
    this.#putMarks(
      figure,
      marks.filter((/** @type {any} */ mark) => mark.at >= series.from && mark.at < series.until),
    );
    for (const meta of ["overfull_ms", "stopped_ms"]) {
      const bars = trace(figure, `share-${meta}`);
      const shares = raw
        ? []
        : series[meta].map((/** @type {any} */ value) => (value === null ? null : Math.min(1, value / series.step_ms)));
      if (!shares.some((/** @type {any} */ share) => share)) {
        bars.visible = false;
        continue;
      }
      bars.x = series.at.map((/** @type {any} */ at) => at + series.step_ms / 2);
      bars.width = series.step_ms;
      bars.y = shares;
    }
    if (raw || !["overfull_ms", "stopped_ms"].some((meta) => trace(figure, `share-${meta}`).visible !== false)) {
      figure.layout.yaxis.domain = [0, 1];
      figure.layout.yaxis3.visible = false;
      figure.layout.xaxis.anchor = "y";
      figure.layout.annotations = [];
    }
    if (height) figure.layout.height = height;
    figure.data = withAreas(figure.data);
  }

  /**
   * @param {any} figure
   * @param {any[]} marks
   */
  #putMarks(figure, marks) {
    const dots = trace(figure, "marks");
    const lines = trace(figure, "mark-lines");
    if (!marks.length) {
      dots.visible = false;
      lines.visible = false;
      return;
    }
    dots.x = marks.map((/** @type {any} */ mark) => mark.at);
    dots.y = marks.map(() => 0.96);
    dots.text = marks.map(markText);
    dots.marker.symbol = marks.map((/** @type {any} */ mark) => SYMBOLS[mark.kind] ?? "circle");
    lines.x = marks.flatMap((/** @type {any} */ mark) => [mark.at, mark.at, null]);
    lines.y = marks.flatMap(() => [0, 1, null]);
  }

  /** @param {any} figure */
  #putRates(figure) {
    const { series } = this.#shown;
    const gaps = series.unwatched.map((/** @type {any} */ [from, until]) => ({ from, until, text: "No data" }));
    putSpans(figure, "unwatched", gaps);
    const { x, values: along } = lineOf(series);
    const most = Math.max(1, ...series.blocked_producers.map((/** @type {any} */ value) => value ?? 0));
    figure.layout.yaxis3.range = [0, most * 1.15];
    figure.layout.yaxis3.dtick = Math.ceil(most / 3);
    figure.layout.yaxis3.visible = series.blocked_producers.some((/** @type {any} */ value) => value !== null);
    for (const meta of ["rate_in", "rate_out", "blocked_producers"]) {
      const line = trace(figure, meta);
      line.x = x;
      line.y = along(series[meta]);
      if (series[meta].every((/** @type {any} */ value) => value === null)) line.visible = false;
    }
  }
}

/**
 * Format the highest depth of a series.
 *
 * @param {any} series
 * @param {string} unit
 */
export function formatPeak(series, unit) {
  const raw = series.resolution === "raw";
  const values = (raw ? series[unit] : series[`${unit}_max`]).filter((/** @type {any} */ value) => value !== null);
  return values.length ? exactAmount(Math.max(...values), unit) : "–";
}
