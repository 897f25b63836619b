import assert from "node:assert/strict";
import { test } from "node:test";

import * as names from "../../../console/static/console/core/object_names.js";

test("a name is parsed and formatted as the broker does", () => {
  const text = "type=Queue,virtualhost=default,name=orders";
  assert.deepEqual(names.parseName(text), { type: "Queue", keys: { virtualhost: "default", name: "orders" } });
  assert.equal(names.formatName("Queue", { virtualhost: "default", name: "orders" }), text);
});

test("every name round-trips", () => {
  for (const name of ["", " padded ", 'a"b', "a,b=c", "back\\slash", '\\"', "type=Queue", "zürich 東京", "a\nb"]) {
    const text = names.formatName("Queue", { virtualhost: "v", name });
    assert.deepEqual(names.parseName(text), { type: "Queue", keys: { virtualhost: "v", name } }, text);
  }
});

test("an invalid object name is null", () => {
  for (const text of ["", "orders", "type=", "type=Queue,", 'type=Queue,name="open', "name=orders"]) {
    assert.equal(names.parseName(text), null, text);
  }
});

test("the short name is the last key, with the type if that is a number", () => {
  assert.equal(names.shortName("type=Queue,virtualhost=default,name=orders"), "orders");
  assert.equal(names.shortName("type=Producer,virtualhost=default,id=7"), "Producer 7");
  assert.equal(names.shortName("type=Broker"), "Broker");
  assert.equal(names.shortName("no name"), "no name");
});

test("the virtual host of an object is its own name, its key or none", () => {
  assert.equal(names.hostOf("type=VirtualHost,name=eu"), "eu");
  assert.equal(names.hostOf("type=Queue,virtualhost=eu,name=orders"), "eu");
  assert.equal(names.hostOf("type=Broker"), null);
  assert.equal(names.hostOf(undefined), null);
});

test("scopes of stops are described", () => {
  const cases = {
    broker: "the whole broker",
    "broker orders.>": "queues that match orders.>",
    "virtualhost test": "virtual host test",
    "virtualhost test orders.>": "queues that match orders.> in virtual host test",
    "queue default/orders": "queue orders",
    "queue eu/orders": "queue eu/orders",
    'queue "/"/orders': "queue /orders",
    'exchange "/"/news': "queues bound to exchange /news",
    'virtualhost "/"': "virtual host /",
    'virtualhost "/" orders.>': "queues that match orders.> in virtual host /",
    "exchange default/news": "queues bound to exchange news",
    "client user=ann of broker": "user ann in the whole broker",
    'client user=ann container_id="a \\"b" link=l of queue default/x of y':
      'user ann, container a "b, link l in queue x of y',
    "client container_id=of of virtualhost test orders.>":
      "container of in queues that match orders.> in virtual host test",
    "client of broker": "client of broker",
    elsewhere: "elsewhere",
    "type=Broker": "the whole broker",
    "type=Queue,virtualhost=default,name=orders": "queue orders",
  };
  for (const [scope, text] of Object.entries(cases)) assert.equal(names.scopeInWords(scope), text);
});

test("the values of a name are those of its text, quoted as there", () => {
  const text = 'type=Queue,virtualhost="a,b",name=orders';
  assert.deepEqual(names.partsOf(text), [
    ["type", "Queue"],
    ["virtualhost", '"a,b"'],
    ["name", "orders"],
  ]);
  assert.equal(names.partsOf("type=Queue,"), null);
});

test("a right-to-left name in a sentence is isolated, no other name is changed", () => {
  assert.equal(names.scopeInWords("type=Queue,virtualhost=default,name=הזמנות-2"), "queue \u2068הזמנות-2\u2069");
  assert.equal(
    names.stopInWords("virtualhost טסט الطلبات.>"),
    "queues that match \u2068الطلبات.>\u2069 in virtual host \u2068טסט\u2069",
  );
  assert.equal(names.clientInWords({ user: "דנה", link: "l" }), "user \u2068דנה\u2069, link l");
  assert.equal(names.isolated("zürich 東京 Заказы"), "zürich 東京 Заказы");
});

test("a name that a browser or proxy would change is escaped in a URL", () => {
  assert.equal(names.queueUrl("default", "a/b c"), "/queues/default/a/b%20c/");
  assert.equal(names.queueUrl("default", ".."), "/queues/default/~~~2E~2E/");
  assert.equal(names.queueUrl("a/b", "check"), "/queues/~~a~2Fb/~~check/");
  assert.equal(names.queueUrl("default", "a//b"), "/queues/default/~~a~2F~2Fb/");
  assert.equal(names.queueUrl("default", "~~x"), "/queues/default/~~~7E~7Ex/");
});

test("queues and connections have their own page, other objects are in the object browser", () => {
  assert.equal(
    names.objectUrl("type=Connection,virtualhost=v,id=1"),
    "/clients/connection/?object=type%3DConnection%2Cvirtualhost%3Dv%2Cid%3D1",
  );
  assert.equal(names.objectUrl("type=Queue,virtualhost=v,name=q"), "/queues/v/q/");
  assert.equal(names.objectUrl("type=User,name=app"), "/objects/?object=type%3DUser%2Cname%3Dapp");
});

test("links stay with the broker of the page, or lead to the one that is given", () => {
  assert.equal(names.queueUrl("v", "q", "us east"), "/queues/v/q/?broker=us%20east");
  assert.equal(names.objectUrl("type=User,name=app", "us"), "/objects/?object=type%3DUser%2Cname%3Dapp&broker=us");
  globalThis.location = { search: "?broker=eu&page=2" };
  try {
    assert.equal(names.queueUrl("v", "q"), "/queues/v/q/?broker=eu");
    assert.equal(names.whyUrl("type=Broker"), "/why/?object=type%3DBroker&broker=eu");
    assert.equal(names.queueUrl("v", "q", "us"), "/queues/v/q/?broker=us");
    assert.equal(names.queuePath("v", "q"), "/queues/v/q/");
  } finally {
    delete globalThis.location;
  }
});
