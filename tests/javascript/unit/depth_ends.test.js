// What a stop that ends at a depth waits for.

import assert from "node:assert/strict";
import { test } from "node:test";

import { waitsFor } from "../../../console/static/console/clients/depth_ends.js";

const at = (/** @type {number} */ percent) => ({ queue: `q${percent}`, percent });

test("the queues above the depth are named, the fullest first, with the number of further ones", () => {
  assert.deepEqual(waitsFor(40, { queues_above: 12, fullest: [at(90), at(41), at(40)] }), {
    text: "Waits for 12 queues above 40%: ",
    above: [at(90), at(41)],
    more: 10,
  });
});

test("what is unknown, and a stop that no depth can end, are not shown as nothing to wait for", () => {
  assert.match(waitsFor(40, { queues_above: null, fullest: null }).text, /not known/);
  assert.match(waitsFor(40, { queues_above: 0, fullest: [] }).text, /no depth ends it/);
  assert.match(waitsFor(40, { queues_above: 0, fullest: [at(40)] }).text, /No queue is above 40%/);
});
