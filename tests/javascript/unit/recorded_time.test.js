import assert from "node:assert/strict";
import { test } from "node:test";

import { recorded, stepPoints } from "../../../console/static/console/history/recorded_time.js";

const series = (unwatched, more = {}) => ({
  from: 0,
  until: 240,
  step_ms: 60,
  at: [0, 60, 120, 180],
  unwatched,
  ...more,
});

test("the recorded parts of a time lie within the range and outside the unrecorded spans", () => {
  const one = series([
    [20, 40],
    [100, 130],
  ]);
  assert.deepEqual(recorded(-50, 500, one), [
    [0, 20],
    [40, 100],
    [130, 240],
  ]);
  assert.deepEqual(recorded(25, 35, one), []);
});

test("the value of a step is drawn up to the end of the step, without a gap to the next", () => {
  assert.deepEqual(stepPoints(series([]), 1000), [
    [0, 0],
    [60, 1],
    [120, 2],
    [180, 3],
    [240, 3],
    [240, -1],
  ]);
});

test("no line goes through time without a recording, also within one step, nor into the future", () => {
  const points = stepPoints(
    series([
      [0, 30],
      [70, 80],
      [120, 180],
    ]),
    200,
  );
  assert.deepEqual(points, [
    [30, 0],
    [60, 1],
    [70, 1],
    [70, -1],
    [80, 1],
    [120, 1],
    [120, -1],
    [180, 3],
    [200, 3],
    [200, -1],
  ]);
});
