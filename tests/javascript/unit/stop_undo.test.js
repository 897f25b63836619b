// What the undo of a stop does: stops that the call has made are lifted, and others get their earlier end again.

import assert from "node:assert/strict";
import { test } from "node:test";

import {
  aimOfCall,
  asShown,
  earlierEnds,
  isUndoable,
  joined,
  madeUnseen,
  planAcross,
  planOf,
  planOfLast,
  undoOf,
} from "../../../console/static/console/widgets/stop_undo.js";

const host = { scope: "type=VirtualHost,name=default", pattern: "" };
const stop = { object: host.scope, pattern: "", reason: "incident 7", actor: "olga", since: 1, until: null, below: 0 };
const older = { ...stop, reason: "older", actor: "otto", until: 9000, below: 40 };
const NOW = 5000;

const all = { changed: true, stops_before: [], stops_made: [stop] };
const plan = (/** @type {any} */ sent, /** @type {any} */ answer, /** @type {any[]} */ stops, now = NOW) =>
  planOf(undoOf(sent, answer), stops, now);
const nothing = { lift: null, restore: [], over: [], left: 0 };

test("the stop of the call is lifted, and not with its effects", () => {
  assert.deepEqual(plan({ ...host, effects: ["reject"] }, all, [stop]), { ...nothing, lift: host });
  assert.equal(isUndoable(undoOf(host, all)), true);
  assert.equal(isUndoable(undoOf(host, { changed: false, stops_before: [] })), false);
  assert.equal(isUndoable(undoOf(host, { changed: false, stops_before: [older] })), false);
});

test("a stop that was in force before gets its end again, with the effects, and is not lifted", () => {
  const answer = { changed: true, stops_before: [{ ...older, after: { until: 60_000, below: 0 } }] };
  const sent = { ...host, effects: ["reject"] };
  const expected = { ...nothing, restore: [{ ...sent, until: 9000, below: 40 }] };
  assert.deepEqual(plan(sent, answer, [{ ...older, until: 60_000, below: 0 }]), expected);
  const unlimited = { ...older, until: null, below: 0, after: { until: 9000, below: 40 } };
  assert.deepEqual(plan(host, { changed: true, stops_before: [unlimited] }, [older]), { ...nothing, restore: [host] });
});

test("an end that another user has changed since, and another stop, stay", () => {
  const answer = { changed: true, stops_before: [{ ...older, after: { until: 60_000, below: 0 } }] };
  for (const stops of [[{ ...older, until: 70_000, below: 0 }], [{ ...older, until: 60_000, below: 0, since: 2 }], []])
    assert.deepEqual(plan(host, answer, stops), { ...nothing, left: 1 });
  const restored = { changed: true, stops_before: [{ ...older, after: { until: 9000, below: 40 } }] };
  assert.deepEqual(plan(host, restored, [older]), nothing);
});

test("a stop whose earlier end has passed is lifted", () => {
  const before = { ...older, after: { until: 60_000, below: 0 } };
  const answer = { changed: true, stops_before: [before] };
  assert.deepEqual(plan(host, answer, [{ ...older, until: 60_000, below: 0 }], 9000), {
    ...nothing,
    lift: host,
    over: [before],
  });
});

test("a staged start that the stop has replaced is not undone", () => {
  const undo = undoOf(host, { changed: true, stops_before: [{ ...older, replaced: true }] });
  assert.equal(isUndoable(undo), false);
  assert.equal(undo.lost.length, 1);
  assert.deepEqual(planOf(undo, [stop], NOW), nothing);
});

test("of named queues each gets what it had before, in one call for each end", () => {
  const sent = { scope: "type=Broker", queues: ["a", "b", "c", "d", "e", "f"] };
  const after = { until: 60_000, below: 0 };
  const named = (/** @type {string} */ object, end = {}) => ({ ...older, object, after, ...end });
  const answer = {
    changed: true,
    changed_queues: ["a", "b", "c", "d", "e"],
    stops_before: [named("a"), named("b", { until: 100 }), named("c", { until: null }), named("d"), named("f")],
    stops_made: [{ ...stop, object: "e" }],
  };
  const stops = ["a", "b", "c", "d", "f"].map((name) => named(name, after));
  assert.deepEqual(plan(sent, answer, [...stops, { ...stop, object: "e" }]), {
    lift: { ...sent, queues: ["e", "b"] },
    restore: [
      { ...sent, queues: ["a", "d"], until: 9000, below: 40 },
      { ...sent, queues: ["c"], below: 40 },
    ],
    over: [named("b", { until: 100 })],
    left: 0,
  });
});

test("a stop that has replaced that of the call, or whose end another user has changed since, stays", () => {
  const changes = [
    { since: 2 },
    { since: 2, reason: "later" },
    { until: 60_000 },
    { below: 20 },
    { stage: { rate: 10 } },
  ];
  for (const stops of [[], ...changes.map((change) => [{ ...stop, ...change }])])
    assert.deepEqual(plan(host, all, stops), { ...nothing, left: 1 }, JSON.stringify(stops));
});

test("a stop of which it is not known how the call left it stays, and no undo is offered", () => {
  const unseen = { changed: true, stops_before: [], stops_made: [] };
  assert.equal(isUndoable(undoOf(host, unseen)), false);
  assert.deepEqual(plan(host, unseen, [stop]), { ...nothing, left: 1 });
  const unknown = { changed: true, stops_before: [{ ...older, after: null }] };
  assert.equal(isUndoable(undoOf(host, unknown)), false);
  assert.deepEqual(plan(host, unknown, [older]), { ...nothing, left: 1 });
});

test("a stop of another scope with the same reason is another stop", () => {
  const others = [
    { ...stop, object: "type=Broker" },
    { ...stop, pattern: "a.>" },
    { ...stop, user: "ann" },
  ];
  assert.equal(plan(host, all, others).lift, null);
  const ofAnn = { ...all, stops_made: [others[2]] };
  assert.equal(plan({ ...host, user: "ann" }, ofAnn, [stop]).lift, null);
  assert.deepEqual(plan({ ...host, user: "ann" }, ofAnn, others).lift, { ...host, user: "ann" });
});

test("the undo on several brokers leaves what others have changed or removed since", () => {
  const sent = { scope: "type=Broker", reason: "incident 7", until: 60_000, brokers: ["*"] };
  const mine = { object: "type=Broker", reason: "incident 7", since: 100, until: 60_000, below: 0 };
  const before = { until: 9000, below: 40, replaced: false, since: 1, after: { until: 60_000, below: 0 } };
  const prolonged = { ...mine, reason: "older", since: 1 };
  const brokers = /** @type {[string, any, any[] | null][]} */ ([
    ["made", null, [mine]],
    ["made, beside others", null, [{ ...mine, user: "ann", reason: "other" }, mine]],
    ["replaced", null, [{ ...mine, reason: "incident 8", since: 200 }]],
    ["made again", null, [{ ...mine, since: 200 }]],
    ["made, and its end changed", null, [{ ...mine, until: 70_000 }]],
    ["made, and its end removed", null, [{ ...mine, until: null }]],
    ["made, now being started in stages", null, [{ ...mine, stage: { rate: 10 } }]],
    ["removed", null, []],
    ["a client's", null, [{ ...mine, user: "ann" }]],
    ["another scope", null, [{ ...mine, object: "type=VirtualHost,name=a" }]],
    ["earlier", before, [prolonged]],
    ["earlier, of an unknown end", { ...before, after: null }, [{ ...prolonged, until: 70_000 }]],
    ["changed again", before, [{ ...prolonged, until: 70_000 }]],
    ["restored", before, [{ ...prolonged, until: 9000, below: 40 }]],
    ["restored, some ms later", before, [{ ...prolonged, until: 9350, below: 40 }]],
    ["started and stopped again", before, [{ ...prolonged, since: 2 }]],
    ["earlier, removed", before, []],
    ["away", null, null],
    ["earlier, away", before, null],
  ]);
  const values = { since: 100, until: 60_000, below: 0 };
  const made = brokers.map(([broker, earlier]) => ({ broker, earlier, made: earlier ? null : values }));
  const stops = new Map(brokers.flatMap(([broker, , found]) => (found ? [[broker, found]] : [])));
  assert.deepEqual(planAcross(sent, made, stops, NOW), {
    lift: ["made", "made, beside others"],
    restore: ["earlier"],
    same: ["restored", "restored, some ms later"],
    left: [
      "replaced",
      "made again",
      "made, and its end changed",
      "made, and its end removed",
      "made, now being started in stages",
      "removed",
      "a client's",
      "another scope",
      "earlier, of an unknown end",
      "changed again",
      "started and stopped again",
      "earlier, removed",
    ],
    unread: ["away", "earlier, away"],
  });
  assert.deepEqual(planAcross(sent, [{ broker: "made", earlier: null, made: null }], stops, NOW).left, ["made"]);
  const over = planAcross(sent, [{ broker: "earlier", earlier: before, made: null }], stops, 9000);
  assert.deepEqual([over.lift, over.restore], [["earlier"], []]);
});

test("the undo of a client's stop is about that client, and not about the whole scope", () => {
  const sent = { scope: "type=Broker", user: "ann", pattern: "", reason: "incident 7", until: 5, only: true };
  assert.deepEqual(aimOfCall(sent), { scope: "type=Broker", user: "ann" });
  const whole = { object: "type=Broker", reason: "incident 7", since: 1 };
  const plan = (/** @type {any[]} */ found) =>
    planAcross(sent, [{ broker: "a", earlier: null, made: { since: 1 } }], new Map([["a", found]]), NOW);
  assert.deepEqual(plan([whole]).left, ["a"]);
  assert.deepEqual(plan([whole, { ...whole, user: "ann" }]).lift, ["a"]);
});

test("without an answer in time, a stop is that of the call only if it can be no other", () => {
  const sent = { reason: "incident 7", for_ms: 60_000, below: 20 };
  const seen = { reason: "incident 7", since: 100, until: 60_100, below: 20, actor: "olga" };
  assert.equal(madeUnseen(sent, { earlier: null }, seen), seen);
  assert.equal(madeUnseen(sent, {}, seen), null); // not known whether one was in force before
  assert.equal(madeUnseen(sent, { earlier: { since: 1 } }, seen), null);
  for (const other of [null, { ...seen, reason: "x" }, { ...seen, until: 90_000 }, { ...seen, below: 0 }])
    assert.equal(madeUnseen(sent, { earlier: null }, other), null);
  const endless = { ...seen, until: null, below: 0 };
  assert.equal(madeUnseen({ reason: "incident 7" }, { earlier: null }, endless), endless);
  assert.equal(madeUnseen({ reason: "incident 7" }, { earlier: null }, seen), null); // another has given it an end
});

test("of the stops of a banner those are undone that are in force as they were shown", () => {
  const shown = ["a", "b", "c", "d", "e", "f"].map((object) => ({ ...stop, object }));
  const [a, b, c, d, e] = shown;
  const present = [
    { ...a, below: null },
    { ...b, since: 2 },
    { ...c, reason: "incident 8" },
    { ...d, until: 9000 },
    { ...e, user: "ann" },
  ];
  assert.deepEqual(asShown(shown, present), [a]);
});

const listing = (/** @type {any[]} */ ...stops) => ({ stops });
const plain = { object: "type=Broker", since: 1, until: null, below: 0 };
const at = (/** @type {number} */ until) => ({ ...plain, until });
const made = { before: listing(), after: listing(plain) };
const ended = { before: listing(plain), after: listing(at(60_000)) };
const again = { before: listing(at(60_000)), after: listing(at(70_000)) };
const earlierEnd = (/** @type {any} */ one, /** @type {any[]} */ entries) => earlierEnds([one], entries)[0];

test("the end before the last change of a stop is read from the audit trail", () => {
  assert.equal(earlierEnd(plain, [made]), null);
  assert.deepEqual(earlierEnd(at(60_000), [ended, made]), { until: null, below: 0 });
  assert.deepEqual(earlierEnd(at(70_000), [again, ended, made]), { until: 60_000, below: 0 });
  assert.deepEqual(earlierEnd(at(60_000), [{ before: listing(at(60_000)), after: listing(at(60_000)) }, ended, made]), {
    until: null,
    below: 0,
  }); // a call that changed nothing
  const undone = { before: listing(at(70_000)), after: listing(at(60_000)), reason: "undo: incident 7" };
  assert.deepEqual(earlierEnd(at(60_000), [undone, again, ended, made]), { until: null, below: 0 }); // not undone twice
  const late = { ...undone, after: listing(at(60_900)) }; // the brokers take the time until the end
  assert.deepEqual(earlierEnd(at(60_900), [late, again, ended, made]), { until: null, below: 0 });
  const whole = { before: listing(at(60_000)), after: listing(plain), reason: "undo: incident 7" };
  assert.equal(earlierEnd(plain, [whole, undone, again, ended, made]), null);
  assert.equal(
    earlierEnd(at(60_000), [{ before: listing({ ...plain, halted: {} }), after: listing(at(60_000)) }]),
    null,
  );
  assert.equal(earlierEnd(plain, [{ before: null, after: null }, made]), null);
  assert.equal(earlierEnd({ ...plain, halted: {} }, []), null); // of a start that was halted
});

test("an end that the audit trail does not have is not known, and not none", () => {
  assert.equal(earlierEnd(at(80_000), [again, ended, made]), undefined); // the last change is missing
  assert.equal(earlierEnd(at(60_000), []), undefined);
  assert.equal(earlierEnd({ ...at(60_000), since: 2 }, [ended, made]), undefined); // another stop of this scope
  assert.equal(earlierEnd({ ...at(60_000), user: "ann" }, [ended, made]), undefined); // that of a client
  assert.equal(earlierEnd(at(60_000), [{ before: listing(at(60_000)), after: listing(at(60_000)) }]), undefined); // no beginning
  const back = { before: listing(at(70_000)), after: listing(at(60_000)), reason: "undo: incident 7" };
  assert.equal(earlierEnd(at(60_000), [back, made]), undefined); // the change that it undoes is missing
  assert.deepEqual(earlierEnd(at(70_000), [again, made]), { until: 60_000, below: 0 }); // one in between is missing
  assert.deepEqual(earlierEnd(at(70_000), [again]), { until: 60_000, below: 0 });
});

test("each stop of a call for several queues has an earlier end of its own", () => {
  const of = (/** @type {string} */ object, until = 0) => ({ ...plain, object, until });
  const both = { before: listing(of("a"), of("b", 50_000)), after: listing(of("a", 60_000), of("b", 60_000)) };
  const first = { before: listing(), after: listing(of("b", 50_000)) };
  const begun = { before: listing(of("b", 50_000)), after: listing(of("a"), of("b", 50_000), of("c", 60_000)) };
  const stops = [of("a", 60_000), of("b", 60_000), of("c", 60_000)];
  const ends = earlierEnds(stops, [both, begun, first]);
  assert.deepEqual(ends.slice(0, 2), [
    { until: 0, below: 0 },
    { until: 50_000, below: 0 },
  ]);
  assert.equal(ends[2], null);
  assert.deepEqual(planOfLast(stops, ends, 10), {
    lift: [stops[2]],
    restore: [
      { stops: [stops[0]], end: {} },
      { stops: [stops[1]], end: { until: 50_000 } },
    ],
  });
  assert.deepEqual(planOfLast(stops, ends, 50_000)?.lift, [stops[1], stops[2]]); // an end that has passed
  assert.equal(planOfLast(stops, [...ends.slice(0, 2), undefined], 10), null);
  assert.deepEqual(planOfLast([], [], 10), { lift: [], restore: [] });
});

test("entries of two objects are joined from where both lists are complete", () => {
  const page = (/** @type {number} */ count, /** @type {number[]} */ ...ids) => ({
    count,
    results: ids.map((id) => ({ id })),
  });
  const ids = (/** @type {any[]} */ ...pages) => joined(pages).map(({ id }) => id);
  assert.deepEqual(ids(page(2, 9, 2), page(2, 5, 1)), [9, 5, 2, 1]);
  assert.deepEqual(ids(page(2, 9, 2), page(7, 6, 5)), [9, 6, 5]);
  assert.deepEqual(ids(), []);
});
