import assert from "node:assert/strict";
import { test } from "node:test";

process.env.TZ = "America/New_York";
const { addressMoment, inputValue, readMoment, zoneName } = await import(
  "../../../console/static/console/core/moments.js"
);

test("a moment of an address without a zone is of UTC", () => {
  assert.equal(readMoment("2026-03-14T12:00:00"), Date.UTC(2026, 2, 14, 12));
  assert.equal(readMoment("2026-03-14T12:00:00+02:00"), Date.UTC(2026, 2, 14, 10));
  assert.equal(readMoment("2026-03-14"), Date.UTC(2026, 2, 14));
  assert.equal(readMoment("1700000000000"), 1_700_000_000_000);
});

test("what is no moment is null", () => {
  for (const text of ["", null, undefined, "soon", "2026-13-01T00:00:00Z"]) {
    assert.equal(readMoment(text), null, String(text));
  }
});

test("an address has whole seconds and survives being read", () => {
  const text = addressMoment(Date.UTC(2026, 2, 14, 12, 0, 0, 400));
  assert.equal(text, "2026-03-14T12:00:00Z");
  assert.equal(readMoment(text), Date.UTC(2026, 2, 14, 12));
});

test("an input is in the viewer's zone, whose offset follows the season", () => {
  assert.equal(inputValue(Date.UTC(2026, 0, 1, 3)), "2025-12-31T22:00:00");
  assert.equal(zoneName(Date.UTC(2026, 0, 1)), "America/New_York (UTC-05:00)");
  assert.equal(zoneName(Date.UTC(2026, 6, 1)), "America/New_York (UTC-04:00)");
});
