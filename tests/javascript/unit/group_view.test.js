// Groups of the table of queues: which are open, and the lines of the page.

import assert from "node:assert/strict";
import { test } from "node:test";

import { groupView, linesOf, toggle, troubleOf, watched } from "../../../console/static/console/widgets/group_view.js";

test("without groups nothing is sent of them, and the lines are the queues", () => {
  assert.deepEqual(watched(groupView({ group_by: "none", groups: "expanded" }, ["shop"])), {});
  assert.deepEqual(watched(groupView({})), {});
  const queue = { object: "type=Queue,virtualhost=a,name=b" };
  assert.deepEqual(linesOf(undefined, [queue]), [{ key: queue.object, queue }]);
});

test("a group that is toggled twice is as before", () => {
  const view = groupView({ group_by: "prefix", groups: "collapsed" }, ["shop"]);
  toggle(view, "");
  assert.deepEqual(watched(view), { group: "prefix", collapsed: true, toggled: ["shop", ""] });
  toggle(view, "shop");
  toggle(view, "");
  assert.deepEqual(watched(view), { group: "prefix", collapsed: true, toggled: [] });
});

test("of very many toggled groups the newest ones are remembered", () => {
  const view = groupView({ group_by: "virtualhost", groups: "expanded" });
  for (let n = 0; n < 250; n += 1) toggle(view, `host ${n}`);
  const { toggled, collapsed } = watched(view);
  assert.equal(collapsed, false);
  assert.deepEqual([toggled.length, toggled[0], toggled.at(-1)], [100, "host 150", "host 249"]);
});

test("each group precedes its queues, also one that has none on this page", () => {
  const queue = (/** @type {string} */ name, /** @type {string} */ of) => ({
    object: `type=Queue,name=${name}`,
    of_group: of,
  });
  const groups = [{ name: "b" }, { name: "" }, { name: "a" }];
  const lines = linesOf(groups, [queue("b.1", "b"), queue("b.2", "b"), queue("a.1", "a")]);
  assert.deepEqual(
    lines.map(({ key }) => key),
    ["\nb", "type=Queue,name=b.1", "type=Queue,name=b.2", "\n", "\na", "type=Queue,name=a.1"],
  );
});

test("lines of queues of several brokers have keys of their own, and none of a group", () => {
  const same = { object: "type=Queue,name=q", of_group: "eu type=Queue,name=q" };
  const queues = [
    { ...same, broker: "eu" },
    { ...same, broker: "us" },
  ];
  const keyOf = (/** @type {any} */ queue) => `${queue.broker} ${queue.object}`;
  const keys = linesOf([{ name: same.of_group }], queues, keyOf).map(({ key }) => key);
  assert.equal(new Set(keys).size, 3);
  assert.deepEqual(keys.slice(1), ["eu type=Queue,name=q", "us type=Queue,name=q"]);
});

test("overfull and stopped queues are named only where there are some", () => {
  const none = { overfull_queues: 0, stopped_queues: 0, partial: [] };
  assert.equal(troubleOf(none), "");
  assert.equal(troubleOf({ ...none, overfull_queues: 2, stopped_queues: 1 }), "2 overfull, 1 stopped");
  assert.equal(
    troubleOf({ overfull_queues: 2, stopped_queues: 0, partial: ["overfull_queues"] }),
    "at least 2 overfull",
  );
  assert.equal(troubleOf({ ...none, overfull_queues: 12_345 }), "12,345 overfull");
});

test("an unknown number of overfull or stopped queues is not shown as none", () => {
  const both = ["overfull_queues", "stopped_queues"];
  assert.equal(troubleOf({ overfull_queues: 0, stopped_queues: 0, partial: both }), "overfull and stopped: not known");
  assert.equal(
    troubleOf({ overfull_queues: 3, stopped_queues: 0, partial: both }),
    "at least 3 overfull, stopped: not known",
  );
  assert.equal(troubleOf({ overfull_queues: null, stopped_queues: 0, partial: [] }), "overfull: not known");
});
