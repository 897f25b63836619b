// The virtual hosts that a field offers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { hostChoices } from "../../../console/static/console/widgets/host_choice.js";

const HOSTS = { one: ["default", "test"], two: ["default", "blue"], away: null };
const ALL = ["", "all virtual hosts"];
const named = (/** @type {string[]} */ ...names) => [ALL, ...names.map((name) => [name, name])];

test("those of the broker are offered, and without a broker those of all, each once", () => {
  assert.deepEqual(hostChoices(HOSTS, "one", ""), { choices: named("default", "test"), note: "" });
  assert.deepEqual(hostChoices(HOSTS, "", "").choices, named("blue", "default", "test"));
});

test("a chosen one that does not exist stays, and is marked", () => {
  assert.deepEqual(hostChoices(HOSTS, "one", "test").choices, named("default", "test"));
  const choices = [ALL, ["old", "old (does not exist)"], ["default", "default"], ["test", "test"]];
  assert.deepEqual(hostChoices(HOSTS, "one", "old"), { choices, note: "" });
});

test("of a broker that has not been connected nothing is said to be absent", () => {
  const found = hostChoices(HOSTS, "away", "old");
  assert.deepEqual(found.choices, named("old"));
  assert.match(found.note, /not known/);
  assert.deepEqual(hostChoices(HOSTS, "", "old").choices[1], ["old", "old"]);
  assert.match(hostChoices(HOSTS, "", "").note, /not connected/);
  assert.match(hostChoices(HOSTS, "removed", "").note, /not known/);
});
