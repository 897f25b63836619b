// Which alerts a browser shows notifications of, over reloads and with several open pages.

import assert from "node:assert/strict";
import { test } from "node:test";

import { newAlerts, notificationsOf, SEVERAL } from "../../../console/static/console/widgets/notification_choice.js";

/** @param {number} number */
const alert = (number) => ({
  id: `${number}-1`,
  rule: "stuck",
  broker: "local",
  object: `type=Queue,virtualhost=default,name=q${number}`,
  name: `default/q${number}`,
  title: "Overfull",
  saw: "It is overfull.",
});
const ids = (/** @type {any[]} */ alerts) => alerts.map((each) => each.id);

test("alerts that fire at the first look are not new", () => {
  const { fresh, remembered } = newAlerts([alert(1)], null);
  assert.deepEqual(fresh, []);
  assert.deepEqual(remembered, ["1-1"]);
});

test("an alert is new once, also for a second page and after it was away", () => {
  const first = newAlerts([alert(1), alert(2)], ["1-1"]);
  assert.deepEqual(ids(first.fresh), ["2-1"]);
  assert.deepEqual(newAlerts([alert(1), alert(2)], first.remembered).fresh, []);
  const without = newAlerts([], first.remembered);
  assert.deepEqual(newAlerts([alert(2)], without.remembered).fresh, []);
});

test("the next firing of the same object is new", () => {
  const again = { ...alert(1), id: "1-2" };
  assert.deepEqual(ids(newAlerts([again], ["1-1"]).fresh), ["1-2"]);
});

test("what is remembered is bounded, and has what fires now", () => {
  const many = Array.from({ length: 900 }, (_, number) => `old-${number}`);
  const { remembered } = newAlerts([alert(1)], many);
  assert.equal(remembered.length, 500);
  assert.equal(remembered.at(-1), "1-1");
});

test("a few alerts have a notification each, many have one", () => {
  assert.deepEqual(notificationsOf([]), []);
  const [one] = notificationsOf([alert(1)]);
  assert.equal(one.title, "Overfull: default/q1");
  assert.equal(one.body, "It is overfull.\nRule stuck, broker local");
  assert.equal(one.tag, "1-1");
  const all = notificationsOf(Array.from({ length: 3000 }, (_, number) => alert(number)));
  assert.equal(all.length, 1);
  assert.equal(all[0].title, "3,000 alerts fire");
  assert.equal(all[0].tag, SEVERAL);
  assert.match(all[0].body, /and 2,997 more$/);
});

test("a second burst draws attention again, although it replaces the first", () => {
  const burst = (/** @type {number} */ from) => Array.from({ length: 9 }, (_, number) => alert(from + number));
  const [first, second] = [notificationsOf(burst(0))[0], notificationsOf(burst(100))[0]];
  assert.equal(first.tag, second.tag);
  assert.equal(second.renotify, true);
  assert.equal(notificationsOf([alert(1)])[0].renotify, false);
});
