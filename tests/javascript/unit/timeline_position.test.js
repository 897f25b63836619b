import assert from "node:assert/strict";
import { test } from "node:test";
import { positionBefore } from "../../../console/static/console/pages/timeline_position.js";

const at = { before_event: 40, before_audit: 7, more: false };
const event = (number) => ({ source: "broker", number });
const row = (number) => ({ source: "people", number });

test("the next page begins with what was left out, of each source", () => {
  assert.deepEqual(positionBefore([event(90), row(12), event(89), row(11)], at), {
    before_event: 91,
    before_audit: 13,
    more: true,
  });
});

test("a source of which nothing was left out goes on where it was", () => {
  assert.deepEqual(positionBefore([event(90)], at), { before_event: 91, before_audit: 7, more: true });
  assert.deepEqual(positionBefore([], at), at);
});
