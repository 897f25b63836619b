import assert from "node:assert/strict";
import { test } from "node:test";

process.env.TZ = "America/New_York";
const { addressMoment, inputValue, readMoment, zoneName } = await import(
  "../../../console/static/console/core/moments.js"
);

test("a moment of a URL without a zone is UTC", () => {
  assert.equal(readMoment("2026-03-14T12:00:00"), Date.UTC(2026, 2, 14, 12));
  assert.equal(readMoment("2026-03-14T12:00:00+02:00"), Date.UTC(2026, 2, 14, 10));
  assert.equal(readMoment("2026-03-14"), Date.UTC(2026, 2, 14));
  assert.equal(readMoment("1700000000000"), 1_700_000_000_000);
});

test("an invalid moment is null", () => {
  for (const text of ["", null, undefined, "soon", "2026-13-01T00:00:00Z"]) {
    assert.equal(readMoment(text), null, String(text));
  }
});

test("a moment in a URL has whole seconds and round-trips", () => {
  const text = addressMoment(Date.UTC(2026, 2, 14, 12, 0, 0, 400));
  assert.equal(text, "2026-03-14T12:00:00Z");
  assert.equal(readMoment(text), Date.UTC(2026, 2, 14, 12));
});

test("an input is in the browser's zone, with its daylight saving time", () => {
  assert.equal(inputValue(Date.UTC(2026, 0, 1, 3)), "2025-12-31T22:00:00");
  assert.equal(zoneName(Date.UTC(2026, 0, 1)), "America/New_York (UTC-05:00)");
  assert.equal(zoneName(Date.UTC(2026, 6, 1)), "America/New_York (UTC-04:00)");
});
