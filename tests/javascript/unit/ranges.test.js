import assert from "node:assert/strict";
import { test } from "node:test";

import { LENGTHS } from "../../../console/static/console/core/lengths.js";
import { endOf, fitting, limited, offered, wrongRange } from "../../../console/static/console/history/ranges.js";

const DAY = 86_400_000;
const NOW = Date.UTC(2026, 2, 14);

test("a length ends now, or a minute after what is known if that is long ago", () => {
  assert.equal(endOf(null, NOW), NOW);
  assert.equal(endOf({ first: 0, last: NOW - DAY / 2 }, NOW), NOW);
  assert.equal(endOf({ first: 0, last: NOW - 2 * DAY }, NOW), NOW - 2 * DAY + 60_000);
});

test("a young history is shown with the shortest length that has all of it", () => {
  const names = Object.keys(LENGTHS);
  assert.equal(fitting(names, "24h", 5 * 60_000), "15m");
  assert.equal(fitting(names, "24h", 2 * 3_600_000), "6h");
  assert.equal(fitting(names, "24h", 900 * DAY), "24h");
  assert.equal(fitting(["1h", "6h"], "30d", 1), "30d");
});

test("a zoom is ten seconds at least, three years at most, and not before 1970", () => {
  assert.deepEqual(limited(NOW, NOW + 2000), [NOW - 4000, NOW + 6000]);
  assert.deepEqual(limited(NOW, NOW - 2000), [NOW - 6000, NOW + 4000]);
  assert.deepEqual(limited(NOW - 5000 * DAY, NOW), [NOW - 1190 * DAY, NOW]);
  assert.deepEqual(limited(-DAY, DAY), [0, DAY]);
  assert.deepEqual(limited(0, 0), [0, 5000]);
});

test("a page without a length that the address has offers its longest, and nothing for an unknown one", () => {
  const names = ["1h", "7d", "90d"];
  assert.equal(offered(names, "7d"), "7d");
  assert.equal(offered(names, "1y"), "90d");
  assert.equal(offered(names, "6h"), null);
  assert.equal(offered(names, "constructor"), null);
  assert.equal(offered(names, null), null);
});

test("a page with a shorter limit shows the end of a longer range", () => {
  assert.deepEqual(limited(NOW - 365 * DAY, NOW, 90 * DAY), [NOW - 90 * DAY, NOW]);
  assert.equal(wrongRange(NOW - 91 * DAY, NOW, 90 * DAY), "The range can be 90 days at most.");
});

test("an invalid range has an error message", () => {
  assert.equal(wrongRange(NOW, NOW + 1), "");
  assert.equal(wrongRange(null, NOW), "Enter a start and an end.");
  assert.equal(wrongRange(NOW, NOW), "The start must be before the end.");
  assert.equal(wrongRange(0, NOW), "The range can be three years at most.");
});
