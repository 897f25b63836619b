// The only module that knows Plotly. A figure comes from the server (console/charts/flow.py, console/charts/history.py);
// samples are added to its traces by the name in their `meta`, and colours are taken from the theme.

const KEPT = 2400; // samples of one chart; a changing queue makes one per second
const IDLE = 2000; // ms after which a chart without new samples is drawn again
const SPACING = 900; // ms between two samples that are kept
const TOKEN = /var\((--[\w-]+)\)/;

/** A copy of a figure with the theme's values; `read(token)` tells what a custom property is now. */
function themed(value, read) {
  if (typeof value === "string") {
    const match = TOKEN.exec(value);
    return match ? read(match[1]) : value;
  }
  if (Array.isArray(value)) return value.map((item) => themed(item, read));
  if (value && typeof value === "object") {
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, key === "x" || key === "y" ? item : themed(item, read)]),
    );
  }
  return value;
}

/** Colours have a light and a dark value: only an element that is painted with one tells which holds. */
function themeReader(element) {
  const known = new Map();
  return (token) => {
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
 * The areas below lines as traces of their own, in front of the others. Plotly fills what is below a line with gaps as
 * one shape, with a ramp from each part to the next, where nothing is known; an area that is 0 there has none.
 */
function withAreas(traces) {
  const areas = [];
  const lines = traces.map((trace) => {
    if (trace.fill !== "tozeroy") return trace;
    const bare = trace.line.width === 0; // nothing but an area: it is what the legend shows
    areas.push({
      ...trace,
      meta: `area_${trace.meta}`,
      y: trace.y.map((y) => y ?? 0),
      line: { ...trace.line, width: 0 },
      hovertemplate: null,
      hoverinfo: "skip",
      showlegend: bare,
    });
    return { ...trace, fill: "none", fillcolor: null, showlegend: !bare };
  });
  return [...areas, ...lines];
}

const sampleValue = (sample, field) => {
  if (field.startsWith("past_")) return sample.past ? sample[field.slice(5)] : null;
  if (field.startsWith("depth_") && sample.past) return null;
  if (field === "overfull") return sample.state === null ? null : Number(sample.state.startsWith("OVERFULL"));
  const value = sample[field];
  return field.startsWith("effective_") ? value || null : (value ?? null);
};

export class DepthChart {
  #element;
  #figures;
  #unit;
  #span = 120_000;
  #samples = [];
  #drawn = false;
  #asked = null;
  #last = 0;
  #end = null;

  /** `figures`: {messages, bytes} as the server made them. */
  constructor(element, figures, unit) {
    this.#element = element;
    this.#figures = figures;
    this.#unit = unit;
    addEventListener("headgate-theme", () => requestAnimationFrame(() => this.draw()));
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.draw());
    // Time passes for a queue where nothing happens, too.
    setInterval(() => this.#end === null && performance.now() - this.#last > IDLE && this.#soon(), IDLE);
  }

  /** Nothing is known from `at` (ms) on: the lines end there. null: they go on, after a gap. */
  hold(at) {
    if (at === this.#end) return;
    if (at === null && this.#end !== null && this.#samples.length) {
      const last = this.#samples.at(-1);
      const end = Math.max(this.#end, last.at);
      this.#samples.push({ ...last, at: end }, { at: end + 1, state: null });
    }
    this.#end = at;
    this.draw();
  }

  show(unit) {
    this.#unit = unit;
    this.draw();
  }

  /** Show at most the newest `ms`. */
  span(ms) {
    this.#span = ms;
    this.draw();
  }

  /**
   * Add a sample: `at` (ms), `state` and the fields of the figure; `past`: it is an event's of before the page was
   * opened. Samples closer than a second replace each other.
   */
  add(sample) {
    const all = this.#samples;
    const last = all.at(-1);
    if (last && sample.at <= last.at) {
      // An event of the past (the feed's first fifty) goes to its place.
      const at = all.findIndex((other) => other.at >= sample.at);
      all.splice(at, all[at].at === sample.at && all[at].past ? 1 : 0, sample);
    } else {
      const before = all.at(-2);
      if (
        last &&
        before &&
        !last.past &&
        sample.state === last.state &&
        last.state === before.state &&
        sample.at - before.at < SPACING
      )
        all.pop();
      all.push(sample);
    }
    if (all.length > KEPT) all.splice(0, all.length - KEPT);
    this.#soon();
  }

  #soon() {
    if (this.#asked !== null || document.visibilityState !== "visible") return;
    const wait = Math.max(0, 500 - (performance.now() - this.#last));
    this.#asked = setTimeout(() => {
      this.#asked = null;
      this.draw();
    }, wait);
  }

  draw() {
    if (!this.#samples.length || typeof Plotly === "undefined") return;
    this.#last = performance.now();
    const figure = themed(this.#figures[this.#unit], themeReader(document.body));
    // The last value holds until now, or until the time after which nothing is known.
    const rows = [
      ...this.#samples,
      { ...this.#samples.at(-1), at: Math.max(this.#end ?? Date.now(), this.#samples.at(-1).at) },
    ];
    const x = rows.map((sample) => sample.at); // a number of ms is drawn in the viewer's own zone
    for (const trace of figure.data) {
      trace.x = x;
      trace.y = rows.map((sample) => sampleValue(sample, trace.meta));
    }
    const line = (name) => figure.data.find((trace) => trace.meta === `effective_${name}_${this.#unit}`);
    for (const trace of figure.data) if (trace.y.every((value) => value === null)) trace.visible = false;
    // A stop level at the capacity, and a resume level at the stop level, say nothing of their own.
    const past = figure.data.find((trace) => trace.meta === `past_depth_${this.#unit}`);
    if (!rows.some((sample) => sample.past)) past.visible = false;
    if (String(line("stop").y) === String(line("capacity").y)) line("stop").visible = false;
    if (String(line("resume").y) === String(line("stop").y)) line("resume").visible = false;
    const narrow = this.#element.clientWidth < 520;
    if (narrow) Object.assign(figure.layout.margin, { l: 44, r: 6 });
    figure.layout.xaxis.range = [x.at(-1) - this.#span, x.at(-1)];
    figure.layout.xaxis.nticks = narrow ? 4 : 8;
    figure.layout.uirevision = this.#unit;
    figure.data = withAreas(figure.data);
    if (!this.#drawn) this.#element.replaceChildren();
    this.#drawn = true;
    Plotly.react(this.#element, figure.data, figure.layout, { displayModeBar: false, responsive: true });
  }
}

/** What Plotly tells of an axis, a text in the viewer's own zone, as ms since the epoch. */
function unlocal(value) {
  const text = String(value).trim().replace(" ", "T");
  const shown = typeof value === "number" ? value : Date.parse(text.includes("T") ? `${text}Z` : text);
  const near = shown + new Date(shown).getTimezoneOffset() * 60_000;
  return shown + new Date(near).getTimezoneOffset() * 60_000;
}

const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
/** Text of a broker as Plotly shows it unchanged: it takes some tags for markup. */
export const plain = (text) => String(text).replaceAll(/[&<>]/g, (sign) => ENTITIES[sign]);

/**
 * A figure of the server over times of the past. `put(figure)` puts the data into a copy of it, times as ms since the
 * epoch, which are drawn in the viewer's zone. `zoomed(from, until)` is called when the viewer drags over a range,
 * `clicked(point)` for a click.
 */
export class TimeChart {
  #element;
  #figure;
  #put = null;
  #range = null;
  #drawn = false;
  #options;

  constructor(element, figure, options = {}) {
    this.#element = element;
    this.#figure = figure;
    this.#options = options;
    addEventListener("headgate-theme", () => requestAnimationFrame(() => this.draw()));
  }

  /** Another figure for the same data. */
  figure(figure) {
    this.#figure = figure;
    this.draw();
  }

  show(from, until, put) {
    this.#range = [from, until];
    this.#put = put;
    this.draw();
  }

  /** Make room for words instead. */
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
    const narrow = this.#element.clientWidth < 520;
    figure.layout.xaxis.range = [...this.#range];
    figure.layout.xaxis.nticks = narrow ? 4 : 9;
    if (narrow) this.#narrow(figure);
    if (narrow)
      figure.layout.margin = {
        ...figure.layout.margin,
        l: Math.min(figure.layout.margin.l, 92),
        r: Math.min(figure.layout.margin.r, 30),
      };
    if (!this.#drawn) this.#element.replaceChildren();
    // Plotly's own double click would go back to its first range: the page has its own way out.
    Plotly.react(this.#element, figure.data, figure.layout, {
      displayModeBar: false,
      responsive: true,
      doubleClick: false,
    });
    if (!this.#drawn) this.#listen();
    this.#drawn = true;
  }

  /** The words of a legend stand below each other: the figure grows for them, and what is least needed goes. */
  #narrow(figure) {
    for (const one of figure.data) {
      if (one.visible === "legendonly") one.visible = false;
      if (one.type === "heatmap") one.showscale = false;
    }
    const words = figure.data.filter((one) => one.visible !== false && one.showlegend !== false && one.name).length;
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
    this.#element.on("plotly_relayout", (change) => {
      const from = change["xaxis.range[0]"];
      const until = change["xaxis.range[1]"];
      if (zoomed && from !== undefined && until !== undefined)
        zoomed(Math.round(unlocal(from)), Math.round(unlocal(until)));
    });
    if (clicked) this.#element.on("plotly_click", (event) => clicked(event.points[0]));
    if (widen) this.#element.on("plotly_doubleclick", () => widen());
  }
}
