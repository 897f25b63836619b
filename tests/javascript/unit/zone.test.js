import assert from "node:assert/strict";
import { afterEach, test } from "node:test";

process.env.TZ = "America/New_York";
const CORE = "../../../console/static/console/core";
const { fromWallClock, offsetAt, offsetChanges, useZone, wallClock, zoneId } = await import(`${CORE}/zone.js`);
const { clock, moment } = await import(`${CORE}/format.js`);
const { inputValue, offsetText, readInput, zoneName } = await import(`${CORE}/moments.js`);

afterEach(() => useZone("", "24"));
const HOUR = 3_600_000;
const SUMMER = Date.UTC(2025, 6, 1, 22, 3, 4);

test("without a chosen zone times are in that of the browser", () => {
  assert.equal(zoneId(), "America/New_York");
  assert.equal(offsetAt(SUMMER), -4 * HOUR);
  assert.equal(clock(SUMMER), "1 Jul 2025 18:03:04");
});

test("a chosen zone has its own day, and its daylight saving time", () => {
  useZone("Europe/Berlin", "24");
  assert.equal(clock(SUMMER), "2 Jul 2025 00:03:04");
  assert.equal(offsetAt(Date.UTC(2026, 0, 1)), HOUR);
  assert.equal(zoneName(SUMMER), "Europe/Berlin (UTC+02:00)");
  assert.equal(offsetText(SUMMER), "UTC+02:00");
  assert.match(moment(SUMMER), /2 Jul 2025, 00:03:04 (CEST|GMT\+2)/);
});

test("a zone that no browser knows is that of the browser", () => {
  useZone("Mars/Olympus", "24");
  assert.equal(zoneId(), "America/New_York");
});

test("a clock of twelve hours has noon and midnight as 12", () => {
  useZone("UTC", "12");
  assert.equal(clock(Date.UTC(2025, 6, 1, 0, 5, 6)), "1 Jul 2025 12:05:06 am");
  assert.equal(clock(Date.UTC(2025, 6, 1, 12, 5, 6)), "1 Jul 2025 12:05:06 pm");
  assert.equal(clock(Date.UTC(2025, 6, 1, 23, 5, 6)), "1 Jul 2025 11:05:06 pm");
});

test("zones with half hours and far ones round-trip, each hour of two years", () => {
  for (const zone of ["Asia/Kolkata", "Pacific/Chatham", "Pacific/Kiritimati", "Europe/Berlin", "UTC"]) {
    useZone(zone, "24");
    let repeated = 0;
    for (let ms = Date.UTC(2025, 0, 1); ms < Date.UTC(2027, 0, 1); ms += HOUR) {
      if (fromWallClock(wallClock(ms).getTime()) === ms) continue;
      repeated += 1; // of an hour that the clock shows twice, one of the two is lost
      assert.equal(Math.abs(fromWallClock(wallClock(ms).getTime()) - ms), HOUR, zone);
    }
    assert.ok(repeated <= 2, `${zone}: ${repeated}`);
  }
});

test("a field for a date and a time is in the chosen zone", () => {
  useZone("Asia/Kolkata", "24");
  assert.equal(inputValue(SUMMER), "2025-07-02T03:33:04");
  assert.equal(readInput("2025-07-02T03:33:04"), SUMMER);
  assert.equal(readInput("soon"), null);
});

test("changes of the offset are found to the moment, and none elsewhere", () => {
  useZone("Europe/Berlin", "24");
  const [spring, autumn] = [Date.UTC(2025, 2, 30, 1), Date.UTC(2025, 9, 26, 1)];
  assert.deepEqual(offsetChanges(Date.UTC(2025, 0, 1), Date.UTC(2026, 0, 1)), [spring, autumn]);
  assert.deepEqual(offsetChanges(autumn - 1, autumn + 1), [autumn]);
  assert.deepEqual(offsetChanges(autumn, autumn + 60 * HOUR), []);
  assert.deepEqual(offsetChanges(autumn - 60 * HOUR, autumn), []);
  assert.deepEqual(offsetChanges(autumn, autumn), []);
  useZone("", "24"); // the browser's
  assert.deepEqual(offsetChanges(Date.UTC(2025, 9, 1), Date.UTC(2025, 11, 1)), [Date.UTC(2025, 10, 2, 6)]);
  useZone("Asia/Kolkata", "24");
  assert.deepEqual(offsetChanges(Date.UTC(2025, 0, 1), Date.UTC(2026, 0, 1)), []);
});
