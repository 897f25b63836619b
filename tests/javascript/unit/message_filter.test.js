import assert from "node:assert/strict";
import { test } from "node:test";

import * as filter from "../../../console/static/console/messages/filter.js";

const address = (given) => new URLSearchParams(filter.toAddress(given)).toString();

test("a filter survives its address", () => {
  const text =
    "selector=colour+%3D+%27r%26d%27&older_than=10m&min_size=64+KiB&state=delayed&reason=rejected&property=a%3Db%3Dc&property=x%3D";
  const given = filter.fromAddress(new URLSearchParams(text));
  assert.equal(address(given), text);
  assert.deepEqual(given.properties, [
    ["a", "b=c"],
    ["x", ""],
  ]);
  assert.equal(given.selector, "colour = 'r&d'");
});

test("an empty filter has no address, and what is no property is left out", () => {
  assert.equal(address(filter.empty()), "");
  assert.ok(filter.isEmpty(filter.fromAddress(new URLSearchParams("object=x&property=novalue&property=%3Dv"))));
});

test("durations have a unit", () => {
  const cases = { "10m": 600_000, "90 s": 90_000, "2h": 7_200_000, "7d": 604_800_000, "500ms": 500 };
  for (const [text, ms] of Object.entries(cases)) assert.equal(filter.readDuration(text), ms, text);
  for (const text of ["", "10", "m", "10x", "-5m", "10m!", "1.5h", "5 minutes", "1e9d", `${"9".repeat(15)}d`])
    assert.equal(filter.readDuration(text), null, text);
});

test("parameters of the list have sizes in bytes and durations without spaces", () => {
  const given = filter.fromAddress(
    new URLSearchParams(
      "selector=a+%3D+1&older_than=10+m&min_size=1+kB&max_size=64KiB&max_redeliveries=9&property=k%3Dv+w",
    ),
  );
  assert.deepEqual(filter.wrongIn(given), {});
  assert.deepEqual(Object.fromEntries(filter.toQuery(given)), {
    selector: "a = 1",
    older_than: "10m",
    min_size: "1000",
    max_size: "65536",
    max_redeliveries: "9",
    property: "k=v w",
  });
});

test("errors name the field and the value", () => {
  const given = filter.fromAddress(
    new URLSearchParams("older_than=10&min_size=big&max_redeliveries=-1&property=a%3D1&property=a%3D2"),
  );
  assert.deepEqual(Object.keys(filter.wrongIn(given)), ["older_than", "min_size", "max_redeliveries", "property"]);
  assert.match(filter.wrongIn(given).older_than, /^10 is not a duration such as/);
});
