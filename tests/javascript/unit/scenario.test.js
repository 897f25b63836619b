// Levels of a simulated scenario: without a resume level the capacity is the resume level, and 0 is one.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  faultOf,
  fieldText,
  fromAddress,
  levelInWords,
  readLevel,
  scaled,
  toAddress,
} from "../../../console/static/console/history/scenario.js";

const levels = (/** @type {any[]} */ ...values) =>
  Object.fromEntries(
    ["capacity_messages", "resume_messages", "capacity_bytes", "resume_bytes"].map((name, n) => [name, values[n]]),
  );

test("an empty resume level is none, and 0 is a level", () => {
  assert.equal(readLevel("resume_messages", " "), null);
  assert.equal(readLevel("resume_messages", "0"), 0);
  assert.equal(readLevel("capacity_messages", ""), 0);
  assert.equal(readLevel("capacity_bytes", "64 KiB"), 65_536);
  assert.equal(readLevel("resume_bytes", "1,5 GB"), undefined);
});

test("the address and the form have a scenario as it was entered", () => {
  const cases = [
    ["1000:800:0:0", levels(1000, 800, 0, 0), ["1,000", "800", "", ""]],
    ["1000::0:0", levels(1000, null, 0, 0), ["1,000", "", "", ""]],
    ["1000::50:", levels(1000, null, 50, null), ["1,000", "", "50", ""]],
    ["1000:0:2000:0", levels(1000, 0, 2000, 0), ["1,000", "0", "2,000", "0"]],
  ];
  for (const [text, scenario, form] of /** @type {any[]} */ (cases)) {
    assert.deepEqual(fromAddress(text), scenario);
    assert.equal(toAddress(scenario), text);
    assert.deepEqual(
      Object.keys(scenario).map((name) => fieldText(scenario, name)),
      form,
    );
  }
  assert.deepEqual(fromAddress("x:-1:1.5"), levels(0, null, 0, null));
  assert.equal(toAddress(levels(1000, 800, 0, null)), "1000:800:0:0");
});

test("a resume level that follows the capacity does so at any multiple", () => {
  assert.deepEqual(scaled(levels(1000, null, 50, 0), 2), levels(2000, null, 100, 0));
});

test("a resume level above its capacity or without one is contradictory", () => {
  assert.equal(faultOf(levels(1000, null, 0, null)), "");
  assert.equal(faultOf(levels(1000, 1000, 50, 0)), "");
  assert.match(faultOf(levels(1000, 1001, 0, 0)), /1,001 messages is above the capacity of 1,000 messages/);
  assert.match(faultOf(levels(0, 0, 0, 5)), /needs a capacity in bytes/);
});

test("a resume level of 0 is not called no limit", () => {
  assert.equal(levelInWords(levels(1000, 0, 0, 0), "resume_messages"), "0 (when empty)");
  assert.equal(levelInWords(levels(1000, 0, 0, 0), "resume_bytes"), "no limit");
  assert.equal(levelInWords(levels(1000, 800, 0, 0), "resume_messages"), "800");
});
