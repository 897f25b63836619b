import assert from "node:assert/strict";
import { test } from "node:test";

import { Ending } from "../../../console/static/console/core/endings.js";

const ORDERS = "type=Queue,virtualhost=default,name=orders";
const NOON = Date.parse("2026-11-28T12:00:00");
const deleted = { source: "broker", kind: "queue-deleted", object: ORDERS, at: NOON };

const settled = () => new Promise((resume) => setImmediate(resume));

function ending(object, answer) {
  const paths = [];
  let changes = 0;
  const read = async (path) => {
    paths.push(path);
    return answer(path);
  };
  const made = new Ending(object, () => (changes += 1), read);
  return { made, paths, changes: () => changes };
}

test("nothing is said of an object that the page has not shown and the log does not have", async () => {
  const { made, paths, changes } = ending(ORDERS, () => ({ entries: [] }));
  assert.equal(made.text(), "");
  await settled();
  assert.equal(made.text(), "");
  assert.equal(changes(), 0);
  assert.deepEqual(paths, [`timeline/?kind=queue-deleted&kind=delete&queue=${encodeURIComponent(ORDERS)}`]);
});

test("the deletion in the event log is dated", async () => {
  const { made, changes } = ending(ORDERS, () => ({ entries: [{ ...deleted, object: `${ORDERS}.old` }, deleted] }));
  assert.equal(made.text(), "");
  await settled();
  assert.equal(changes(), 1);
  assert.match(made.text(), /^It was deleted at .*12:00:00\.$/);
});

test("an object that the page has shown was deleted, also if the log cannot be read", async () => {
  const { made } = ending(ORDERS, () => Promise.reject(new Error("503")));
  made.exists();
  assert.equal(made.text(), "It was deleted.");
  await settled();
  assert.equal(made.text(), "It was deleted.");
});

test("an attempt to delete that was refused is no end", async () => {
  const user = "type=User,name=ann";
  const refused = { source: "people", kind: "delete", object: user, at: NOON, outcome: "refused" };
  const { made } = ending(user, () => ({ entries: [refused] }));
  made.text();
  await settled();
  assert.equal(made.text(), "");
});

test("connections end, and are created again without an end", async () => {
  const connection = "type=Connection,id=7";
  const ended = { source: "broker", kind: "connection-closed", object: connection, at: NOON };
  const { made, paths } = ending(connection, () => ({ entries: [ended] }));
  made.text();
  made.exists();
  await settled();
  assert.equal(made.text(), "It ended.");
  await settled();
  assert.match(made.text(), /^It ended at /);
  assert.equal(paths.length, 2);
});
