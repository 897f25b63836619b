import assert from "node:assert/strict";
import { test } from "node:test";

import { endInWords, knownUntil, lengthInWords } from "../../../console/static/console/history/episode_end.js";

const NOW = 1_700_000_000_000;
const HOUR = 3_600_000;
const episode = (more) => ({ start: NOW - 2 * HOUR, end: null, known_until: NOW - 1000, released_by: null, ...more });

test("an episode of a broker that is recorded is ongoing until now", () => {
  assert.equal(knownUntil(episode({}), NOW), NOW);
  assert.equal(lengthInWords(episode({}), NOW), "2 h 0 min, ongoing");
});

test("an open episode of a broker that is not recorded does not grow with the clock", () => {
  const open = episode({ known_until: NOW - HOUR });
  for (const now of [NOW, NOW + 5 * HOUR]) {
    assert.equal(knownUntil(open, now), NOW - HOUR);
    assert.match(lengthInWords(open, now), /^1 h 0 min, last known at .*, not recorded since$/);
  }
  assert.equal(knownUntil(episode({ known_until: NOW - 3 * HOUR }), NOW), NOW - 2 * HOUR);
});

test("an end that a restart leaves unknown is named as the last known moment", () => {
  const ended = episode({ end: NOW - HOUR, released_by: "restart" });
  assert.match(endInWords(ended, NOW), /^last known at .*, before the broker restarted$/);
  assert.equal(endInWords(episode({ end: NOW - HOUR, released_by: "drained" }), NOW), "");
});
