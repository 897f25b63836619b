// Status of the history pipeline, refreshed every few seconds: the current run, past runs, backlog, failures, remedies.

import { post } from "../core/api.js";
import { byId, fill, findAll, h, icon, setText } from "../core/elements.js";
import { bytes, clock, duration, exact, moment, plural, words } from "../core/format.js";
import { clockElement, sinceElement, untilElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { fetchHistory, Loading, repeat, withCommands } from "./data.js";

const REFRESH_MS = 4_000;
/** A latency above this means that the rows are of the past: an imported log, or a backlog. ms. */
const PAST_MS = 3_600_000;
/** @type {Record<string, string>} */
const JOBS = { run: "Pipeline", compact: "Compaction", retain: "Retention", advise: "Recommendations" };
/** @type {Record<string, string>} */
const CONDITIONS = { trouble: "Action required", empty: "No data", running: "Running", fine: "OK" };
/**
 * Steps whose names are those of stored tables.
 *
 * @type {Record<string, string>}
 */
const STEPS = { holds: "Blocked producers", taken: "Processed files" };

/**
 * Why a run is due.
 *
 * @type {Record<string, string>}
 */
const REASONS = {
  hour: "at the end of the recorded hour; until then charts have the open hour from the recorder",
  rows: "about a million rows wait",
  late: "imported or late data waits",
  wait: "data has waited for more than an hour",
};
let isRunning = false;

/** @param {string} step */
const stepName = (step) => STEPS[step] ?? words(step);
const loading = new Loading();

/**
 * @param {any} name
 * @param {...any} value
 */
const entry = (name, ...value) => [h("dt", {}, name), h("dd", {}, value.flat())];
/** @param {any} counts */
const total = (counts) => Object.values(counts).reduce((sum, n) => sum + n, 0);
/** @param {any} counts */
const rowsByKind = (counts) =>
  Object.entries(counts)
    .map(([kind, n]) => (kind === "coverage" ? plural(n, "coverage row") : `${exact(n)} ${kind}`))
    .join(", ");
/** @param {any} run */
const runMs = (run) => (run.finished === null ? null : run.finished - run.started);
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
function latency(run) {
  if (run.lag_ms === null) return "–";
  return run.lag_ms > PAST_MS
    ? h("span", { class: "muted", title: `Newest row: ${moment(run.newest)}` }, "past data")
    : duration(run.lag_ms);
}

/** @param {any} run */
function outcome(run) {
  return h("span", { class: `tag outcome-${run.state === "interrupted" ? "unknown" : run.state}` }, run.state);
}

/**
 * When and why the next run is due.
 *
 * @param {any} status
 */
function nextRun(status) {
  const next = status.next_runs[0];
  if (!next) return "when data lands";
  const due =
    next.at > status.now ? ["in ", untilElement(next.at)] : [status.running ? "after the current run" : "now"];
  return [...due, h("small", { class: "muted block wrap" }, REASONS[next.reason] ?? next.reason)];
}

/** @param {any} status */
function sparkState(status) {
  if (status.session) return "running; ends after five idle minutes";
  return status.running ? "starting" : "not running; starts when there is work";
}

/**
 * One request that is not done.
 *
 * @param {any} running
 * @returns {(request: any) => any}
 */
const queued = (running) => (request) =>
  h(
    "div",
    {},
    JOBS[request.work] ?? request.work,
    h(
      "span",
      { class: "muted" },
      request.state === "running" ? ": running" : running ? ": after the current run" : ": starts shortly",
    ),
  );

/** @param {any} status */
function showNow(status) {
  const running = status.running;
  fill(
    byId("now"),
    entry(
      "Running",
      running
        ? [
            JOBS[running.work] ?? running.work,
            running.step ? h("span", {}, ": ", h("strong", {}, stepName(running.step))) : null,
            " for ",
            sinceElement(running.started),
          ]
        : "nothing",
    ),
    running ? entry("Process", running.holder) : [],
    entry("Next run", nextRun(status)),
    entry("Spark", sparkState(status)),
    status.requests.length ? entry("Queued", status.requests.map(queued(running))) : [],
    entry("Backlog", status.files ? [plural(status.files, "file"), ", oldest ", sinceElement(status.oldest)] : "none"),
  );
  setText(byId("condition"), CONDITIONS[status.condition] ?? status.condition);
  byId("condition").dataset.condition = status.condition;
}

/** @param {any} status */
function showLast(status) {
  const last = status.runs.find((/** @type {any} */ run) => run.work === "run");
  fill(byId("last-when"), last ? [sinceElement(last.finished ?? last.started), " ago"] : "");
  if (!last) {
    fill(byId("last"), entry("Outcome", "No runs yet."));
    fill(byId("steps"));
    return;
  }
  fill(
    byId("last"),
    entry("Outcome", outcome(last), last.error ? h("span", { class: "wrap" }, ` ${last.error}`) : null),
    entry("Duration", duration(runMs(last))),
    entry("Rows ingested", rowsByKind(last.rows) || "none", last.files ? ` in ${plural(last.files, "file")}` : ""),
    entry(
      "Latency",
      latency(last),
      last.lag_ms !== null && last.lag_ms <= PAST_MS
        ? h("span", { class: "muted" }, `, newest row ${clock(last.newest)}`)
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
              h("div", { class: "ranked-name" }, stepName(name)),
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
  const recording =
    one.following === null
      ? h("span", { class: "muted" }, "not connected")
      : one.following
        ? h("span", { class: "fine" }, "recording")
        : h(
            "span",
            { class: "wrong" },
            one.last_sign === null ? "never recorded" : ["not recording since ", clockElement(one.last_sign)],
          );
  const gap = one.gap
    ? [
        clockElement(one.gap.from),
        " – ",
        clockElement(one.gap.until),
        h("small", { class: "muted block wrap" }, one.gap.reason || "no recorder was connected to the broker"),
      ]
    : h("span", { class: "muted" }, "none in 7 days");
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, one.title),
    h("td", { "data-label": "Recorder" }, recording),
    h(
      "td",
      { "data-label": "Data up to" },
      one.readable_until === null ? h("span", { class: "muted" }, "no data") : clockElement(one.readable_until),
    ),
    h("td", { class: "wrap", "data-label": "Last gap" }, gap),
  );
}

/**
 * State of a job's newest request; null once it is done, since the table shows the time of its success.
 *
 * @param {any} request
 * @param {any} running
 */
function requestState(request, running) {
  if (!request || request.state === "done") return null;
  const by = request.requested_by ? ` Requested by ${request.requested_by} at ${clock(request.requested)}.` : "";
  if (request.state === "failed")
    return h(
      "small",
      { class: "wrong block wrap" },
      `${request.finished ? "Failed" : "Failed, retrying"}: ${request.error.replace(/\.$/, "")}.`,
      by,
    );
  const text =
    request.state === "running" ? "Running." : `Queued; starts ${running ? "after the current run" : "shortly"}.`;
  return h("small", { class: "block wrap" }, text, by);
}

/**
 * @param {any} one
 * @param {any} running
 */
function jobRow(one, running) {
  const last = one.last;
  const failure =
    last && last.state !== "done"
      ? h("small", { class: "wrong block wrap" }, `${words(last.state)} ${clock(last.finished)}: ${last.error}`)
      : null;
  return h(
    "tr",
    {},
    h("th", { scope: "row", class: "wrap" }, JOBS[one.work] ?? one.work),
    h(
      "td",
      { "data-label": "Last success" },
      one.done === null ? h("span", { class: "muted" }, "never") : clockElement(one.done),
      failure,
      requestState(one.request, running),
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
    h("td", { "data-label": "Job" }, JOBS[run.work] ?? run.work),
    h("td", { "data-label": "Outcome", title: run.error || null }, outcome(run)),
    h("td", { class: "num", "data-label": "Duration" }, duration(runMs(run))),
    h("td", { class: "num", "data-label": "Files" }, run.work === "run" ? exact(run.files) : "–"),
    h(
      "td",
      { class: "num", "data-label": "Rows", title: rowsByKind(run.rows) || null },
      run.work === "run" ? exact(total(run.rows)) : "–",
    ),
    h("td", { class: "num", "data-label": "Latency" }, latency(run)),
  );
}

/** @param {any} run */
function failureRow(run) {
  return h(
    "tr",
    {},
    h("th", { scope: "row" }, clockElement(run.started)),
    h("td", { "data-label": "Job" }, JOBS[run.work] ?? run.work, run.state === "interrupted" ? outcome(run) : null),
    h("td", { "data-label": "Step" }, run.step ? stepName(run.step) : "–"),
    h("td", { class: "wrap", "data-label": "Error" }, run.error),
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
    h("td", { "data-label": "Oldest data" }, day(one.first)),
    h("td", { "data-label": "Retention" }, one.keep_days === null ? "unlimited" : `${exact(one.keep_days)} days`),
  );
}

/**
 * Fill a table, and hide its card while it has no rows.
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

/** @param {any} status */
function show(status) {
  byId("trouble").hidden = true;
  fill(byId("findings"), status.findings.map(finding));
  byId("findings").hidden = !status.findings.length;
  isRunning = status.running !== null;
  showNow(status);
  showLast(status);
  rows("brokers", status.brokers, brokerRow);
  rows("maintenance", status.maintenance, (/** @type {any} */ one) => jobRow(one, status.running));
  rows("unreadable", Object.entries(status.unreadable), (/** @type {any} */ [file, reason]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: "wrap" }, file),
      h("td", { class: "wrap", "data-label": "Reason" }, reason),
    ),
  );
  rows("failures", status.failures, failureRow);
  rows("runs", status.runs, runRow);
  rows("tables", status.tables, tableRow);
  setText(
    byId("tables-sum"),
    bytes(status.tables.reduce((/** @type {any} */ sum, /** @type {any} */ one) => sum + one.bytes, 0)),
  );
}

function load() {
  loading
    .load(
      "status",
      (/** @type {AbortSignal} */ signal) => fetchHistory("status", {}, signal),
      show,
      byId("trouble"),
      load,
    )
    .then(() => {
      byId("trouble").hidden = !byId("trouble").querySelector(".trouble");
    });
}

for (const button of findAll("[data-work]")) {
  button.addEventListener("click", async () => {
    button.disabled = true;
    try {
      await post("history/run/", { work: button.dataset.work });
      toast(isRunning ? "Queued; starts after the current run." : "Queued; starts shortly.");
      load();
    } catch (error) {
      toast(error.message, "error");
    } finally {
      button.disabled = false;
    }
  });
}

load();
repeat(load, () => true, REFRESH_MS);
