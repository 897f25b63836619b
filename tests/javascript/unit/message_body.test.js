import assert from "node:assert/strict";
import { test } from "node:test";

import * as body from "../../../console/static/console/messages/body.js";

/** @param {string | Uint8Array} value */
const base64 = (value) => Buffer.from(value).toString("base64");
const of = (value, more = {}) => body.renderings({ body: base64(value), cut: false, body_kind: "data", ...more });

test("a hexadecimal line has the offset, sixteen bytes in two groups, and printable ASCII alone", () => {
  const lines = body.hexDump(Uint8Array.from([...Buffer.from("Hello, world 123"), 0, 0xff, 0x0a])).split("\n");
  assert.equal(lines[0], "00000000  48 65 6c 6c 6f 2c 20 77  6f 72 6c 64 20 31 32 33  |Hello, world 123|");
  assert.equal(lines[1], `00000010  00 ff 0a${" ".repeat(15)}  ${" ".repeat(23)}  |...|`);
  assert.ok(body.hexDump(Uint8Array.of(1), 0x1f0).startsWith("000001f0  01"));
  assert.equal(body.hexDump(new Uint8Array(0)), "");
});

test("the hexadecimal view has every byte, in order", () => {
  const bytes = Uint8Array.from({ length: 256 }, (_, at) => at);
  const columns = body
    .hexDump(bytes)
    .split("\n")
    .map((line) => line.slice(10, 58));
  assert.deepEqual(
    columns
      .join(" ")
      .trim()
      .split(/\s+/)
      .map((two) => Number.parseInt(two, 16)),
    [...bytes],
  );
});

test("indented JSON keeps big numbers, the order of keys, duplicates and brackets in texts", () => {
  const text = '{"b":12345678901234567890,"a":[1.10,{}, []],"b":"x{,}\\"]:","e":1e400}';
  assert.equal(
    body.prettyJson(text),
    '{\n  "b": 12345678901234567890,\n  "a": [\n    1.10,\n    {},\n    []\n  ],\n  "b": "x{,}\\"]:",\n  "e": 1e400\n}',
  );
  for (const scalar of ["12", '"a"', "null", "true", "[]", "{}"]) assert.equal(body.prettyJson(` ${scalar} `), scalar);
});

test("indented JSON means the same as before", () => {
  const random = (depth) => {
    const kind = Math.floor(Math.random() * (depth > 0 ? 6 : 4));
    if (kind === 4) return Array.from({ length: Math.floor(Math.random() * 4) }, () => random(depth - 1));
    if (kind === 5) return Object.fromEntries([...'ab"{'].map((name) => [name, random(depth - 1)]));
    return [null, true, Math.random() * 1e6, '\\"{[:,]} \u2028\n'][kind];
  };
  for (let n = 0; n < 300; n += 1) {
    const value = random(4);
    assert.deepEqual(JSON.parse(body.prettyJson(JSON.stringify(value))), value);
  }
});

test("what is not JSON is not shown as JSON", () => {
  for (const text of ["", "{", "{'a':1}", "[1,]", "NaN", "a: 1"]) assert.equal(body.prettyJson(text), null, text);
});

test("the first view: JSON for objects and lists, text for UTF-8, else hexadecimal", () => {
  assert.equal(of('{"a":1}').first, "json");
  assert.equal(of("12").first, "text"); // a number of a client is text first
  assert.equal(of("12", { body_kind: "value" }).first, "json");
  assert.equal(of("Grüße").first, "text");
  assert.equal(of(Uint8Array.of(0xc3, 0x28)).first, "hex");
  assert.deepEqual(Object.keys(of(Uint8Array.of(0xc3, 0x28)).views), ["hex"]);
  assert.equal(of(Uint8Array.of(0, 0, 0, 1, 0, 65)).first, "hex"); // valid UTF-8, and binary
  assert.equal(of("").first, "text");
});

test("JSON that is nested deep or long is not indented, and a sentence says why", () => {
  const nested = (depth) => "[".repeat(depth) + "]".repeat(depth);
  const levels = body.DEEPEST;
  assert.equal(of(nested(levels)).first, "json");
  assert.equal(of(nested(levels)).remark, "");
  for (const text of [nested(levels + 1), nested(14_000)]) {
    const shown = of(text);
    assert.deepEqual([shown.first, Object.keys(shown.views)], ["text", ["text", "hex"]]);
    assert.equal(shown.remark, "The body is not shown as JSON: it is nested deeper than 100 levels.");
  }
  // Shallower, and many lines with a long indentation each.
  const wide = `${"[".repeat(90)}${"1,".repeat(20_000)}1${"]".repeat(90)}`;
  assert.deepEqual(Object.keys(of(wide).views), ["text", "hex"]);
  assert.match(of(wide).remark, /longer than 1 MiB/);
  assert.equal(of("[".repeat(14_000)).remark, ""); // not JSON
});

test("a body that is cut within a character is still text", () => {
  const whole = Buffer.from("aé");
  const part = whole.subarray(0, 2);
  assert.equal(of(part).views.text, undefined);
  assert.equal(of(part, { cut: true }).views.text, "a");
  assert.equal(of('{"a": 1', { cut: true }).first, "text");
});

test("a byte order mark is not hidden", () => {
  assert.equal(of(Uint8Array.of(0xef, 0xbb, 0xbf, 65)).views.text, "\ufeffA");
});
