// Advice for the whole fleet: as the history job worked it out, or else worked out now for those that lost the most.

import { post } from "../core/api.js";
import { byId, fill, h, setText } from "../core/elements.js";
import { bytes, clock, duration, exact, exactAmount } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { settings } from "../core/settings.js";
import { ask, begin, historyQueueUrl, Loading, showNothing, whatIfUrl } from "./data.js";

/** @type {Record<string, string>} */
const KINDS = {
  "": "Whatever could be better",
  "raise-capacity": "Raise the capacity",
  "add-consumers": "Add consumers",
  "lower-resume": "Lower the resume level",
  "never-reached": "Capacity never reached",
  "no-limit": "No limit at all",
};
const CAVEAT = settings.caveat ?? "";
const SIZE = 50;
/** Queues that are replayed one by one where no job has been. */
const BY_HAND = 15;
const DAYS = 7 * 86_400_000;
const loading = new Loading();
const broker = new URLSearchParams(location.search).get("broker") ?? "";
let page = 1;

fill(
  byId("kind"),
  Object.entries(KINDS).map(([name, label]) => h("option", { value: name }, label)),
);

/** @param {any} seconds */
const ms = (seconds) => (seconds === null || seconds === undefined ? null : seconds * 1000);

/** @param {any} one */
function row(one) {
  const would = one.recommended_blocked_seconds;
  const needs = one.recommended_peak_bytes;
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
        [one.virtualhost === "default" ? "" : one.virtualhost, one.broker].filter(Boolean).join(" · "),
      ),
    ),
    h(
      "td",
      { class: "wrap", "data-label": "Advice" },
      one.text,
      h("span", { class: "tag" }, KINDS[one.kind] ?? one.kind),
    ),
    h(
      "td",
      {
        class: "num",
        "data-label": "Overfull, actual",
        title:
          one.recorded_blocked_seconds === null
            ? ""
            : `${exact(Math.round(one.recorded_blocked_seconds))} s of ${duration(ms(one.observed_seconds))}`,
      },
      duration(ms(one.recorded_blocked_seconds)),
    ),
    h(
      "td",
      {
        class: "num",
        "data-label": "Overfull, simulated",
        title: would === null ? "" : `${exact(Math.round(would))} s`,
      },
      would === null ? "–" : duration(ms(would)),
    ),
    h(
      "td",
      { class: "num", "data-label": "Peak use", title: needs === null ? "" : exactAmount(Math.round(needs), "bytes") },
      needs === null ? "–" : bytes(needs),
    ),
    h(
      "td",
      { class: "num" },
      h(
        "a",
        { href: whatIfUrl(one, one.until ? { from: addressMoment(one.from), until: addressMoment(one.until) } : {}) },
        "What if…",
      ),
    ),
  );
}

/** @param {any[]} rows */
function show(rows) {
  byId("table").hidden = !rows.length;
  fill(byId("rows"), rows.map(row));
}

/** @param {any} options */
function showPage({ count, results }) {
  show(results);
  caveat(results.length ? CAVEAT : "");
  setText(
    byId("advice-of"),
    results.length
      ? `From the week until ${clock(Math.max(...results.map((/** @type {any} */ one) => one.until)))}; ` +
          "worked out anew every night."
      : "",
  );
  setText(byId("advice-count"), count ? exact(count) : "");
  if (results.length) fill(byId("note"));
  else
    showNothing(
      byId("note"),
      byId("search").value || byId("kind").value
        ? "Nothing matches."
        : "Nothing to advise: no limit held producers for long, and none is idle.",
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
 * No job has been here: replay the worst queues of a week, one after the other.
 *
 * @param {AbortSignal} signal
 */
async function byHand(signal) {
  const until = Date.now();
  const known = await ask("", {}, signal);
  const end = Math.min(until, Math.max(...known.brokers.map((/** @type {any} */ one) => one.last)) + 60_000);
  const top = await ask("top", { from: end - DAYS, until: end, of: "queues", broker, count: BY_HAND }, signal);
  const rows = [];
  for (const one of top.rows) {
    setText(byId("progress"), `Replaying ${one.name}… (${rows.length + 1} of ${top.rows.length})`);
    const found = await post(
      "history/what-if/",
      { broker: one.broker, virtualhost: one.virtualhost, queue: one.name, from: end - DAYS, until: end },
      signal,
    );
    if (!found.advice) continue;
    const would = found.advice.limits;
    rows.push({
      ...one,
      queue: one.name,
      kind: found.advice.kind,
      text: found.advice.text,
      observed_seconds: found.observed_ms / 1000,
      recorded_blocked_seconds: found.recorded_blocked_ms / 1000,
      recommended_blocked_seconds: would ? would.blocked_ms / 1000 : null,
      recommended_peak_bytes: would ? would.peak_bytes : null,
    });
    show(rows);
    caveat(found.caveat);
  }
  return rows;
}

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
      try {
        return await ask("advice", values, signal);
      } catch (error) {
        if (error.status !== 404) throw error;
        byId("filters").hidden = true;
        fill(
          byId("note"),
          h("p", { class: "loading empty", id: "progress", role: "status" }, "Replaying what was recorded…"),
        );
        const rows = await byHand(signal);
        return { byHand: true, count: rows.length, results: rows };
      }
    },
    (/** @type {any} */ answer) => {
      if (!answer.byHand) {
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
            `The ${exact(answer.results.length)} queues that lost the most time in the last 7 ` +
              "days, worked out just now. Every night a job does it for all of them.",
          ),
        );
      else
        showNothing(
          byId("note"),
          "No queue lost time in the last 7 days, as far as anybody looked: there is nothing to advise.",
        );
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

begin(() => {}, load);
