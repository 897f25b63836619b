import assert from "node:assert/strict";
import { test } from "node:test";

const settings = {
  brokers: [{ slug: "local" }, { slug: "rabbit" }, { slug: "new" }],
  policyFields: {
    local: ["capacity_messages", "flow_stop_messages", "flow_resume_messages"],
    rabbit: ["capacity_messages", "capacity_bytes"],
  },
};
globalThis.document = /** @type {any} */ ({ getElementById: () => ({ textContent: JSON.stringify(settings) }) });
const { policyUrl } = await import("../../../console/static/console/history/data.js");

const now = { capacity_messages: 1000, resume_messages: 800, capacity_bytes: 0, resume_bytes: 0 };
const more = { ...now, capacity_messages: 1500, resume_messages: 1200 };
const entered = (/** @type {string} */ broker, limits = more) =>
  new URL(policyUrl({ broker, virtualhost: "default", queue: "orders" }, limits, now), "http://h").searchParams.getAll(
    "set",
  );

test("only fields of the broker of the queue are entered", () => {
  assert.deepEqual(entered("local"), [
    "capacity_messages:1500",
    "flow_stop_messages:100%",
    "flow_resume_messages:1200",
  ]);
  assert.deepEqual(entered("rabbit"), ["capacity_messages:1500"]);
});

test("a resume level at the capacity is entered as such, and one of 0 as 0", () => {
  const resume = (/** @type {number} */ level) => entered("local", { ...more, resume_messages: level }).at(-1);
  assert.equal(resume(1500), "flow_resume_messages:100%"); // without a value another one could be inherited
  assert.equal(resume(0), "flow_resume_messages:0");
});

test("all fields are entered while those of the broker are not known, and it checks them", () => {
  assert.equal(entered("new").length, 3);
});

test("there is no policy at a broker that this console does not have", () => {
  assert.equal(policyUrl({ broker: "imported", virtualhost: "default", queue: "orders" }, more, now), "");
});
