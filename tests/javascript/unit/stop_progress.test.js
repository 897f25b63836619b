import assert from "node:assert/strict";
import { test } from "node:test";

import { PROGRESS_REQUESTS, pauseBeforeProgress } from "../../../console/static/console/widgets/stop_progress.js";

const pauses = Array.from({ length: PROGRESS_REQUESTS }, (_, number) => pauseBeforeProgress(number));

test("the end of a stop is requested soon, then rarely", () => {
  assert.ok(pauses[0] <= 100);
  for (const [number, pause] of pauses.entries()) assert.ok(number === 0 || pause >= pauses[number - 1]);
  assert.equal(pauses.at(-1), 500);
  assert.ok(pauses.filter((pause) => pause < 500).length <= 20); // an operator who waits costs little
});

test("a stop is followed for longer than brokers take", () => {
  assert.ok(pauses.reduce((sum, pause) => sum + pause) > 60_000);
});
