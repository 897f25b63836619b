// The virtual hosts that a field offers.

import assert from "node:assert/strict";
import { test } from "node:test";

import { completeHosts, hostChoices } from "../../../console/static/console/widgets/host_choice.js";

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

test("names are completed broker by broker: one that hangs, refuses or was removed delays no other", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const page = { visibilityState: "visible" };
  Object.assign(globalThis, { document: page });
  const hosts = { here: ["default"], hangs: null, removed: null, back: null };
  /** @type {Record<string, number>} */
  const calls = { here: 0, hangs: 0, removed: 0, back: 0 };
  /** @type {string[][]} */
  const found = [];
  /** @param {string} slug */
  async function read(slug) {
    calls[slug] += 1;
    if (slug === "hangs") return new Promise(() => {});
    if (slug === "removed") throw Object.assign(new Error("removed"), { status: 404 });
    if (calls[slug] < 3) throw Object.assign(new Error("away"), { status: 503 });
    return ["blue"];
  }
  completeHosts(hosts, () => found.push(Object.keys(hosts)), read);
  async function pass() {
    context.mock.timers.tick(3000);
    for (let turn = 0; turn < 10; turn += 1) await Promise.resolve();
  }
  await pass();
  page.visibilityState = "hidden";
  await pass();
  assert.deepEqual(calls, { here: 0, hangs: 1, removed: 1, back: 1 }); // a hidden page reads nothing
  page.visibilityState = "visible";
  await pass();
  assert.equal(found.length, 0);
  await pass();
  await pass();
  assert.deepEqual(calls, { here: 0, hangs: 1, removed: 1, back: 3 });
  assert.deepEqual(hosts, { here: ["default"], hangs: null, removed: null, back: ["blue"] });
  assert.equal(found.length, 1);
});
