// What changes of policies would do, for people: counts, then the queues that most happens to.

import { fill, h, icon } from "../core/elements.js";
import { amount, count, duration, exact, plural } from "../core/format.js";
import { queueUrl, shortName } from "../core/object_names.js";
import { declaredField, fieldText, labelBeside, labelOf } from "./policy_fields.js";
import { stateElement } from "./states.js";

/**
 * Fill `box` with the answer of a preview.
 *
 * @param {HTMLElement} box
 * @param {any} told
 */
export function showPreview(box, told) {
  fill(box, refusals(told), counts(told), told.largest.length ? queues(told) : null);
}

/**
 * @param {any} kind
 * @param {any} shape
 * @param {...any} content
 */
function line(kind, shape, ...content) {
  return h("li", { class: `effect ${kind}` }, icon(shape), h("span", {}, ...content));
}

/** @param {any} told */
function refusals(told) {
  if (!told.refused) return null;
  return h(
    "div",
    { class: "notice error" },
    h(
      "p",
      {},
      h("strong", {}, plural(told.refused, "queue refuses", "queues refuse")),
      " the change and would stay as they are:",
    ),
    h(
      "ul",
      {},
      told.refusals.map((/** @type {any} */ each) =>
        h("li", {}, h("strong", {}, shortName(each.object)), ` ${each.detail}`),
      ),
    ),
  );
}

/** @param {any} told */
function counts(told) {
  if (!told.changed) {
    return h(
      "p",
      {},
      told.queues
        ? `Matches ${plural(told.queues, "queue")}; no effective value changes.`
        : "Matches no queue now: it applies to those to come.",
    );
  }
  const lines = [
    line(
      "",
      "info",
      h("strong", {}, exact(told.changed)),
      ` of ${plural(told.queues, "queue")} ${told.changed === 1 ? "gets" : "get"} other values.`,
    ),
  ];
  if (told.overfull)
    lines.push(
      line(
        "over",
        "overfull",
        h("strong", {}, plural(told.overfull, "queue becomes", "queues become")),
        " overfull at once.",
      ),
    );
  if (told.held)
    lines.push(line("over", "blocked", h("strong", {}, plural(told.held, "producer is", "producers are")), " held."));
  if (told.released)
    lines.push(
      line("fine", "normal", h("strong", {}, plural(told.released, "queue is", "queues are")), " overfull no longer."),
    );
  if (told.freed)
    lines.push(line("fine", "running", h("strong", {}, plural(told.freed, "producer is", "producers are")), " freed."));
  if (told.dropped)
    lines.push(
      line(
        "danger",
        "overfull",
        h("strong", {}, `About ${plural(told.dropped, "message is", "messages are")} dropped`),
        " by ring queues. That cannot be undone.",
      ),
    );
  if (lines.length === 1) lines.push(line("", "normal", "No producers blocked or released."));
  return h("ul", { class: "effects" }, lines);
}

/** @param {any} told */
function queues(told) {
  const rows = told.largest.map((/** @type {any} */ queue) =>
    h(
      "tr",
      { "data-state": queue.after.state },
      h(
        "th",
        { scope: "row" },
        h("a", { href: queueUrl(queue.virtualhost, queue.name) }, queue.name),
        h(
          "small",
          { class: "muted" },
          `${plural(queue.producers, "producer")}, ${count(queue.depth_messages)} messages`,
        ),
      ),
      h(
        "td",
        { class: "wrap" },
        Object.entries(queue.changes).map(([name, change]) =>
          h(
            "div",
            { class: "change" },
            h("span", { class: "muted" }, labelBeside(name, change.before, change.after)),
            " ",
            h("del", {}, fieldText(name, change.before)),
            h("span", { "aria-hidden": "true" }, " → "),
            h("span", { class: "sr" }, " becomes "),
            h("ins", {}, fieldText(name, change.after)),
          ),
        ),
      ),
      h("td", {}, transition(queue)),
      h("td", { class: "num" }, headroom(queue.after), h("small", { class: "muted" }, fullIn(queue))),
    ),
  );
  const rest = told.changed - told.largest.length;
  return h(
    "div",
    {},
    h(
      "div",
      { class: "table-box", tabindex: "0", role: "region", "aria-label": "Queues that change" },
      h(
        "table",
        { class: "grid preview-table" },
        h(
          "thead",
          {},
          h(
            "tr",
            {},
            h("th", { scope: "col" }, "Queue"),
            h("th", { scope: "col" }, "Changes"),
            h("th", { scope: "col" }, "State"),
            h("th", { scope: "col", class: "num" }, "Room after"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    rest > 0 ? h("p", { class: "rest muted" }, `and ${plural(rest, "more queue")}, to which less happens`) : null,
  );
}

/** @param {any} options */
function transition({ before, after, dropped }) {
  const says = [];
  if (after.blocked_producers > before.blocked_producers)
    says.push(`holds ${plural(after.blocked_producers - before.blocked_producers, "producer")}`);
  if (after.blocked_producers < before.blocked_producers)
    says.push(`frees ${plural(before.blocked_producers - after.blocked_producers, "producer")}`);
  if (dropped) says.push(`drops about ${plural(dropped, "message")}`);
  return h(
    "div",
    {},
    before.state === after.state
      ? null
      : [
          stateElement(before.state),
          h("span", { "aria-hidden": "true" }, " → "),
          h("span", { class: "sr" }, " becomes "),
        ],
    stateElement(after.state),
    says.length ? h("small", { class: "muted" }, says.join(", ")) : null,
  );
}

/** @param {any} options */
function headroom({ headroom_messages: messages, headroom_bytes: bytes }) {
  const parts = [];
  if (messages !== null) parts.push(`${count(messages)} messages`);
  if (bytes !== null) parts.push(amount(bytes, "bytes"));
  return parts.length ? parts.join(", ") : "no limit";
}

/** @param {any} options */
function fullIn({ before, after }) {
  if (after.full_in_ms === null) return after.state.startsWith("OVERFULL") ? "full now" : "not filling up";
  const was = before.full_in_ms === null ? "" : ` (was ${duration(before.full_in_ms)})`;
  return `full in ${duration(after.full_in_ms)}${was}`;
}

/**
 * Beside a preview by which nothing changes: which of the queues that match set these fields themselves. `found`:
 * queues with what each sets; `names`: the fields.
 *
 * @param {HTMLElement} box
 * @param {any[]} found
 * @param {any[]} names
 */
export function showOverrides(box, found, names) {
  const own = found
    .map((/** @type {any} */ queue) => [
      queue.name,
      names.filter((/** @type {any} */ name) => (queue.set?.[name] ?? null) !== null),
    ])
    .filter((/** @type {any} */ [, set]) => set.length);
  if (!own.length) return;
  const shown = own
    .slice(0, 10)
    .map((/** @type {any} */ [name, set]) =>
      h(
        "li",
        {},
        h("strong", {}, name),
        ` sets ${set.map((/** @type {any} */ each) => labelOf(declaredField(each))).join(", ")} itself`,
      ),
    );
  box.append(
    h(
      "div",
      { class: "overrides" },
      h("p", {}, "Overridden by the queues themselves:"),
      h(
        "ul",
        { class: "plain-list" },
        shown,
        own.length > 10 ? h("li", { class: "muted" }, `and ${exact(own.length - 10)} more`) : null,
      ),
      h(
        "p",
        { class: "muted" },
        "What a queue sets itself comes before any pattern. ",
        h("a", { href: "/policies/bulk/" }, "Change the queues' own values"),
      ),
    ),
  );
}
