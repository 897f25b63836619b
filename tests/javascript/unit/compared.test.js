import assert from "node:assert/strict";
import { test } from "node:test";

import { lastAndHighest, overfullTime, valuesOf } from "../../../console/static/console/history/compared.js";

const series = {
  from: 0,
  until: 100,
  unwatched: [[40, 60]],
  at: [0, 10, 20],
  messages: [5, null, 20],
  bytes: [900, 100, 50],
  stop_messages: [10, 10, 0],
  stop_bytes: [1000, null, null],
  rate_in: [1, 2, null],
};

test("the part of the stop level is that of the unit in which the queue is fuller", () => {
  assert.deepEqual(valuesOf(series, "share"), [90, null, null]);
});

test("what a series does not know stays unknown", () => {
  assert.deepEqual(valuesOf(series, "messages"), [5, null, 20]);
  assert.deepEqual(lastAndHighest([null, null], "messages"), ["–", "–"]);
});

test("the last and the highest value have the unit of the measure", () => {
  assert.deepEqual(lastAndHighest([5, 1, null], "messages"), ["1 message", "5 messages"]);
  assert.deepEqual(lastAndHighest([12.34, 56.78], "share"), ["56.8%", "56.8%"]);
  assert.deepEqual(lastAndHighest([0.5], "rate_in"), ["0.5 /s", "0.5 /s"]);
});

test("overfull time counts recorded time of the range only", () => {
  const episodes = [
    { start: -20, end: 10 },
    { start: 30, end: 70 },
    { start: 90, end: 500 },
  ];
  assert.equal(
    overfullTime(episodes, series, (episode) => episode.end),
    10 + 20 + 10,
  );
});
