import assert from "node:assert/strict";
import { test } from "node:test";

import { readFactor } from "../../../console/static/console/widgets/relative_amount.js";

test("a percentage and a multiple are factors of the present value", () => {
  const cases = [
    ["+50%", 1.5],
    ["+ 50 %", 1.5],
    ["-20%", 0.8],
    ["−20%", 0.8],
    ["+0.1%", 1.001],
    ["x2", 2],
    ["× 1.5", 1.5],
    ["*3", 3],
    ["X 10", 10],
  ];
  for (const [text, factor] of cases) assert.equal(readFactor(text), factor, text);
});

test("an amount, and anything else, is no factor", () => {
  for (const text of ["", "50", "50%", "1,000", "64 KiB", "+50", "x", "x2x", "+%", "2x", "-x2"])
    assert.equal(readFactor(text), null, text);
});
