// The body of a message as text, JSON and hexadecimal. Pure. Numbers of JSON stay as they are written: parsing them
// would round large ones.

/** @typedef {"json" | "text" | "hex"} View */

const ROW = 16; // bytes a line of the hexadecimal view

/**
 * @param {string} base64
 * @returns {Uint8Array}
 */
export function bytesOf(base64) {
  const binary = atob(base64);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at += 1) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/**
 * Decode UTF-8. Returns null if it is not valid. `cut`: the bytes may end within a character, which is left out.
 *
 * @param {Uint8Array} bytes
 * @param {boolean} cut
 */
export function textOf(bytes, cut) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes, { stream: cut });
  } catch {
    return null;
  }
}

/** @param {number} byte */
const hex = (byte) => byte.toString(16).padStart(2, "0");

/**
 * "00000010  48 65 6c 6c 6f 0a …  |Hello.|", a line for each 16 bytes.
 *
 * @param {Uint8Array} bytes
 * @param {number} [offset] of the first byte in the whole body
 */
export function hexDump(bytes, offset = 0) {
  const lines = [];
  for (let at = 0; at < bytes.length; at += ROW) {
    const row = [...bytes.subarray(at, at + ROW)];
    const columns = row.map(hex);
    const half = ROW / 2;
    const left = columns
      .slice(0, half)
      .join(" ")
      .padEnd(half * 3 - 1);
    const right = columns
      .slice(half)
      .join(" ")
      .padEnd(half * 3 - 1);
    const text = row.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${(offset + at).toString(16).padStart(8, "0")}  ${left}  ${right}  |${text}|`);
  }
  return lines.join("\n");
}

const TOKEN = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g;

/** Nesting and length of JSON that is indented: the length of the indentation grows with the square of the depth. */
export const DEEPEST = 100;
export const LONGEST = 1024 * 1024; // characters

/** Why there is no indented JSON of a text that is JSON. */
export class NotIndented extends Error {}

/**
 * Indent JSON. Returns null if the text is not JSON. Keys, their order, duplicates and numbers stay as written. Throws
 * NotIndented if it is nested too deep, or too long.
 *
 * @param {string} text
 */
export function prettyJson(text) {
  try {
    JSON.parse(text);
  } catch (error) {
    if (error instanceof RangeError) throw new NotIndented("The body is not shown as JSON: it is nested too deep.");
    return null;
  }
  let out = "";
  let depth = 0;
  let opened = false; // the token before opened an object or list
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(TOKEN)) {
    if (out.length > LONGEST) throw new NotIndented("The body is not shown as JSON: indented it is longer than 1 MiB.");
    const closes = token === "}" || token === "]";
    if (closes) {
      depth -= 1;
      out += opened ? token : line() + token;
      opened = false;
      continue;
    }
    if (opened) out += line();
    opened = token === "{" || token === "[";
    if (opened) depth += 1;
    if (depth > DEEPEST)
      throw new NotIndented(`The body is not shown as JSON: it is nested deeper than ${DEEPEST} levels.`);
    out += token === "," ? token + line() : token === ":" ? ": " : token;
  }
  return out;
}

/** Share of control characters from which text is taken for binary data. */
const BINARY = 0.05;

/** @param {string} text */
function looksBinary(text) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
  const controls = text.match(/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/g)?.length ?? 0;
  return controls > text.length * BINARY;
}

/**
 * @param {string | null} text
 * @returns {{json: string | null, remark: string}}
 */
function indented(text) {
  try {
    return { json: text === null ? null : prettyJson(text), remark: "" };
  } catch (error) {
    if (error instanceof NotIndented) return { json: null, remark: error.message };
    throw error;
  }
}

/**
 * The views that a body has, each with its text; `first`: the one to show first. A cut body has no JSON view unless the
 * part that is there is JSON. `remark`: why a body that is JSON has no such view; "" otherwise.
 *
 * @param {{body: string, cut: boolean, body_kind: string}} message
 * @returns {{first: View, views: Partial<Record<View, string>>, remark: string}}
 */
export function renderings(message) {
  const bytes = bytesOf(message.body);
  const text = textOf(bytes, message.cut);
  const views = /** @type {Partial<Record<View, string>>} */ ({});
  const { json, remark } = indented(text);
  if (json !== null) views.json = json;
  if (text !== null) views.text = text;
  views.hex = hexDump(bytes);
  const structured = json !== null && /^\s*[[{]/.test(/** @type {string} */ (text));
  const declared = message.body_kind === "value" || message.body_kind === "sequence";
  if (structured || (declared && json !== null)) return { first: "json", views, remark };
  return { first: text === null || looksBinary(text) ? "hex" : "text", views, remark };
}
