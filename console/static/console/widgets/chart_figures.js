// The figures of charts: samples, and the data of the traces that the server declares. Pure: no Plotly, no page.

/** @typedef {Record<string, any>} Trace A trace of Plotly: `meta` is its name, `x` and `y` its values. */
/** @typedef {{data: Trace[], layout: Record<string, any>}} Figure From the server. */

/**
 * One reading of a queue: time (ms), state (null: not known) and the fields of the figure. `past`: of an event before
 * the page was opened.
 *
 * @typedef {{at: number, state: string | null, past?: boolean, [field: string]: any}} Sample
 */

const MAX_SAMPLES = 6000; // per chart; a changing queue has one per second
const JOINED = 5000; // ms; the recorder is behind the page by less
const SPACING = 900; // ms, minimum between two samples
const TOKEN = /var\((--[\w-]+)\)/;

/**
 * Return a copy of a figure with the theme's values; `read(token)` returns the value of a custom property.
 *
 * @param {any} value
 * @param {(token: string) => string} read
 * @returns {any}
 */
export function themed(value, read) {
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

/**
 * Split areas below lines into separate traces, behind the others. Plotly fills the area below a line with gaps as one
 * shape, with ramps across the gaps; an area that goes down to 0 and up again at the ends of each gap has no ramps.
 *
 * @param {Trace[]} traces
 * @returns {Trace[]}
 */
export function withAreas(traces) {
  /** @type {Trace[]} */
  const areas = [];
  const lines = traces.map((trace) => {
    if (!trace.fill || trace.fill === "none") return trace;
    const bare = trace.line.width === 0; // an area only: the legend shows it
    areas.push({
      ...trace,
      ...withEdges(trace.x ?? [], trace.y ?? []),
      meta: `area_${trace.meta}`,
      line: { ...trace.line, width: 0 },
      hovertemplate: null,
      hoverinfo: "skip",
      showlegend: bare,
      legendgroup: trace.meta,
    });
    return { ...trace, fill: "none", fillcolor: null, showlegend: !bare, legendgroup: trace.meta };
  });
  return [...areas, ...lines];
}

/**
 * Return the points of an area: the values, and 0 at the begin and the end of each run of them.
 *
 * @param {any[]} x
 * @param {(number | null)[]} y
 */
function withEdges(x, y) {
  /** @type {{x: any[], y: number[]}} */
  const points = { x: [], y: [] };
  const put = (/** @type {any} */ at, /** @type {number} */ value) => {
    points.x.push(at);
    points.y.push(value);
  };
  y.forEach((value, index) => {
    if (value === null || value === undefined) return;
    if ((y[index - 1] ?? null) === null) put(x[index], 0);
    put(x[index], value);
    if ((y[index + 1] ?? null) === null) put(x[index], 0);
  });
  return points;
}

/**
 * Return the value of a sample in a trace; null: none.
 *
 * @param {Sample} sample
 * @param {string} field the trace's name
 * @returns {number | null}
 */
function sampleValue(sample, field) {
  if (field.startsWith("past_")) return sample.past ? sample[field.slice(5)] : null;
  if (sample.past && /^(depth|effective|rate)_/.test(field)) return null; // known at this moment only
  if (field === "overfull") return sample.state === null ? null : Number(sample.state.startsWith("OVERFULL"));
  const value = sample[field];
  return field.startsWith("effective_") ? value || null : (value ?? null);
}

/**
 * Return the samples of a series of the history, with gaps where nothing was recorded. A value that applies only at its
 * moment is `past`.
 *
 * @param {Record<string, any>} series from the API, "raw"
 * @returns {Sample[]}
 */
export function recordedSamples(series) {
  const known = (/** @type {number} */ index) => (series.messages[index] ?? series.bytes[index] ?? null) !== null;
  return series.at.map((/** @type {number} */ at, /** @type {number} */ index) => {
    if (!known(index)) return { at, state: null };
    const limits = ["messages", "bytes"].flatMap((unit) =>
      ["capacity", "stop", "resume"].map((level) => [
        `effective_${level}_${unit}`,
        series[`${level}_${unit}`][index] ?? undefined,
      ]),
    );
    return {
      at,
      state: series.state[index],
      past: !known(index - 1) && !known(index + 1),
      depth_messages: series.messages[index],
      depth_bytes: series.bytes[index],
      rate_in: series.rate_in?.[index],
      rate_out: series.rate_out?.[index],
      ...Object.fromEntries(limits),
    };
  });
}

/** The samples of one chart, in the order of their times. */
export class Samples {
  /** @type {Sample[]} */
  #samples = [];
  /** @type {number | null} */
  /** @type {any} */
  #end = null;

  get empty() {
    return this.#samples.length === 0;
  }

  /** Whether the lines end because later data are not known. */
  get ended() {
    return this.#end !== null;
  }

  /**
   * Add a sample. An older one is inserted by its time; samples within a second replace each other while the state
   * stays the same.
   *
   * @param {Sample} sample
   */
  add(sample) {
    const all = this.#samples;
    const last = all.at(-1);
    if (last && sample.at <= last.at) {
      const at = all.findIndex((other) => other.at >= sample.at);
      all.splice(at, all[at].at === sample.at && all[at].past ? 1 : 0, sample);
    } else {
      const before = all.at(-2);
      const same = last && before && !last.past && sample.state === last.state && last.state === before.state;
      if (same && sample.at - before.at < SPACING) all.pop();
      all.push(sample);
    }
    if (all.length > MAX_SAMPLES) all.splice(0, all.length - MAX_SAMPLES);
  }

  /**
   * Put recorded samples before the first one of the page. They replace those of events, which they include.
   *
   * @param {Sample[]} recorded ascending
   */
  prepend(recorded) {
    if (!recorded.length) return;
    const own = this.#samples.filter((sample) => !sample.past);
    const begin = own.at(0)?.at ?? Number.POSITIVE_INFINITY;
    const before = recorded.filter((sample) => sample.at < begin);
    const last = before.at(-1);
    if (last && last.state === null && begin - last.at < JOINED) before.pop();
    const older = this.#samples.filter((sample) => sample.past && sample.at < recorded[0].at);
    this.#samples = [...older, ...before, ...own].slice(-MAX_SAMPLES);
  }

  /**
   * End the lines at `at` (ms): later data are not known. null: continue after a gap.
   *
   * @param {number | null} at
   * @returns {boolean} whether this changed anything
   */
  end(at) {
    if (at === this.#end) return false;
    const last = this.#samples.at(-1);
    if (at === null && this.#end !== null && last) {
      const end = Math.max(this.#end, last.at);
      this.#samples.push({ ...last, at: end }, { at: end + 1, state: null });
    }
    this.#end = at;
    return true;
  }

  /**
   * Return the samples and the newest one again: it is valid until now, or until the end of the lines.
   *
   * @param {number} now ms
   * @returns {Sample[]}
   */
  rows(now) {
    const last = this.#samples.at(-1);
    return last ? [...this.#samples, { ...last, at: Math.max(this.#end ?? now, last.at) }] : [];
  }
}

/**
 * Put samples into a figure of a queue's depth, or of its rates, which shows the newest `span` ms.
 *
 * @param {Figure} figure is changed
 * @param {Sample[]} rows at least one
 * @param {string} unit "messages", "bytes" or "rates"
 * @param {number} span
 * @param {boolean} narrow
 */
export function putDepth(figure, rows, unit, span, narrow) {
  const x = rows.map((sample) => sample.at);
  for (const trace of figure.data) {
    trace.x = x;
    trace.y = rows.map((sample) => sampleValue(sample, trace.meta));
    if (trace.y.every((/** @type {number | null} */ value) => value === null)) trace.visible = false;
  }
  if (unit !== "rates") hideRedundant(figure, rows, unit);
  if (narrow) Object.assign(figure.layout.margin, { l: 58, r: 6 });
  const end = x[x.length - 1];
  figure.layout.xaxis.range = [end - span, end];
  figure.layout.xaxis.nticks = narrow ? 4 : 8;
  figure.layout.uirevision = unit;
  figure.data = withAreas(figure.data);
}

/**
 * Hide what a figure of the depth does not need.
 *
 * @param {Figure} figure is changed
 * @param {Sample[]} rows
 * @param {string} unit
 */
function hideRedundant(figure, rows, unit) {
  const named = (/** @type {string} */ meta) => /** @type {Trace} */ (figure.data.find((one) => one.meta === meta));
  const line = (/** @type {string} */ name) => named(`effective_${name}_${unit}`);
  if (!rows.some((sample) => sample.past)) named(`past_depth_${unit}`).visible = false;
  // A stop level equal to the capacity, or a resume level equal to the stop level, is redundant.
  if (String(line("stop").y) === String(line("capacity").y)) line("stop").visible = false;
  if (String(line("resume").y) === String(line("stop").y)) line("resume").visible = false;
}

/** @type {Record<string, string>} */
const ENTITIES = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/**
 * Escape text for Plotly, which interprets some tags as markup.
 *
 * @param {unknown} text
 */
export const plain = (text) => String(text).replaceAll(/[&<>]/g, (sign) => ENTITIES[sign]);
