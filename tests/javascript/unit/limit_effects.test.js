// Whether an overfull queue resumes with other limits.

import assert from "node:assert/strict";
import { test } from "node:test";
import { consequence } from "../../../console/static/console/pages/limit_effects.js";

const QUEUE = { state: "OVERFULL", depth_messages: 101, depth_bytes: 2619 };

for (const [name, effective, queue, says] of [
  ["below its depth", { capacity_messages: 120, resume_messages: 96 }, QUEUE, /stays overfull.*101.*resumes at 96/],
  ["of its depth", { capacity_messages: 127, resume_messages: 101 }, QUEUE, /not overfull any more/],
  ["of bytes below", { capacity_messages: 0, capacity_bytes: 1000, resume_bytes: 800 }, QUEUE, /stays overfull/],
  ["none", {}, QUEUE, /not overfull any more/],
  [
    "of a queue that is not overfull",
    { capacity_messages: 9, resume_messages: 8 },
    { ...QUEUE, state: "NORMAL" },
    /^$/,
  ],
  [
    "of a queue that is stopped too",
    { capacity_messages: 9, resume_messages: 8 },
    { ...QUEUE, state: "OVERFULL_STOPPED" },
    /stays/,
  ],
])
  test(`resume level ${name}`, () => assert.match(consequence({ effective }, queue), says));
