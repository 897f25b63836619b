import assert from "node:assert/strict";
import { afterEach, beforeEach, test } from "node:test";

import { noteServerTime, serverNow } from "../../../console/static/console/core/server_clock.js";

const real = Date.now;
const AHEAD = 600_000; // of the browser's clock
let server = 1_000_000;

beforeEach(() => {
  server = 1_000_000;
  Date.now = () => server + AHEAD;
});

afterEach(() => {
  Date.now = real;
});

test("times are the server's, however wrong the browser's clock is", () => {
  noteServerTime(server);
  assert.equal(serverNow(), server);
  server += 61_000;
  assert.equal(serverNow(), server);
});

test("a frame that took longer than another one does not put the time back", () => {
  noteServerTime(server);
  noteServerTime(server - 1500);
  assert.equal(serverNow(), server);
  noteServerTime(server + 20);
  assert.equal(serverNow(), server + 20);
});

test("a clock that is set, of the server or the browser, is followed by the next frame", () => {
  noteServerTime(server);
  Date.now = () => server - 5_000_000;
  noteServerTime(server);
  assert.equal(serverNow(), server);
  Date.now = () => server + 5_000_000;
  noteServerTime(server);
  assert.equal(serverNow(), server);
});

test("a frame without a time changes nothing", () => {
  noteServerTime(server);
  for (const at of [undefined, null, "now"]) noteServerTime(at);
  assert.equal(serverNow(), server);
});
