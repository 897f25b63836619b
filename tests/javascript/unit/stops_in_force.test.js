// What the undo of a stop lifts: the stops that the call has made, and no older or later ones.

import assert from "node:assert/strict";
import { test } from "node:test";

import { stillInForce, undoable } from "../../../console/static/console/widgets/stops_in_force.js";

const host = { scope: "type=VirtualHost,name=default", pattern: "" };
const stop = { object: host.scope, pattern: "", reason: "incident 7", actor: "olga", since: 1 };

test("the stop of the call can be undone, and not with its effects", () => {
  assert.deepEqual(undoable({ ...host, effects: ["reject"] }, { changed: true, stops_before: [] }), host);
  assert.equal(undoable(host, { changed: false, stops_before: [] }), null);
});

test("a stop that was in force before is not undone, although its end has changed", () => {
  assert.equal(undoable(host, { changed: true, stops_before: [{ ...stop, reason: "older", actor: "otto" }] }), null);
});

test("of named queues those are undone that the call has stopped", () => {
  const sent = { scope: "type=Broker", queues: ["a", "b", "c"] };
  const answer = { changed: true, changed_queues: ["a", "b"], stops_before: [{ object: "a" }, { object: "c" }] };
  assert.deepEqual(undoable(sent, answer), { scope: "type=Broker", queues: ["b"] });
  assert.equal(undoable(sent, { ...answer, changed_queues: ["a"] }), null);
});

test("a stop that has replaced that of the call stays", () => {
  assert.equal(stillInForce(host, "incident 7", [stop]), host);
  assert.equal(stillInForce(host, "incident 7", []), null);
  assert.equal(stillInForce(host, "incident 7", [{ ...stop, reason: "later" }]), null);
});

test("a stop of another scope with the same reason is another stop", () => {
  const others = [
    { ...stop, object: "type=Broker" },
    { ...stop, pattern: "a.>" },
    { ...stop, user: "ann" },
  ];
  assert.equal(stillInForce(host, "incident 7", others), null);
  assert.equal(stillInForce({ ...host, user: "ann" }, "incident 7", [stop]), null);
});

test("of named queues those are undone whose stop is still in force", () => {
  const aim = { scope: "type=Broker", queues: ["a", "b"] };
  const stops = [
    { ...stop, object: "a" },
    { ...stop, object: "b", reason: "later" },
  ];
  assert.deepEqual(stillInForce(aim, "incident 7", stops), { ...aim, queues: ["a"] });
});
