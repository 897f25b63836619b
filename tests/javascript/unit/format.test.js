import assert from "node:assert/strict";
import { test } from "node:test";

import * as format from "../../../console/static/console/core/format.js";

test("a count is exact below 100,000 and short above", () => {
  assert.deepEqual([0, 99_999, 123_456, 12_345_678].map(format.count), ["0", "99,999", "123K", "12.3M"]);
  assert.equal(format.count(null), "–");
});

test("bytes have three digits at most and never 1000 of a unit", () => {
  const cases = { 0: "0 B", 999: "999 B", 1000: "1 kB", 1234: "1.23 kB", 12345: "12.3 kB", 999499: "999 kB" };
  for (const [n, text] of Object.entries(cases)) assert.equal(format.bytes(Number(n)), text);
  assert.equal(format.bytes(999_500), "1 MB");
  assert.equal(format.bytes(undefined), "–");
});

test("a rate below ten has one decimal", () => {
  assert.deepEqual([0, 0.04, 9.96, 10, 1234.5, null].map(format.rate), ["0", "0.0", "10.0", "10", "1,235", "–"]);
});

test("a duration has its two largest units", () => {
  const second = 1000;
  const cases = [
    [0, "0 s"],
    [12, "< 1 s"],
    [59 * second, "59 s"],
    [200 * second, "3 min 20 s"],
    [7500 * second, "2 h 5 min"],
    [86_400 * 3 * second + 4 * 3_600_000, "3 d 4 h"],
    [-5, "0 s"],
    [null, "–"],
  ];
  for (const [ms, text] of cases) assert.equal(format.duration(ms), text);
});

test("a percentage of nothing is empty", () => {
  assert.equal(format.percent(5, 0), "");
  assert.equal(format.percent(1, 3), "33%");
});

test("units are singular for one", () => {
  assert.equal(format.exactAmount(1, "messages"), "1 message");
  assert.equal(format.exactAmount(1000, "bytes"), "1,000 bytes");
  assert.equal(format.exactAmount(1, "ms"), "1 ms");
  assert.equal(format.plural(1, "entry", "entries"), "1 entry");
  assert.equal(format.plural(2000, "queue"), "2,000 queues");
});

test("names of attributes and events become words", () => {
  assert.equal(format.words("producer-blocked"), "Producer blocked");
  assert.equal(format.words("flow_stop_bytes"), "Flow stop bytes");
  assert.equal(format.words("messageAge"), "Message age");
  assert.equal(format.eventName("producer-blocked"), "Producer blocked");
  assert.equal(format.eventName("producer-released"), "Producer unblocked");
  assert.equal(format.eventName("queue-dead-lettered"), "Messages dead-lettered");
});

test("an amount is parsed in decimal and binary units", () => {
  const cases = { "10,000": 10_000, "64 KiB": 65_536, "1.5 MB": 1_500_000, "2k": 2000, " 7 bytes ": 7, "1_000": 1000 };
  for (const [text, value] of Object.entries(cases)) assert.equal(format.readAmount(text), value, text);
});

test("separators of an amount stand between groups of three digits, and nowhere else", () => {
  const good = ["1,234,567", "1_234_567", "1 234 567", "1\u00a0234\u00a0567", "1\u202f234\u202f567", "1234567"];
  for (const text of good) assert.equal(format.readAmount(text), 1_234_567, text);
  assert.equal(format.readAmount("1,234.5 kB"), 1_234_500);
  assert.equal(format.readAmount(format.exact(12_345_678)), 12_345_678);
  const wrong = ["1,5 GB", "12,34", "1,50", "0,500 GB", "1,0000", "1,,000", "1,000,", "1,234_567", "1.234.567", "1 5"];
  for (const text of wrong) assert.equal(format.readAmount(text), null, text);
});

test("an amount that is not a whole number is refused", () => {
  for (const text of ["", "-1", "1.5", "ten", "5 iB", "1e3", "9007199254740993", "5 kg"]) {
    assert.equal(format.readAmount(text), null, text);
  }
});

test("a long name is shortened in the middle", () => {
  assert.equal(format.middle("short", 10), "short");
  assert.equal(format.middle("abcdefghijklmnop", 7), "abc…nop");
});

test("a time of another day has the day", () => {
  assert.match(format.clock(Date.UTC(2001, 4, 3, 12)), /^3 May 2001 \d\d:00:00$/);
  assert.match(format.clock(Date.now()), /^\d\d:\d\d:\d\d$/);
});
