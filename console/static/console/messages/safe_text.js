// Text of messages, which anyone may have written: control, invisible and bidirectional characters become visible
// escapes, and huge values are cut. Pure.

/** Controls, format characters (bidirectional, zero-width, tags), lone surrogates, private use, separators, fillers. */
const UNSAFE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u115f\u1160\u3164\uffa0]/gu;
const UNSAFE_IN_LINES = new RegExp(`(?![\t\n])${UNSAFE.source}`, "gu");

/** @typedef {{text: string, escape?: true}} Part A run of characters, or the escape of one. */

/**
 * The escape of a character: "\u202E", "\x00", "\u{E0041}".
 *
 * @param {string} character
 */
export function escapeOf(character) {
  const code = /** @type {number} */ (character.codePointAt(0));
  const hex = code.toString(16).toUpperCase();
  if (code < 0x100) return `\\x${hex.padStart(2, "0")}`;
  return code < 0x10000 ? `\\u${hex.padStart(4, "0")}` : `\\u{${hex}}`;
}

/**
 * Split text into runs that can be shown and escapes. `lines`: tabs and line breaks stay; else they are escaped, too.
 *
 * @param {string} text
 * @param {boolean} [lines]
 * @returns {Part[]}
 */
export function safeParts(text, lines = false) {
  const parts = /** @type {Part[]} */ ([]);
  const shown = lines ? text.replaceAll("\r\n", "\n") : text;
  let at = 0;
  for (const found of shown.matchAll(lines ? UNSAFE_IN_LINES : UNSAFE)) {
    if (found.index > at) parts.push({ text: shown.slice(at, found.index) });
    parts.push({ text: escapeOf(found[0]), escape: true });
    at = found.index + found[0].length;
  }
  if (at < shown.length) parts.push({ text: shown.slice(at) });
  return parts;
}

/**
 * Cut text to `most` characters without splitting a surrogate pair: [text, number of characters left out].
 *
 * @param {string} text
 * @param {number} most
 * @returns {[string, number]}
 */
export function cut(text, most) {
  if (text.length <= most) return [text, 0];
  const pair = /[\uD800-\uDBFF]/.test(text[most - 1]) && /[\uDC00-\uDFFF]/.test(text[most]);
  const end = pair ? most - 1 : most;
  return [text.slice(0, end), text.length - end];
}

/**
 * Text in one line for attributes such as titles and labels, where no element can mark an escape.
 *
 * @param {any} value
 * @param {number} [most]
 */
export function safeLine(value, most = 200) {
  const [text, left] = cut(String(value), most);
  return safeParts(text)
    .map((part) => part.text)
    .join("")
    .concat(left ? "…" : "");
}
