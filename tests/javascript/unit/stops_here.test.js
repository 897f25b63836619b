// Which stops the page of a client lists, and how many of its objects.

import assert from "node:assert/strict";
import { test } from "node:test";

import { listedOf } from "../../../console/static/console/clients/listed.js";
import { appliesTo } from "../../../console/static/console/clients/stops_here.js";

const who = { virtualhost: "blue", user: "ann", container_id: "web" };
const queue = (/** @type {string} */ name, host = "blue") => `type=Queue,virtualhost=${host},name=${name}`;
const producers = [{ link: "l1", queue: queue("orders") }];
const stop = { object: "type=Broker", user: "ann", container_id: "", link: "" };

test("a stop of the user or the container applies to the client, one of others or of everyone does not", () => {
  assert.equal(appliesTo(stop, who, producers), true);
  assert.equal(appliesTo({ ...stop, container_id: "web" }, who, []), true);
  assert.equal(appliesTo({ ...stop, user: "bob" }, who, producers), false);
  assert.equal(appliesTo({ ...stop, container_id: "batch" }, who, producers), false);
  assert.equal(appliesTo({ object: "type=Broker" }, who, producers), false);
  assert.equal(appliesTo(stop, null, producers), false);
});

test("a stop in another virtual host does not apply", () => {
  assert.equal(appliesTo({ ...stop, object: "type=VirtualHost,name=blue" }, who, producers), true);
  assert.equal(appliesTo({ ...stop, object: "type=VirtualHost,name=green" }, who, producers), false);
  assert.equal(appliesTo({ ...stop, object: queue("orders", "green") }, who, producers), false);
  assert.equal(appliesTo({ ...stop, object: queue("orders") }, who, producers), true);
});

test("a stop of a link applies if the client has a producer with that link there", () => {
  const ofLink = { ...stop, user: "", link: "l1" };
  assert.equal(appliesTo(ofLink, who, producers), true);
  assert.equal(appliesTo({ ...ofLink, link: "l2" }, who, producers), false);
  assert.equal(appliesTo({ ...ofLink, object: queue("orders") }, who, producers), true);
  assert.equal(appliesTo({ ...ofLink, object: queue("other") }, who, producers), false);
  assert.equal(appliesTo({ ...ofLink, link: "l2" }, who, null), true, "which links it has is not known");
});

test("a list that has been cut says of how many", () => {
  assert.equal(listedOf(12, 12), "12");
  assert.equal(listedOf(500, 1234), "500 of 1,234");
});
