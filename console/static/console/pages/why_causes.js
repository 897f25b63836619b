// A card for each cause: the limit with its depth and where it comes from, a stop, or what the broker reports.

import { away } from "../core/away.js";
import { fill, fillOnce, h, icon, reconcile, setAttribute, setText } from "../core/elements.js";
import { bytes, duration, exact, exactAmount, percent, words } from "../core/format.js";
import { isolated, messagesUrl, objectUrl, shortName, stopInWords } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { setSince, sinceElement } from "../core/times.js";
import { labelFor } from "../widgets/policy_fields.js";
import { endOf } from "../widgets/stop_lines.js";
import { amount, known, originWords } from "./why_words.js";

/** @param {any} cause */
export const causeKey = (cause) => `${cause.kind} ${cause.scope ?? cause.object}`;

/** @param {any} cause */
export function causeCard(cause) {
  return h(
    "article",
    { class: "card cause", data: { kind: cause.kind } },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, icon(cause.kind === "stop" ? "stopped" : "overfull"), h("span", {})),
      h("span", { class: "muted cause-since" }, "for ", sinceElement()),
    ),
    h("div", { class: "limit-lines" }),
    h("dl", { class: "facts" }),
  );
}

/**
 * @param {any} node
 * @param {any} cause
 */
export function updateCause(node, cause) {
  const [head, lines, facts] = node.children;
  setText(
    head.querySelector("h2 span"),
    cause.kind === "stop" ? `Producers of ${stopInWords(cause.scope)} are stopped` : cause.title,
  );
  setSince(head.querySelector("time"), cause.since);
  head.querySelector(".cause-since").hidden = !cause.since;
  if (cause.kind === "queue") {
    reconcile(lines, cause.limits, (limit) => limit.unit, limitLine, updateLimit);
    showFacts(facts, [
      [
        "To drain",
        Object.entries(cause.to_drain)
          .map(([unit, n]) => amount(n, unit))
          .join(" and ") || "nothing",
        Object.entries(cause.to_drain)
          .map(([unit, n]) => exactAmount(n, unit))
          .join(", "),
      ],
      [
        "Resumes",
        away()
          ? "not known"
          : cause.resume_ms === null
            ? `unknown: ${cause.because}`
            : cause.resume_ms < 1000
              ? "at once"
              : `in about ${duration(cause.resume_ms)}`,
      ],
      cause.blocks && !away() ? ["To release", waysOut(cause.object), null, cause.object] : null,
      cause.blocks ? null : ["Mechanism", `${cause.mechanism}: blocks no producers`],
    ]);
    return;
  }
  if (cause.kind === "stop") {
    showFacts(facts, [
      ["Reason", cause.reason || "no reason given"],
      ["Stopped by", cause.actor || "an unknown user"],
      cause.effect && cause.effect !== "hold" ? ["Effect", `${cause.effect}: ${cause.remark}`] : null,
      [
        "Ends",
        cause.until || cause.below ? h("span", {}, endOf(cause)) : "when an operator starts the producers",
        null,
        `${cause.until} ${cause.below}`,
      ],
    ]);
    return;
  }
  if (cause.kind === "reported" || !known(cause.used)) {
    showFacts(facts, [["Resumes", away() ? "not known" : cause.because]]);
    return;
  }
  showFacts(facts, [
    ["Used", bytes(cause.used), exactAmount(cause.used, "bytes")],
    [
      "Limit",
      cause.limit
        ? h(
            "a",
            { href: objectUrl(cause.object) },
            `${bytes(cause.limit)} (${words(cause.field)} of ${isolated(shortName(cause.object))})`,
          )
        : "free disk space",
      exactAmount(cause.limit, "bytes"),
      `${cause.limit}${cause.object}`,
    ],
    ["Resumes", away() ? "not known" : cause.because],
  ]);
}

/**
 * What releases the producers of an overfull queue, each with the page where it is done.
 *
 * @param {string} queue
 */
const waysOut = (queue) =>
  h(
    "span",
    {},
    "consumers that drain it; ",
    settings.purges ? [h("a", { href: messagesUrl(queue) }, "purging or moving its messages"), "; "] : null,
    h("a", { href: `${objectUrl(queue)}#limits` }, "a higher capacity"),
    ", until it is full again",
  );

/** @param {any} limit */
function limitLine(limit) {
  return h(
    "div",
    { class: "limit-line", data: { unit: limit.unit } },
    h("p", { class: "limit-now" }),
    h("div", { class: "bar", "aria-hidden": "true" }, h("div", { class: "bar-fill" }), h("span", { class: "mark" })),
    h("p", { class: "small" }),
  );
}

/**
 * @param {any} node
 * @param {any} limit
 */
function updateLimit(node, limit) {
  const [now, bar, origins] = node.children;
  const top = Math.max(limit.depth ?? 0, limit.stop);
  fillOnce(now, JSON.stringify(limit), () => [
    h("strong", {}, known(limit.depth) ? amount(limit.depth, limit.unit) : "not known"),
    ` of ${amount(limit.stop, limit.unit)}${known(limit.depth) ? ` (${percent(limit.depth, limit.stop)})` : ""}. `,
    limit.effective
      ? `Resumes ${limit.resumes_below ? "below" : "at"} ${amount(limit.resume, limit.unit)}.`
      : `Below its resume level of ${amount(limit.resume, limit.unit)}: not the cause.`,
  ]);
  setAttribute(
    now,
    "title",
    `${exactAmount(limit.depth, limit.unit)}; stop level ${exact(limit.stop)}, resume level ${exact(limit.resume)}`,
  );
  bar.firstChild.style.inlineSize = `${(100 * (limit.depth ?? 0)) / top}%`;
  bar.firstChild.dataset.level = limit.effective ? "over" : "";
  bar.lastChild.style.insetInlineStart = `${(100 * limit.resume) / top}%`;
  fillOnce(origins, JSON.stringify(limit.fields), () =>
    limit.fields
      .filter((/** @type {any} */ field) => field.value !== null && field.value !== 0)
      .flatMap((/** @type {any} */ field, /** @type {any} */ index) => [
        index ? "; " : "",
        `${labelFor(field.field)} ${typeof field.value === "number" ? amount(field.value, limit.unit) : field.value} `,
        field.origin ? "from " : "(origin not known)",
        field.origin_object
          ? h("a", { href: objectUrl(field.origin_object) }, originWords(field.origin))
          : field.origin
            ? originWords(field.origin)
            : "",
      ]),
  );
}

/**
 * Show [name, text or nodes, title] rows in a <dl>; unchanged cells are not touched.
 *
 * @param {HTMLElement} list
 * @param {any} rows
 */
function showFacts(list, rows) {
  reconcile(
    list,
    rows
      .filter((/** @type {any} */ row) => row && row[1] !== "" && row[1] !== null)
      .flatMap((/** @type {any} */ [name, value, title, key]) => [
        { key: `t${name}`, tag: "dt", value: name },
        { key: `d${name}`, tag: "dd", value, title, same: key ?? value },
      ]),
    (cell) => cell.key,
    (cell) => h(cell.tag),
    (node, cell) => {
      setAttribute(node, "title", cell.title);
      if (cell.tag === "dt" || typeof cell.value === "string") setText(node, cell.value);
      else if (node.dataset.same !== String(cell.same)) {
        node.dataset.same = String(cell.same);
        fill(node, cell.value);
      }
    },
  );
}
