import assert from "node:assert/strict";
import { test } from "node:test";

import { DebouncedRequest } from "../../../console/static/console/core/debounced_request.js";

/** Timers and clock of a page, advanced by `pass`. */
function fakeTimers(context) {
  let now = 0;
  let timers = [];
  context.mock.method(globalThis, "setTimeout", (act, ms) => {
    timers.push({ act, at: now + ms });
    return timers.at(-1);
  });
  context.mock.method(globalThis, "clearTimeout", (timer) => {
    timers = timers.filter((other) => other !== timer);
  });
  context.mock.method(performance, "now", () => now);
  return (ms) => {
    now += ms;
    const due = timers.filter((timer) => timer.at <= now);
    timers = timers.filter((timer) => timer.at > now);
    for (const timer of due) timer.act();
  };
}

test("of several calls the last is sent, after the delay", (context) => {
  const pass = fakeTimers(context);
  const request = new DebouncedRequest(300);
  const sent = [];
  request.schedule(() => sent.push("first"));
  pass(299);
  request.schedule(() => sent.push("second"));
  pass(299);
  assert.deepEqual(sent, []);
  pass(1);
  assert.deepEqual(sent, ["second"]);
});

test("after a slow request the delay is its duration, at most two seconds", async (context) => {
  const pass = fakeTimers(context);
  const request = new DebouncedRequest(300);
  const sent = [];
  await request.send(async () => pass(1000));
  request.schedule(() => sent.push(1));
  pass(999);
  assert.deepEqual(sent, []);
  pass(1);
  assert.deepEqual(sent, [1]);
  await request.send(async () => pass(60_000));
  request.schedule(() => sent.push(2));
  pass(2000);
  assert.deepEqual(sent, [1, 2]);
});

test("a newer request and cancelling abort the one under way", async () => {
  const request = new DebouncedRequest(300);
  const signals = [];
  const sending = [request.send(async (signal) => signals.push(signal))];
  sending.push(request.send(async (signal) => signals.push(signal)));
  assert.deepEqual(
    signals.map((signal) => signal.aborted),
    [true, false],
  );
  request.cancel();
  assert.equal(signals[1].aborted, true);
  await Promise.all(sending);
});

test("cancelling drops the scheduled request", (context) => {
  const pass = fakeTimers(context);
  const request = new DebouncedRequest(300);
  request.schedule(() => assert.fail("was cancelled"));
  request.cancel();
  pass(1000);
});
