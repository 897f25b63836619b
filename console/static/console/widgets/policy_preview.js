// The impact preview of policy changes: counts, then the queues with the largest impact.

import { fill, h, icon } from "../core/elements.js";
import { amount, duration, exact, plural } from "../core/format.js";
import { queueUrl, shortName } from "../core/object_names.js";
import { declaredField, fieldText, labelBeside, labelOf } from "./policy_fields.js";
import { stateElement } from "./states.js";

/** Queues in the address of a bulk edit. */
const CLEARED = 40;

/**
 * The address of a bulk edit, which shows its preview, that clears the fields that queues set themselves.
 *
 * @param {any[][]} own pairs of a queue and names of fields
 */
function clearUrl(own) {
  const address = new URLSearchParams(own.map(([queue]) => ["queue", queue.object]));
  for (const name of new Set(own.flatMap(([, set]) => set))) address.append("clear", name);
  return `/policies/bulk/?${address}`;
}

/**
 * Show the response of a preview in `box`.
 *
 * @param {HTMLElement} box
 * @param {any} preview
 */
export function showPreview(box, preview) {
  if (preview.unavailable) {
    fill(box, h("p", { class: "muted" }, preview.unavailable));
    return;
  }
  fill(box, refusals(preview), counts(preview), preview.largest.length ? queues(preview) : null);
}

/**
 * @param {any} kind
 * @param {any} shape
 * @param {...any} content
 */
function line(kind, shape, ...content) {
  return h("li", { class: `effect ${kind}` }, icon(shape), h("span", {}, ...content));
}

/** @param {any} preview */
function refusals(preview) {
  if (!preview.refused) return null;
  return h(
    "div",
    { class: "notice error" },
    h(
      "p",
      {},
      h("strong", {}, plural(preview.refused, "queue refuses", "queues refuse")),
      " the change and would remain unchanged:",
    ),
    h(
      "ul",
      {},
      preview.refusals.map((/** @type {any} */ each) =>
        h("li", {}, h("strong", {}, shortName(each.object)), ` ${each.detail}`),
      ),
    ),
  );
}

/** @param {any} preview */
function counts(preview) {
  if (!preview.changed) {
    return h(
      "p",
      {},
      preview.queues
        ? `Matches ${plural(preview.queues, "queue")}; no effective value changes.`
        : "Matches no queue at present. It applies to future queues.",
    );
  }
  const lines = [
    line(
      "",
      "info",
      h("strong", {}, plural(preview.changed, "queue")),
      ` affected (of ${exact(preview.queues)} matching).`,
    ),
  ];
  if (preview.overfull)
    lines.push(
      line(
        "over",
        "overfull",
        h("strong", {}, plural(preview.overfull, "queue becomes", "queues become")),
        " overfull.",
      ),
    );
  if (preview.blocked)
    lines.push(
      line("over", "blocked", h("strong", {}, plural(preview.blocked, "producer is", "producers are")), " blocked."),
    );
  if (preview.underfull)
    lines.push(
      line(
        "fine",
        "normal",
        h("strong", {}, plural(preview.underfull, "queue becomes", "queues become")),
        " underfull.",
      ),
    );
  if (preview.unblocked)
    lines.push(
      line(
        "fine",
        "running",
        h("strong", {}, plural(preview.unblocked, "producer is", "producers are")),
        " unblocked.",
      ),
    );
  if (preview.dropped)
    lines.push(
      line(
        "danger",
        "overfull",
        h("strong", {}, `About ${plural(preview.dropped, "message is", "messages are")} dropped`),
        " by ring queues. This cannot be undone.",
      ),
    );
  if (preview.blocked === null || preview.unblocked === null)
    lines.push(line("", "info", "This broker does not report how many producers would be blocked or unblocked."));
  else if (lines.length === 1) lines.push(line("", "normal", "No producers blocked or unblocked."));
  return h("ul", { class: "effects" }, lines);
}

/** @param {any} preview */
function queues(preview) {
  const rows = preview.largest.map((/** @type {any} */ queue) =>
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
          [
            queue.producers === null ? "" : plural(queue.producers, "producer"),
            queue.depth_messages === null ? "depth not known" : plural(queue.depth_messages, "message"),
          ]
            .filter(Boolean)
            .join(", "),
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
  const rest = preview.changed - preview.largest.length;
  return h(
    "div",
    {},
    h(
      "div",
      { class: "table-box", tabindex: "0", role: "region", "aria-label": "Affected queues" },
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
            h("th", { scope: "col", class: "num" }, "Free capacity after change"),
          ),
        ),
        h("tbody", {}, rows),
      ),
    ),
    rest > 0 ? h("p", { class: "rest muted" }, `${plural(rest, "more queue")} with less impact`) : null,
  );
}

/** @param {any} options */
function transition({ before, after, dropped }) {
  const effects = [];
  const counted = after.blocked_producers !== null && before.blocked_producers !== null;
  if (counted && after.blocked_producers > before.blocked_producers)
    effects.push(`blocks ${plural(after.blocked_producers - before.blocked_producers, "producer")}`);
  if (counted && after.blocked_producers < before.blocked_producers)
    effects.push(`unblocks ${plural(before.blocked_producers - after.blocked_producers, "producer")}`);
  if (dropped) effects.push(`drops about ${plural(dropped, "message")}`);
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
    effects.length ? h("small", { class: "muted" }, effects.join(", ")) : null,
  );
}

/** @param {any} options */
function headroom({ headroom_messages: messages, headroom_bytes: bytes }) {
  const parts = [];
  if (messages !== null) parts.push(plural(messages, "message"));
  if (bytes !== null) parts.push(amount(bytes, "bytes"));
  return parts.length ? parts.join(", ") : "no limit";
}

/** @param {any} options */
function fullIn({ before, after }) {
  if (after.full_in_ms === null) return after.state?.startsWith("OVERFULL") ? "full now" : "stable";
  const was = before.full_in_ms === null ? "" : ` (was ${duration(before.full_in_ms)})`;
  return `full in ${duration(after.full_in_ms)}${was}`;
}

/**
 * Explain a preview without effect: list the matching queues that override the fields themselves. `found`: queues with
 * their overrides; `names`: the fields.
 *
 * @param {HTMLElement} box
 * @param {any[]} found
 * @param {any[]} names
 */
export function showOverrides(box, found, names) {
  const own = found
    .map((/** @type {any} */ queue) => [
      queue,
      names.filter((/** @type {any} */ name) => (queue.set?.[name] ?? null) !== null),
    ])
    .filter((/** @type {any} */ [, set]) => set.length);
  if (!own.length) return;
  const shown = own
    .slice(0, 10)
    .map((/** @type {any} */ [{ name }, set]) =>
      h(
        "li",
        {},
        h("strong", {}, name),
        ` sets ${set.map((/** @type {any} */ each) => labelOf(declaredField(each))).join("; ")}`,
      ),
    );
  box.append(
    h(
      "div",
      { class: "overrides" },
      h("p", {}, "Overridden by these queues:"),
      h(
        "ul",
        { class: "plain-list" },
        shown,
        own.length > 10 ? h("li", { class: "muted" }, `${exact(own.length - 10)} more`) : null,
      ),
      h(
        "p",
        { class: "muted" },
        "Overrides of a queue take precedence over patterns. ",
        own.length <= CLEARED
          ? h("a", { class: "button", href: clearUrl(own) }, `Clear them on ${plural(own.length, "queue")}…`)
          : h("a", { href: "/policies/bulk/" }, "Edit the overrides"),
      ),
    ),
  );
}
