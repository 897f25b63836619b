import assert from "node:assert/strict";
import { test } from "node:test";

import {
  plain,
  putDepth,
  recordedSamples,
  Samples,
  themed,
  withAreas,
} from "../../../console/static/console/widgets/chart_figures.js";

const sample = (at, depth = 1, more = {}) => ({ at, state: "NORMAL", depth_messages: depth, ...more });
const times = (samples, now) => samples.rows(now).map(({ at }) => at);

test("the newest sample holds until now", () => {
  const samples = new Samples();
  assert.deepEqual(samples.rows(5), []);
  samples.add(sample(1000));
  assert.deepEqual(times(samples, 4000), [1000, 4000]);
  assert.deepEqual(times(samples, 500), [1000, 1000]); // a clock that is behind the server's
});

test("samples closer than a second replace each other while the state is the same", () => {
  const samples = new Samples();
  for (const at of [0, 400, 800, 1200]) samples.add(sample(at));
  assert.deepEqual(times(samples, 1200), [0, 800, 1200, 1200]);
  samples.add(sample(1300, 1, { state: "OVERFULL" }));
  samples.add(sample(1400, 1, { state: "OVERFULL" }));
  assert.deepEqual(times(samples, 1400).slice(-4), [1200, 1300, 1400, 1400]);
});

test("an older sample is inserted by its time, once", () => {
  const samples = new Samples();
  for (const at of [1000, 3000]) samples.add(sample(at));
  samples.add(sample(2000, 7, { past: true }));
  samples.add(sample(2000, 8, { past: true }));
  assert.deepEqual(times(samples, 3000), [1000, 2000, 3000, 3000]);
  assert.equal(samples.rows(3000)[1].depth_messages, 8);
});

test("lines end where data are not known, and continue after a gap", () => {
  const samples = new Samples();
  samples.add(sample(1000));
  assert.equal(samples.end(2000), true);
  assert.equal(samples.end(2000), false);
  assert.equal(samples.ended, true);
  assert.deepEqual(times(samples, 9000), [1000, 2000]);
  samples.end(null);
  samples.add(sample(8000));
  assert.deepEqual(times(samples, 9000), [1000, 2000, 2001, 8000, 9000]);
  assert.equal(samples.rows(9000)[2].state, null);
});

const series = (at, messages) => ({
  at,
  messages,
  bytes: messages,
  state: messages.map((value) => (value === null ? null : "NORMAL")),
  ...Object.fromEntries(
    ["capacity", "stop", "resume"].flatMap((level) =>
      ["messages", "bytes"].map((unit) => [`${level}_${unit}`, at.map(() => 9)]),
    ),
  ),
});

test("recorded samples have gaps where nothing was recorded, and lone values are points", () => {
  const made = recordedSamples(series([1, 2, 2, 5, 5, 8, 9], [4, 4, null, 7, null, 3, 3]));
  assert.deepEqual(
    made.map(({ at, state, past }) => [at, state, Boolean(past)]),
    [
      [1, "NORMAL", false],
      [2, "NORMAL", false],
      [2, null, false],
      [5, "NORMAL", true],
      [5, null, false],
      [8, "NORMAL", false],
      [9, "NORMAL", false],
    ],
  );
  assert.equal(made[0].effective_stop_messages, 9);
});

test("recorded samples replace those of events, before the first one of the page", () => {
  const samples = new Samples();
  samples.add(sample(500, 1, { past: true }));
  samples.add(sample(2000, 1, { past: true }));
  samples.add(sample(9000));
  samples.prepend(recordedSamples(series([1000, 3000, 3000, 8000, 8500, 8500, 9500], [1, 1, null, 2, 2, null, 2])));
  assert.deepEqual(times(samples, 9000), [500, 1000, 3000, 3000, 8000, 8500, 9000, 9000]);
});

test("levels at an event of the past are drawn as no line", () => {
  const made = figure();
  putDepth(made, [sample(0, 5, { ...LEVELS, past: true }), sample(1000, 6, LEVELS)], "messages", 500, false);
  assert.deepEqual(named(made, "effective_capacity_messages").y, [null, 10]);
});

test("a chart retains only its newest samples", () => {
  const samples = new Samples();
  for (let n = 0; n < 7000; n += 1) samples.add(sample(n * 1000));
  const rows = samples.rows(0);
  assert.equal(rows.length, 6001);
  assert.equal(rows[0].at, 1_000_000);
});

const figure = () => ({
  data: [
    "depth_messages",
    "past_depth_messages",
    "effective_capacity_messages",
    "effective_stop_messages",
    "effective_resume_messages",
    "overfull",
  ].map((meta) => ({ meta, line: { width: 1 } })),
  layout: { xaxis: {}, margin: { l: 90, r: 30 } },
});
const named = (made, meta) => made.data.find((trace) => trace.meta === meta);
const LEVELS = { effective_capacity_messages: 10, effective_stop_messages: 10, effective_resume_messages: 8 };

test("a redundant level is not drawn", () => {
  const made = figure();
  putDepth(made, [sample(0, 5, LEVELS), sample(1000, 6, LEVELS)], "messages", 500, false);
  assert.deepEqual(named(made, "depth_messages").y, [5, 6]);
  assert.equal(named(made, "effective_stop_messages").visible, false); // is the capacity
  assert.notEqual(named(made, "effective_resume_messages").visible, false);
  assert.equal(named(made, "past_depth_messages").visible, false);
  assert.deepEqual(made.layout.xaxis.range, [500, 1000]);
});

test("rates are unknown at an event of the past, and go on to now", () => {
  const made = {
    data: ["rate_in", "rate_out", "overfull"].map((meta) => ({ meta, line: { width: 1 } })),
    layout: { xaxis: {}, margin: {} },
  };
  const rates = { rate_in: 4, rate_out: 2 };
  putDepth(made, [sample(0, 5, { ...rates, past: true }), sample(500, 5, rates), sample(1000, 5, rates)], "rates", 500);
  assert.deepEqual(named(made, "rate_in").y, [null, 4, 4]);
  assert.deepEqual(named(made, "rate_out").y, [null, 2, 2]);
});

test("a limit of 0 is none, and an unknown state is a gap", () => {
  const made = figure();
  const none = { effective_capacity_messages: 0, effective_stop_messages: 0, effective_resume_messages: 0 };
  const rows = [sample(0, 5, { ...none, state: "OVERFULL_STOPPED" }), { at: 1000, state: null }];
  putDepth(made, rows, "messages", 500, true);
  assert.equal(named(made, "effective_capacity_messages").visible, false);
  assert.deepEqual(named(made, "overfull").y, [1, null]);
  assert.deepEqual(named(made, "depth_messages").y, [5, null]);
  assert.deepEqual(made.layout.margin, { l: 58, r: 6 });
});

test("colours come from the theme, values stay as they are", () => {
  const read = (token) => `<${token}>`;
  const made = themed({ line: { color: "var(--accent)" }, x: ["var(--accent)"], list: [1, "var(--text)", null] }, read);
  assert.deepEqual(made, { line: { color: "<--accent>" }, x: ["var(--accent)"], list: [1, "<--text>", null] });
});

test("an area below a line with gaps is a separate trace, with vertical edges at the gaps", () => {
  const [area, line, other] = withAreas([
    { meta: "depth", fill: "tozeroy", x: [1, 2, 3, 4, 5], y: [7, null, null, 8, 9], line: { width: 2 } },
    { meta: "rate", y: [], line: {} },
  ]);
  assert.deepEqual([area.meta, area.line.width, area.showlegend], ["area_depth", 0, false]);
  assert.deepEqual(area.x, [1, 1, 1, 4, 4, 5, 5]);
  assert.deepEqual(area.y, [0, 7, 0, 0, 8, 9, 0]);
  assert.deepEqual([line.meta, line.fill, line.showlegend], ["depth", "none", true]);
  assert.equal(area.legendgroup, line.legendgroup);
  assert.equal(other.meta, "rate");
});

test("text of a broker is not markup in a chart", () => {
  assert.equal(plain("<b>a & b</b>"), "&lt;b&gt;a &amp; b&lt;/b&gt;");
});
