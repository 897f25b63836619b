import assert from "node:assert/strict";
import { test } from "node:test";

import { CounterRates } from "../../../console/static/console/core/counter_rates.js";

const read = (rates, at, messages) => rates.add(at, [{ object: "c", messages }]);

test("a rate needs two snapshots that are a second apart", () => {
  const rates = new CounterRates("messages");
  assert.equal(rates.rateOf("c"), null);
  read(rates, 0, 10);
  assert.equal(rates.rateOf("c"), null);
  read(rates, 500, 60); // too soon: the reading before it stays
  assert.equal(rates.rateOf("c"), null);
  read(rates, 1000, 110);
  assert.equal(rates.rateOf("c"), 100);
});

test("a decreasing counter restarts its rate", () => {
  const rates = new CounterRates("messages");
  read(rates, 0, 10);
  read(rates, 1000, 20);
  read(rates, 2000, 5);
  assert.equal(rates.rateOf("c"), null);
  read(rates, 3000, 6);
  assert.equal(rates.rateOf("c"), 1);
});

test("a deleted object is dropped", () => {
  const rates = new CounterRates("messages");
  read(rates, 0, 10);
  read(rates, 1000, 20);
  rates.add(2000, []);
  assert.equal(rates.rateOf("c"), null);
});
