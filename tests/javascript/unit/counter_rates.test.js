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

test("a counter that the broker does not report has no rate, also between two readings", () => {
  const rates = new CounterRates("messages");
  for (const at of [0, 1000, 2000]) rates.add(at, [{ object: "c", messages: null }, { object: "d" }]);
  assert.deepEqual([rates.rateOf("c"), rates.rateOf("d")], [null, null]);
  read(rates, 3000, 5);
  assert.equal(rates.rateOf("c"), null); // and not 5/s since it was not reported
  read(rates, 4000, 0);
  read(rates, 5000, 0);
  assert.equal(rates.rateOf("c"), 0); // reported as none
});

test("a deleted object is dropped", () => {
  const rates = new CounterRates("messages");
  read(rates, 0, 10);
  read(rates, 1000, 20);
  rates.add(2000, []);
  assert.equal(rates.rateOf("c"), null);
});
