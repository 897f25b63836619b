// Recommendations for all queues: those of the nightly job, or, before its first run, computed now for the most blocked
// queues.

import { post } from "../core/api.js";
import { byId, fill, h, setText } from "../core/elements.js";
import { bytes, clock, duration, exact, exactAmount, plural } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { serverNow } from "../core/server_clock.js";
import { brokerTitle, settings } from "../core/settings.js";
import { begin, durations, fetchHistory, historyQueueUrl, Loading, policyUrl, showEmpty, whatIfUrl } from "./data.js";

/** @type {Record<string, string>} */
const KINDS = {
  "": "All recommendations",
  "no-consumer": "No consumer",
  unacknowledged: "No acknowledgement",
  "add-consumers": "Add consumers",
  "raise-capacity": "Raise the capacity",
  "no-room": "No room for more",
  "lower-resume": "Lower the resume level",
  "never-reached": "Capacity never reached",
  "no-limit": "No limit",
};
const CAVEAT = settings.caveat ?? "";
const SIZE = 50;
/** Queues replayed one by one while the job has not run. */
const MOST_REPLAYED = 15;
const WEEK = 7 * 86_400_000;
const loading = new Loading();
const broker = new URLSearchParams(location.search).get("broker") ?? "";
let page = 1;
/** The answer of the catalog: the recorded brokers, and whether the nightly job has run. */
/** @type {any} */
let known = null;

fill(
  byId("kind"),
  Object.entries(KINDS).map(([name, label]) => h("option", { value: name }, label)),
);

/** @param {any} seconds */
const ms = (seconds) => (seconds === null || seconds === undefined ? null : seconds * 1000);

/** @param {any} one */
function row(one) {
  const [low, high] = [ms(one.recommended_blocked_low_seconds), ms(one.recommended_blocked_high_seconds)];
  const peak = one.recommended_peak_bytes;
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "wrap c-what" },
      h("a", { href: historyQueueUrl(one, { range: "7d" }) }, one.queue),
      h(
        "small",
        { class: "muted" },
        [one.virtualhost === "default" ? "" : one.virtualhost, brokerTitle(one.broker)].filter(Boolean).join(" · "),
      ),
    ),
    h(
      "td",
      { class: "wrap", "data-label": "Recommendation" },
      one.text,
      h("small", { class: "muted" }, KINDS[one.kind] ?? one.kind),
    ),
    h(
      "td",
      {
        class: "num",
        "data-label": "Blocked producer time, actual",
        title:
          one.recorded_blocked_seconds === null
            ? ""
            : `${exact(Math.round(one.recorded_blocked_seconds))} s in ${duration(ms(one.observed_seconds))}; ` +
              `overfull for ${duration(ms(one.recorded_overfull_seconds))}`,
      },
      duration(ms(one.recorded_blocked_seconds)),
    ),
    h(
      "td",
      { class: "num", "data-label": "Blocked producer time, simulated" },
      high === null ? "–" : durations(low, high),
    ),
    h(
      "td",
      { class: "num", "data-label": "Peak use", title: peak === null ? "" : exactAmount(Math.round(peak), "bytes") },
      peak === null ? "–" : bytes(peak),
    ),
    h(
      "td",
      { class: "num links" },
      h(
        "a",
        { href: whatIfUrl(one, one.until ? { from: addressMoment(one.from), until: addressMoment(one.until) } : {}) },
        "Simulate limits",
      ),
      " ",
      policyLink(one),
    ),
  );
}

/**
 * Return a link to the policy editor with the recommended limits entered, or null.
 *
 * @param {any} one
 */
function policyLink(one) {
  const levels = (/** @type {string} */ prefix) =>
    Object.fromEntries(
      ["messages", "bytes"].flatMap((unit) => [
        [`capacity_${unit}`, one[`${prefix}stop_${unit}`] ?? 0],
        [`resume_${unit}`, one[`${prefix}resume_${unit}`] ?? 0],
      ]),
    );
  if (one.recommended_stop_messages === null || one.recommended_stop_messages === undefined) return null;
  const url = policyUrl(one, levels("recommended_"), levels(""));
  return url ? h("a", { href: url }, "Edit policy") : null;
}

/** @param {any[]} rows */
function show(rows) {
  byId("table").hidden = !rows.length;
  fill(byId("rows"), rows.map(row));
}

/**
 * Show what all recommended capacities of a broker need together, and whether it has as much.
 *
 * @param {any[]} required
 */
function showRequired(required) {
  byId("required").hidden = !required.length;
  fill(
    byId("required"),
    required.map((one) => {
      const rooms = ["memory", "store"].filter((what) => `${what}_free_bytes` in one);
      const short = rooms.filter((what) => one[`${what}_free_bytes`] < one.required_bytes);
      return h(
        "p",
        {},
        `All recommended capacities of ${brokerTitle(one.broker)} together need up to ` +
          `${bytes(one.required_bytes)} more.`,
        rooms.map((what) => ` Free ${what} below its limit: ${bytes(Math.max(one[`${what}_free_bytes`], 0))}.`),
        short.length ? h("strong", {}, " Not enough for all of them.") : null,
      );
    }),
  );
}

/** @param {any} options */
function showPage({ count, results, required }) {
  show(results);
  showRequired(required);
  caveat(results.length ? CAVEAT : "");
  setText(
    byId("advice-of"),
    results.length
      ? `Based on the week up to ${clock(Math.max(...results.map((/** @type {any} */ one) => one.until)))}; ` +
          "updated every night."
      : "",
  );
  setText(byId("advice-count"), count ? exact(count) : "");
  if (results.length) fill(byId("note"));
  else
    showEmpty(
      byId("note"),
      byId("search").value || byId("kind").value
        ? "No matching recommendations."
        : "No recommendations: no limit blocked producers for long, and no limit is unused.",
    );
  const pager = byId("pager");
  pager.hidden = count <= SIZE;
  /**
   * @param {string} label
   * @param {any} by
   * @param {any} disabled
   */
  const turn = (label, by, disabled) =>
    h(
      "button",
      {
        type: "button",
        disabled,
        on: {
          click: () => {
            page += by;
            load();
          },
        },
      },
      label,
    );
  fill(
    pager,
    turn("Previous", -1, page <= 1),
    h(
      "span",
      { class: "muted" },
      `${exact((page - 1) * SIZE + 1)}–${exact((page - 1) * SIZE + results.length)} of ${exact(count)}`,
    ),
    turn("Next", 1, page * SIZE >= count),
  );
}

/**
 * Replay the most blocked queues of the last week, one after the other.
 *
 * @param {AbortSignal} signal
 */
async function replayNow(signal) {
  const recorded = known.brokers.filter((/** @type {any} */ one) => !broker || one.broker === broker);
  if (!recorded.length) return [];
  const end = Math.min(serverNow(), Math.max(...recorded.map((/** @type {any} */ one) => one.last)) + 60_000);
  // Short ranges have narrower results: the unrecorded time before a young history is not part of them.
  const begin = Math.max(end - WEEK, Math.min(...recorded.map((/** @type {any} */ one) => one.first)));
  const range = { from: begin, until: end };
  const top = await fetchHistory("top", { ...range, of: "queues", broker, count: MOST_REPLAYED }, signal);
  const rows = [];
  for (const one of top.rows) {
    setText(byId("progress"), `Replaying ${one.name}… (${rows.length + 1} of ${top.rows.length})`);
    const answer = await post(
      "history/what-if/",
      { broker: one.broker, virtualhost: one.virtualhost, queue: one.name, ...range },
      signal,
    );
    if (!answer.advice) continue;
    const simulated = answer.advice.limits;
    rows.push({
      ...one,
      ...range,
      queue: one.name,
      kind: answer.advice.kind,
      text: answer.advice.text,
      observed_seconds: answer.observed_ms / 1000,
      recorded_blocked_seconds: answer.recorded_blocked_ms / 1000,
      recorded_overfull_seconds: answer.recorded_overfull_ms / 1000,
      recommended_blocked_low_seconds: simulated ? simulated.blocked_low_ms / 1000 : null,
      recommended_blocked_high_seconds: simulated ? simulated.blocked_high_ms / 1000 : null,
      ...levelsOf("", answer.current),
      ...levelsOf("recommended_", simulated),
      recommended_peak_bytes: simulated ? simulated.peak_bytes : null,
    });
    show(rows);
    caveat(answer.caveat);
  }
  return rows;
}

/**
 * @param {string} prefix
 * @param {any} limits
 */
const levelsOf = (prefix, limits) =>
  Object.fromEntries(
    ["messages", "bytes"].flatMap((unit) => [
      [`${prefix}stop_${unit}`, limits ? limits[`capacity_${unit}`] : null],
      [`${prefix}resume_${unit}`, limits ? limits[`resume_${unit}`] : null],
    ]),
  );

/** @param {string} text */
function caveat(text) {
  setText(byId("caveat"), text);
  byId("caveat").hidden = !text;
}

function load() {
  const values = { broker, search: byId("search").value.trim(), kind: byId("kind").value, page, page_size: SIZE };
  loading.load(
    "advice",
    async (/** @type {AbortSignal} */ signal) => {
      if (!known.recommendations) known = await fetchHistory("", {}, signal);
      if (known.recommendations) return fetchHistory("advice", values, signal);
      byId("filters").hidden = true;
      fill(
        byId("note"),
        h("p", { class: "loading empty", id: "progress", role: "status" }, "Replaying recorded traffic…"),
      );
      const rows = await replayNow(signal);
      return { replayNow: true, count: rows.length, results: rows };
    },
    (/** @type {any} */ answer) => {
      if (!answer.replayNow) {
        byId("filters").hidden = false;
        showPage(answer);
        return;
      }
      setText(byId("advice-count"), "");
      if (answer.results.length)
        fill(
          byId("note"),
          h(
            "p",
            { class: "rest muted" },
            `The ${plural(answer.results.length, "most blocked queue")} of the last 7 days, computed just now. ` +
              "A nightly job computes recommendations for all queues.",
          ),
        );
      else showEmpty(byId("note"), "No recommendations: no blocked time recorded in the last 7 days.");
    },
    byId("note"),
    load,
  );
}

/** @type {any} */
let wait = null;
byId("search").addEventListener("input", () => {
  clearTimeout(wait);
  wait = setTimeout(() => {
    page = 1;
    load();
  }, 250);
});
byId("kind").addEventListener("change", () => {
  page = 1;
  load();
});
byId("filters").addEventListener("submit", (/** @type {any} */ event) => event.preventDefault());

begin((/** @type {any} */ catalog) => {
  known = catalog;
}, load);
