// The time axis of charts where daylight saving time begins and ends: positions increase, labels are of the wall clock.

import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

process.env.TZ = "America/New_York";
const STATIC = "../../../console/static/console";
const { useZone, wallClock } = await import(`${STATIC}/core/zone.js`);
const { fromPosition, onTimeAxis } = await import(`${STATIC}/widgets/time_axis.js`);

afterEach(() => useZone("", "24"));
const MINUTE = 60_000;
const HOUR = 3_600_000;
const DAY = 24 * HOUR;
const ENDS = { "Europe/Berlin": Date.UTC(2025, 9, 26, 1), "": Date.UTC(2025, 10, 2, 6) }; // "": New York, the browser's

/**
 * A figure with a point each minute.
 *
 * @param {number} from
 * @param {number} until
 */
function figureOf(from, until, nticks = 8) {
  const x = Array.from({ length: (until - from) / MINUTE }, (_, n) => from + n * MINUTE);
  const figure = { data: [{ x, y: x }, { x, y: x }, { y: [3] }], layout: { xaxis: { range: [from, until], nticks } } };
  return { figure, x, offset: onTimeAxis(figure) };
}

/** @param {any} text */
const position = (text) => Date.parse(`${text.replace(" ", "T")}Z`);

for (const [zone, end] of Object.entries(ENDS)) {
  test(`positions increase evenly through the hour that ${zone || "the browser's zone"} repeats`, () => {
    useZone(zone, "24");
    const { figure, x, offset } = figureOf(end - 3 * HOUR, end + 3 * HOUR);
    const at = figure.data[0].x.map(position);
    for (let n = 1; n < at.length; n += 1) assert.equal(at[n] - at[n - 1], MINUTE);
    assert.equal(figure.data[1].x, figure.data[0].x, "converted once");
    assert.deepEqual(
      figure.data[0].x.map((text) => fromPosition(text, offset)),
      x,
    );
    assert.deepEqual(
      figure.layout.xaxis.range.map((text) => fromPosition(text, offset)),
      [end - 3 * HOUR, end + 3 * HOUR],
    );
  });
}

test("the repeated hour has its labels twice, the second with the new offset", () => {
  useZone("Europe/Berlin", "24");
  const end = ENDS["Europe/Berlin"];
  const { figure, offset } = figureOf(end - 3 * HOUR, end + 3 * HOUR);
  const { tickvals, ticktext, unifiedhovertitle } = figure.layout.xaxis;
  assert.deepEqual(ticktext, [
    "00:00<br>26 Oct 2025",
    "01:00",
    "02:00",
    "02:00<br>UTC+01:00",
    "03:00",
    "04:00",
    "05:00",
  ]);
  assert.deepEqual(
    tickvals.map((text) => (fromPosition(text, offset) - end) / HOUR),
    [-3, -2, -1, 0, 1, 2, 3],
  );
  assert.match(unifiedhovertitle.text, /UTC\+02:00$/);
});

test("each label is what the wall clock shows then, for spring and autumn, hours and months", () => {
  for (const zone of ["Europe/Berlin", "", "Australia/Lord_Howe"]) {
    useZone(zone, "24");
    for (const [from, until] of [
      [Date.UTC(2025, 2, 30), Date.UTC(2025, 2, 30, 4)],
      [Date.UTC(2025, 9, 20), Date.UTC(2025, 10, 20)],
      [Date.UTC(2025, 0, 1), Date.UTC(2026, 0, 1)],
      [Date.UTC(2025, 9, 4, 12), Date.UTC(2025, 9, 5, 12)],
      [Date.UTC(2025, 10, 2, 5, 58), Date.UTC(2025, 10, 2, 6, 2)],
    ]) {
      const { figure, offset } = figureOf(from, until);
      const { tickvals = [], ticktext = [] } = figure.layout.xaxis;
      assert.ok(tickvals.length <= 12, `${tickvals.length}`);
      tickvals.forEach((text, n) => {
        const ms = fromPosition(text, offset);
        assert.ok(ms >= from && ms <= until);
        assert.ok(n === 0 || ms > fromPosition(tickvals[n - 1], offset));
        const [first] = ticktext[n].split("<br>");
        const wall = wallClock(ms).toISOString();
        if (/^\d\d:\d\d/.test(first)) assert.equal(first, wall.slice(11, 11 + first.length));
        else assert.equal(wall.slice(11, 19), "00:00:00", `${zone} ${ticktext[n]}`);
      });
    }
  }
});

test("without a change of the offset Plotly makes the labels, of the wall clock", () => {
  useZone("Asia/Kolkata", "24");
  const summer = Date.UTC(2025, 6, 1, 22, 3, 4);
  const figure = {
    data: [{ x: [summer, null], y: [1, 2] }, { y: [3] }],
    layout: { xaxis: { range: [summer, summer + HOUR] }, shapes: [{ x0: summer }, { x0: 0, xref: "paper" }] },
  };
  const offset = onTimeAxis(figure);
  assert.deepEqual(figure.data[0].x, ["2025-07-02 03:33:04.000", null]);
  assert.deepEqual(figure.layout.shapes, [{ x0: "2025-07-02 03:33:04.000" }, { x0: 0, xref: "paper" }]);
  assert.equal(fromPosition(figure.layout.xaxis.range[1], offset), summer + HOUR);
  assert.equal(fromPosition("2025-07-02", offset), Date.UTC(2025, 6, 1, 18, 30), "Plotly shortens midnight");
  assert.equal(figure.layout.xaxis.tickvals, undefined);
});

test("a clock of twelve hours has labels of twelve hours", () => {
  useZone("Europe/Berlin", "12");
  const end = ENDS["Europe/Berlin"];
  const { figure } = figureOf(end - DAY, end + DAY);
  const times = figure.layout.xaxis.ticktext.map((text) => text.split("<br>")[0]);
  assert.deepEqual(times.slice(0, 3), ["6:00 am", "12:00 pm", "6:00 pm"]);
});
