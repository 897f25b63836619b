import assert from "node:assert/strict";
import { test } from "node:test";

import {
  highest,
  joinedGaps,
  knownSum,
  newestSlot,
  stepPath,
} from "../../../console/static/console/widgets/spark_shapes.js";

test("a line in steps has a gap where a value is unknown, and none where it is 0", () => {
  assert.equal(stepPath([0, 5, null, 10], 10, 40), "M0 40H1V20H2M3 0H4");
  assert.equal(stepPath([], 10, 40), "");
  assert.equal(stepPath([null, null], 0, 40), "");
});

test("a closed shape goes down to 0 at both ends of each part", () => {
  assert.equal(stepPath([5, null, 10, 10], 10, 40, true), "M0 40V20H1V40ZM2 40V0H3V0H4V40Z");
});

test("values that are all 0 are drawn at 0", () => {
  assert.equal(stepPath([0, 0], 0, 40), "M0 40H1V40H2");
});

test("the highest of series without a known value is 0", () => {
  assert.equal(highest([[null], [3, null, 7]]), 7);
  assert.equal(highest([[null]]), 0);
});

test("gaps of several brokers are joined, and name each broker", () => {
  assert.deepEqual(
    joinedGaps({
      a: [[10, 20]],
      b: [
        [15, 30],
        [40, 50],
      ],
      c: [],
    }),
    [
      { from: 10, until: 30, brokers: ["a", "b"] },
      { from: 40, until: 50, brokers: ["b"] },
    ],
  );
});

test("a sum without a known value is unknown", () => {
  assert.equal(knownSum([null, 0, 5]), 5);
  assert.equal(knownSum([null, null]), null);
  assert.equal(knownSum([]), null);
});

test("the newest known value is the last one that is not a gap", () => {
  assert.equal(newestSlot([1, 2, null]), 1);
  assert.equal(newestSlot([null]), -1);
});
