// How the history's pipeline is, asked for every few seconds: what runs, ran, waits and failed, and what to do next.

import { post } from "../core/api.js";
import { byId, fill, findAll, h, icon, setText } from "../core/elements.js";
import { bytes, clock, duration, exact, moment, plural, words } from "../core/format.js";
import { clockElement, sinceElement, untilElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { ask, Loading, repeat, withCommands } from "./data.js";

const EVERY = 4_000;
/** What lags by more than this tells of the past: an imported log, or a backlog that was worked off. */
const PAST = 3_600_000;
/** @type {Record<string, string>} */
const WORKS = { run: "Pipeline", compact: "Compaction", retain: "Retention", advise: "Recommendations" };
/** @type {Record<string, string>} */
const CONDITIONS = { trouble: "Needs you", empty: "Nothing recorded", running: "Running", fine: "Fine" };
const loading = new Loading();

/**
 * @param {any} name
 * @param {...any} value
 */
const fact = (name, ...value) => [h("dt", {}, name), h("dd", {}, value.flat())];
/** @param {any} counts */
const total = (counts) => Object.values(counts).reduce((sum, n) => sum + n, 0);
/** @param {any} counts */
const rowsByKind = (counts) =>
  Object.entries(counts)
    .map(([kind, n]) => `${exact(n)} ${kind}`)
    .join(", ");
/** @param {any} run */
const took = (run) => (run.finished === null ? null : run.finished - run.started);
/** @param {string} text */
const day = (text) => (text === null ? "–" : text);

/** @param {any} one */
function finding(one) {
  return h(
    "li",
    { class: "condition", data: { severity: one.severity, kind: one.kind } },
    icon(one.severity === "trouble" ? "overfull" : "info"),
    h(
      "div",
      { class: "condition-body" },
      h("p", {}, h("strong", {}, one.text)),
      one.next ? h("p", { class: "muted" }, withCommands(one.next)) : null,
    ),
  );
}

/** @param {any} run */
function lag(run) {
  if (run.lag_ms === null) return "–";
  return run.lag_ms > PAST
    ? h("span", { class: "muted", title: `Its newest row is of ${moment(run.newest)}` }, "of the past")
    : duration(run.lag_ms);
}

/** @param {any} run */
function outcome(run) {
  return h("span", { class: `tag outcome-${run.state === "interrupted" ? "unknown" : run.state}` }, run.state);
}

/** @param {any} told */
function showNow(told) {
  const running = told.running;
  fill(
    byId("now"),
    fact(
      "Runs now",
      running
        ? [
            WORKS[running.work] ?? running.work,
            running.step ? h("span", {}, ": ", h("strong", {}, running.step)) : null,
            " for ",
            sinceElement(running.started),
          ]
        : "nothing",
    ),
    running ? fact("Where", running.holder) : [],
    fact("Files that wait", told.files ? [exact(told.files), ", the oldest for ", sinceElement(told.oldest)] : "none"),
  );
  setText(byId("condition"), CONDITIONS[told.condition] ?? told.condition);
  byId("condition").dataset.condition = told.condition;
}

/** @param {any} told */
function showLast(told) {
  const last = told.runs.find((/** @type {any} */ run) => run.work === "run");
  fill(byId("last-when"), last ? [sinceElement(last.finished ?? last.started), " ago"] : "");
  if (!last) {
    fill(byId("last"), fact("Outcome", "The pipeline has not run yet."));
    fill(byId("steps"));
    return;
  }
  fill(
    byId("last"),
    fact("Outcome", outcome(last), last.error ? h("span", { class: "wrap" }, ` ${last.error}`) : null),
    fact("Took", duration(took(last))),
    fact("Rows that landed", rowsByKind(last.rows) || "none", last.files ? ` in ${plural(last.files, "file")}` : ""),
    fact(
      "Readable after",
      lag(last),
      last.lag_ms !== null && last.lag_ms <= PAST
        ? h("span", { class: "muted" }, ` from its newest moment, ${clock(last.newest)}`)
        : null,
    ),
  );
  const steps = Object.entries(last.seconds);
  const most = Math.max(0.001, ...steps.map(([, seconds]) => seconds));
  fill(
    byId("steps"),
    steps.length
      ? h(
          "ol",
          { class: "ranking step-times", "aria-label": "Time by step" },
          steps.map(([name, seconds]) =>
            h(
              "li",
              { class: "ranked" },
              h("div", { class: "ranked-name" }, words(name)),
              h("span", { class: "ranked-value" }, `${seconds < 10 ? seconds.toFixed(2) : seconds.toFixed(0)} s`),
              h(
                "div",
                { class: "bar" },
                h("div", { class: "bar-fill", style: `inline-size: ${Math.max(0.5, (seconds / most) * 100)}%` }),
              ),
            ),
          ),
        )
      : null,
  );
}

/** @param {any} one */
function brokerRow(one) {
  const following =
    one.following === null
      ? h("span", { class: "muted" }, "not connected here")
      : one.following
        ? h("span", { class: "fine" }, "follows it")
        : h(
            "span",
            { class: "wrong" },
            one.last_sign === null ? "never did" : ["not since ", clockElement(one.last_sign)],
          );
  const gap = one.gap
    ? [
        clockElement(one.gap.from),
        " – ",
        clockElement(one.gap.until),
        h("small", { class: "muted block" }, one.gap.reason),
      ]
    : h("span", { class: "muted" }, "none in a week");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.title),
    h("td", { "data-label": "Recorder" }, following),
    h(
      "td",
      { "data-label": "Readable up to" },
      one.readable_until === null ? h("span", { class: "muted" }, "nothing yet") : clockElement(one.readable_until),
    ),
    h("td", { class: "wrap", "data-label": "Last gap" }, gap),
  );
}

/**
 * How far the newest request of a job is; nothing once it is done: its end stands beside it.
 *
 * @param {any} request
 * @param {any} work
 * @param {any} running
 */
function requestState(request, work, running) {
  if (!request || request.state === "done") return null;
  const by = request.asked_by ? ` (${request.asked_by}, ${clock(request.asked)})` : "";
  if (request.state === "failed")
    return h(
      "small",
      { class: "wrong block wrap" },
      request.finished ? `Failed: ${request.error}` : `Failed, and is tried again: ${request.error}`,
      by,
    );
  const text =
    running?.work === work
      ? "Running"
      : request.state === "queued"
        ? "Queued: no worker has taken it yet"
        : running
          ? `Queued behind ${WORKS[running.work] ?? running.work}`
          : "Queued; starts shortly";
  return h("small", { class: "block wrap" }, text, by);
}

/**
 * @param {any} one
 * @param {any} running
 */
function choreRow(one, running) {
  const last = one.last;
  const done =
    last && last.state !== "done"
      ? h("small", { class: "wrong block wrap" }, `${words(last.state)} ${clock(last.finished)}: ${last.error}`)
      : null;
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "wrap" }, WORKS[one.work] ?? one.work),
    h(
      "td",
      { "data-label": "Last done" },
      one.done === null ? h("span", { class: "muted" }, "not yet") : clockElement(one.done),
      done,
      requestState(one.request, one.work, running),
    ),
    h("td", { "data-label": "Next" }, one.next === null ? "–" : ["in ", untilElement(one.next)]),
  );
}

/** @param {any} run */
function runRow(run) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, clockElement(run.started)),
    h("td", { "data-label": "What" }, WORKS[run.work] ?? run.work),
    h("td", { "data-label": "Outcome", title: run.error || null }, outcome(run)),
    h("td", { class: "num", "data-label": "Took" }, duration(took(run))),
    h("td", { class: "num", "data-label": "Files" }, run.work === "run" ? exact(run.files) : "–"),
    h(
      "td",
      { class: "num", "data-label": "Rows", title: rowsByKind(run.rows) || null },
      run.work === "run" ? exact(total(run.rows)) : "–",
    ),
    h("td", { class: "num", "data-label": "Lag" }, lag(run)),
  );
}

/** @param {any} run */
function failureRow(run) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, clockElement(run.started)),
    h("td", { "data-label": "What" }, WORKS[run.work] ?? run.work, run.state === "interrupted" ? outcome(run) : null),
    h("td", { "data-label": "Step" }, run.step || "–"),
    h("td", { class: "wrap", "data-label": "Reason" }, run.error),
  );
}

/** @param {any} one */
function tableRow(one) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.name),
    h("td", { class: "num", "data-label": "Rows" }, exact(one.rows)),
    h("td", { class: "num", "data-label": "Size", title: `${exact(one.bytes)} bytes` }, bytes(one.bytes)),
    h("td", { class: "num", "data-label": "Files" }, exact(one.files)),
    h("td", { "data-label": "From" }, day(one.first)),
    h("td", { "data-label": "Kept" }, one.keep_days === null ? "for ever" : `${exact(one.keep_days)} days`),
  );
}

/**
 * Rows below a heading that is hidden while there are none.
 *
 * @param {any} name
 * @param {any} list
 * @param {any} row
 */
function rows(name, list, row) {
  const card = byId(`${name}-card`);
  if (card) card.hidden = !list.length;
  fill(byId(name), list.map(row));
}

/** @param {any} told */
function show(told) {
  byId("trouble").hidden = true;
  fill(byId("findings"), told.findings.map(finding));
  byId("findings").hidden = !told.findings.length;
  showNow(told);
  showLast(told);
  rows("brokers", told.brokers, brokerRow);
  rows("chores", told.chores, (/** @type {any} */ one) => choreRow(one, told.running));
  rows("unreadable", Object.entries(told.unreadable), (/** @type {any} */ [file, reason]) =>
    h("tr", {}, h("th", { scope: "row", class: "wrap" }, file), h("td", { class: "wrap" }, reason)),
  );
  rows("failures", told.failures, failureRow);
  rows("runs", told.runs, runRow);
  rows("tables", told.tables, tableRow);
  setText(
    byId("tables-sum"),
    bytes(told.tables.reduce((/** @type {any} */ sum, /** @type {any} */ one) => sum + one.bytes, 0)),
  );
}

function load() {
  loading
    .load("status", (/** @type {AbortSignal} */ signal) => ask("status", {}, signal), show, byId("trouble"), load)
    .then(() => {
      byId("trouble").hidden = !byId("trouble").querySelector(".trouble");
    });
}

for (const button of findAll("[data-work]")) {
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("history/run/", { work: button.dataset.work });
      toast("Queued; starts shortly.");
      load();
    } catch (error) {
      toast(error.message, "error");
    } finally {
      button.disabled = false;
    }
  });
}

load();
repeat(load, () => true, EVERY);
