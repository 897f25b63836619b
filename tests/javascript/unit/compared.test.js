import assert from "node:assert/strict";
import { test } from "node:test";

import {
  Answers,
  lastAndHighest,
  overfullTime,
  valuesOf,
  withTicks,
} from "../../../console/static/console/history/compared.js";

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

const [a, b, c] = ["a", "b", "c"].map((object) => ({ object }));

test("a queue that is removed while a request is under way leaves the others their own figures", () => {
  const answers = new Answers();
  assert.equal(answers.take([a, b, c], ["of a", "of b", "of c"], [b, c]), true);
  assert.deepEqual(
    [a, b, c].map((queue) => answers.of(queue)),
    [undefined, "of b", "of c"],
  );
});

test("an answer without a queue that was added meanwhile is loaded again", () => {
  const answers = new Answers();
  assert.equal(answers.take([a], ["of a"], [a, b]), false);
  assert.equal(answers.of(b), undefined);
  assert.equal(answers.take([a, b], ["of a", "of b"], [a, b]), true);
  assert.equal(answers.of(b), "of b");
});

test("ticks during a slow request are left out, and the next one after it runs, also after a failure", async () => {
  let runs = 0;
  /** @type {{resolve: (value?: any) => void, reject: (error: Error) => void}[]} */
  const pending = [];
  const { run, tick } = withTicks(() => {
    runs += 1;
    return new Promise((resolve, reject) => pending.push({ resolve, reject }));
  });
  const first = run();
  await Promise.all([tick(), tick()]);
  assert.equal(runs, 1);
  const forced = run();
  assert.equal(runs, 2);
  pending[0].resolve();
  await first;
  await tick();
  assert.equal(runs, 2);
  pending[1].resolve();
  await forced;
  const third = tick();
  assert.equal(runs, 3);
  pending[2].reject(new Error("no answer"));
  await assert.rejects(third);
  tick();
  assert.equal(runs, 4);
});
