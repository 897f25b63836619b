import assert from "node:assert/strict";
import { test } from "node:test";

import { cut, escapeOf, safeLine, safeParts } from "../../../console/static/console/messages/safe_text.js";

const joined = (text, lines) =>
  safeParts(text, lines)
    .map((part) => part.text)
    .join("");

test("characters that reorder, hide or control text are escaped", () => {
  const cases = {
    "gpj.\u202eexe": "gpj.\\u202Eexe",
    "\u2066a\u2069": "\\u2066a\\u2069",
    "a\u200bb\ufeffc\u00ad": "a\\u200Bb\\uFEFFc\\xAD",
    "\u0000\u001b[31m\u0085": "\\x00\\x1B[31m\\x85",
    "a\u{e0041}": "a\\u{E0041}",
    "x\ud800y": "x\\uD800y",
    "\u2028\u2029": "\\u2028\\u2029",
  };
  for (const [text, shown] of Object.entries(cases)) assert.equal(joined(text), shown);
});

test("ordinary text of any script stays as it is", () => {
  for (const text of ["Grüße", "שלום", "日本語", "👍🏽", "a\\u202E", "<b>&amp;"]) {
    assert.deepEqual(safeParts(text), [{ text }]);
  }
});

test("line breaks and tabs stay in bodies only, a carriage return without a line feed nowhere", () => {
  assert.equal(joined("a\tb\r\nc", true), "a\tb\nc");
  assert.equal(joined("a\tb\nc"), "a\\x09b\\x0Ac");
  assert.equal(joined("good\rbad", true), "good\\x0Dbad");
});

test("each code point below U+2100 is shown or escaped, and none lost", () => {
  for (let code = 0; code < 0x2100; code += 1) {
    const character = String.fromCodePoint(code);
    const [part] = safeParts(character);
    assert.equal(part.text, part.escape ? escapeOf(character) : character);
    assert.equal(Boolean(part.escape), /[\p{Cc}\p{Cf}\u115f\u1160\u2028\u2029]/u.test(character), escapeOf(character));
  }
});

test("a cut never splits a character", () => {
  assert.deepEqual(cut("abc", 3), ["abc", 0]);
  assert.deepEqual(cut("abcd", 3), ["abc", 1]);
  assert.deepEqual(cut("ab👍c", 3), ["ab", 3]);
  assert.equal(safeLine("x".repeat(300), 10), `${"x".repeat(10)}…`);
  assert.equal(safeLine(12), "12");
});
