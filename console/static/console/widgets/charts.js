// The only module that knows Plotly. A figure comes from the server (console/charts/); samples are added to its traces
// by the name in their `meta`, and colours are taken from the theme.

import { serverNow } from "../core/server_clock.js";
import { putDepth, Samples, themed } from "./chart_figures.js";
import { fromPosition, onTimeAxis } from "./time_axis.js";

const NARROW = 520; // px
const IDLE = 2000; // ms after which a chart without new samples is drawn again

/**
 * Colours have a light and a dark value: the computed style of an element has the effective one.
 *
 * @param {any} element
 */
function themeReader(element) {
  const known = new Map();
  return (/** @type {any} */ token) => {
    if (!known.has(token)) {
      if (token === "--font") known.set(token, getComputedStyle(element).fontFamily);
      else {
        const probe = document.createElement("i");
        probe.style.color = `var(${token})`;
        element.append(probe);
        known.set(token, getComputedStyle(probe).color);
        probe.remove();
      }
    }
    return known.get(token);
  };
}

/**
 * Call `draw` after the width of the element has changed. Plotly's own `responsive` forgets the figure's height then.
 *
 * @param {HTMLElement} element
 * @param {() => void} draw
 */
function onNewWidth(element, draw) {
  let width = element.clientWidth;
  new ResizeObserver(() => {
    if (!element.clientWidth || element.clientWidth === width) return;
    width = element.clientWidth;
    requestAnimationFrame(draw);
  }).observe(element);
}

/**
 * The width of the element without its padding, px; undefined while it is hidden. Plotly takes it for the first drawing
 * only.
 *
 * @param {HTMLElement} element
 */
function contentWidth(element) {
  const { paddingLeft, paddingRight } = getComputedStyle(element);
  const width = element.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight);
  return width > 0 ? width : undefined;
}

export class DepthChart {
  #element;
  #figures;
  #unit;
  #span = 120_000;
  #samples = new Samples();
  #drawn = false;
  /** @type {any} */
  #timer = null;
  #last = 0;

  /**
   * `figures`: {messages, bytes} as the server made them.
   *
   * @param {any} element
   * @param {any} figures
   * @param {string} unit
   */
  constructor(element, figures, unit) {
    this.#element = element;
    this.#figures = figures;
    this.#unit = unit;
    addEventListener("headgate-theme", () => requestAnimationFrame(() => this.draw()));
    onNewWidth(element, () => this.draw());
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.draw());
    // The time axis moves on also for idle queues.
    setInterval(() => !this.#samples.ended && performance.now() - this.#last > IDLE && this.#soon(), IDLE);
  }

  /**
   * End the lines at `at` (ms): later data are not known. null: continue after a gap.
   *
   * @param {any} at
   */
  end(at) {
    if (this.#samples.end(at)) this.draw();
  }

  /** @param {string} unit */
  show(unit) {
    this.#unit = unit;
    this.draw();
  }

  /**
   * Show at most the newest `ms`.
   *
   * @param {any} ms
   */
  span(ms) {
    this.#span = ms;
    this.draw();
  }

  /**
   * Add a sample, as `Samples` has it.
   *
   * @param {any} sample
   */
  add(sample) {
    this.#samples.add(sample);
    this.#soon();
  }

  /**
   * Put recorded samples before those of the page, as `Samples` has it.
   *
   * @param {any[]} recorded
   */
  prepend(recorded) {
    this.#samples.prepend(recorded);
    this.#soon();
  }

  #soon() {
    if (this.#timer !== null || document.visibilityState !== "visible") return;
    const wait = Math.max(0, 500 - (performance.now() - this.#last));
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.draw();
    }, wait);
  }

  draw() {
    if (this.#samples.empty || typeof Plotly === "undefined") return;
    this.#last = performance.now();
    const figure = themed(this.#figures[this.#unit], themeReader(document.body));
    putDepth(figure, this.#samples.rows(serverNow()), this.#unit, this.#span, this.#element.clientWidth < NARROW);
    if (!this.#drawn) this.#element.replaceChildren();
    this.#drawn = true;
    figure.layout.width = contentWidth(this.#element);
    onTimeAxis(figure);
    Plotly.react(this.#element, figure.data, figure.layout, { displayModeBar: false });
  }
}

/**
 * A figure of the server over times of the past. `put(figure)` puts the data into a copy of it, times as ms since the
 * epoch, which are drawn in the page's zone. `zoomed(from, until)` is called when the user selects a range,
 * `clicked(point)` for a click.
 */
export class TimeChart {
  #element;
  #figure;
  /** @type {any} */
  #put = null;
  /** @type {any} */
  #range = null;
  #drawn = false;
  #offset = 0;
  #options;

  /**
   * @param {any} element
   * @param {any} figure
   * @param {any} [options]
   */
  constructor(element, figure, options = {}) {
    this.#element = element;
    this.#figure = figure;
    this.#options = options;
    addEventListener("headgate-theme", () => requestAnimationFrame(() => this.draw()));
    onNewWidth(element, () => this.draw());
  }

  /**
   * Show the same data in another figure.
   *
   * @param {any} figure
   */
  figure(figure) {
    this.#figure = figure;
    this.draw();
  }

  /**
   * @param {any} from
   * @param {any} until
   * @param {any} put
   */
  show(from, until, put) {
    this.#range = [from, until];
    this.#put = put;
    this.draw();
  }

  /** Remove the chart, to show text instead. */
  clear() {
    if (this.#drawn) Plotly.purge(this.#element);
    this.#drawn = false;
    this.#put = null;
    this.#element.replaceChildren();
  }

  draw() {
    if (!this.#put || typeof Plotly === "undefined") return;
    const figure = themed(this.#figure, themeReader(document.body));
    this.#put(figure);
    const narrow = this.#element.clientWidth < NARROW;
    figure.layout.xaxis.range = [...this.#range];
    figure.layout.xaxis.nticks = narrow ? 4 : 9;
    if (narrow) this.#narrow(figure);
    if (narrow)
      figure.layout.margin = {
        ...figure.layout.margin,
        l: Math.min(figure.layout.margin.l, 112),
        r: Math.min(figure.layout.margin.r, 46),
      };
    if (!this.#drawn) this.#element.replaceChildren();
    figure.layout.width = contentWidth(this.#element);
    this.#offset = onTimeAxis(figure);
    // Plotly's double click would restore its first range; the page handles it.
    Plotly.react(this.#element, figure.data, figure.layout, {
      displayModeBar: false,
      doubleClick: false,
    });
    if (!this.#drawn) this.#listen();
    this.#drawn = true;
  }

  /**
   * Adapt a figure to a narrow screen: more height for the legend, without optional traces.
   *
   * @param {any} figure
   */
  #narrow(figure) {
    for (const one of figure.data) {
      if (one.visible === "legendonly") one.visible = false;
      if (one.type === "heatmap") one.showscale = false;
    }
    const words = figure.data.filter(
      (/** @type {any} */ one) => one.visible !== false && one.showlegend !== false && one.name,
    ).length;
    figure.layout.legend = {
      ...figure.layout.legend,
      entrywidth: 95,
      itemwidth: 30,
      font: { ...figure.layout.legend.font, size: 11 },
    };
    figure.layout.height += Math.max(0, Math.ceil(words / 2) - 1) * 18;
  }

  #listen() {
    const { zoomed, clicked, widen } = this.#options;
    this.#element.on("plotly_relayout", (/** @type {any} */ change) => {
      const from = change["xaxis.range[0]"];
      const until = change["xaxis.range[1]"];
      if (zoomed && from !== undefined && until !== undefined)
        zoomed(Math.round(fromPosition(from, this.#offset)), Math.round(fromPosition(until, this.#offset)));
    });
    if (clicked) this.#element.on("plotly_click", (/** @type {any} */ event) => clicked(event.points[0]));
    if (widen) this.#element.on("plotly_doubleclick", () => widen());
  }
}
