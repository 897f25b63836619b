// What the alerts page says about the URL of the console.

import assert from "node:assert/strict";
import { test } from "node:test";

import { isLoopback, urlNotes } from "../../../console/static/console/widgets/console_url.js";

const NONE = { url: "", entered: "", source: /** @type {const} */ ("none"), changed: null, changed_by: "" };
const ENTERED = {
  url: "https://headgate.example.com",
  entered: "https://headgate.example.com",
  source: /** @type {const} */ ("entered"),
  changed: "2026-11-27T01:00:00Z",
  changed_by: "adele",
};

test("addresses of this machine alone are recognized, and names that only look like them are not", () => {
  for (const url of ["http://localhost:8000", "http://127.0.0.1", "http://127.1.2.3:1", "http://[::1]:8000"])
    assert.ok(isLoopback(url), url);
  for (const url of [
    "http://10.0.0.1",
    "https://localhost.example.com",
    "https://127.0.0.1.example.com",
    "",
    "nonsense",
  ])
    assert.ok(!isLoopback(url), url);
});

test("the origin of the address is said, and what overrides it", () => {
  assert.deepEqual(urlNotes(NONE, ""), { origin: "", warning: "" });
  assert.deepEqual(urlNotes(ENTERED, "12:00"), { origin: "Entered by adele, 12:00.", warning: "" });
  const set = { ...ENTERED, source: /** @type {const} */ ("environment"), url: "http://127.0.0.1:8000" };
  const notes = urlNotes(set, "12:00");
  assert.match(notes.origin, /Set by HEADGATE_URL\. It overrides https:\/\/headgate\.example\.com/);
  assert.match(notes.warning, /this machine/);
  assert.equal(urlNotes({ ...set, entered: "" }, "").origin, "Set by HEADGATE_URL.");
});
