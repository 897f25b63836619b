// The history of one queue: depth and levels, episodes, operators' edits and actions.

import { byId, fill, findAll, h, setAttribute, setText } from "../core/elements.js";
import { duration, exact, plural } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { describeResolution, formatPeak, QueueChart } from "./chart.js";
import { begin, fetchHistory, incidentUrl, Loading, repeat, showEmpty, whatIfUrl } from "./data.js";
import { knownUntil } from "./episode_end.js";
import { Episodes, setCount } from "./episodes.js";
import { showEvents } from "./events.js";
import { RangePicker } from "./range_picker.js";
import { recorded } from "./recorded_time.js";

const MARKS = ["producers-stopped", "producers-started", "policy-changed", "queue-purged"];
/** Episodes shaded in the chart; of more, the longest. */
const MOST_SPANS = 500;
const { key } = settings;
const about = { broker: key.broker, virtualhost: key.virtualhost, queue: key.queue };
const range = new RangePicker(byId("range"), { initial: "24h" });
const loading = new Loading();
const zooming = {
  zoomed: (/** @type {any} */ from, /** @type {any} */ until) => range.set(from, until),
  widen: () => range.widen(),
};
const chart = new QueueChart(byId("chart"), settings.figures, { rates: byId("rates"), ...zooming });
const episodes = new Episodes(byId("episodes"), {
  onCount: (/** @type {any} */ n) => setCount(byId("episodes-count"), n),
});

/** @type {string | null} */
let unit = null;

/** @param {any} chosen */
function showUnit(chosen) {
  unit = chosen;
  for (const button of findAll("[data-unit]"))
    setAttribute(button, "aria-pressed", String(button.dataset.unit === chosen));
  chart.use(chosen);
}

for (const button of findAll("[data-unit]"))
  button.addEventListener("click", () => {
    showUnit(button.dataset.unit);
    facts();
  });

/** @type {any} */
let shown = null;

function facts() {
  if (!shown) return;
  const { series, spans } = shown;
  /** @param {any} name */
  const sum = (name) =>
    series[name].some((/** @type {any} */ value) => value !== null)
      ? series[name].reduce((/** @type {any} */ all, /** @type {any} */ value) => all + (value ?? 0), 0)
      : null;
  /** @param {any} episode */
  const within = (episode) =>
    recorded(episode.start, knownUntil(episode, serverNow()), series).reduce(
      (all, [from, until]) => all + until - from,
      0,
    );
  const overfull = spans.results.filter((/** @type {any} */ episode) => episode.kind === "overfull");
  const whole = spans.count <= spans.results.length;
  const overfullTime = whole
    ? overfull.reduce((/** @type {any} */ all, /** @type {any} */ episode) => all + within(episode), 0)
    : sum("overfull_ms");
  const blockedTime = series.total_blocked_ms;
  const unwatched = series.unwatched.reduce(
    (/** @type {any} */ all, /** @type {any} */ [from, until]) => all + until - from,
    0,
  );
  const recordedTime = Math.max(0, Math.min(serverNow(), series.until) - series.from - unwatched);
  const empty = series.known === 0 && !spans.count;
  const share = recordedTime ? ` (${((overfullTime / recordedTime) * 100).toFixed(1)}% of recorded time)` : "";
  /** @type {any[]} */
  const rows = [
    [
      "Overfull",
      empty || overfullTime === null ? "–" : duration(overfullTime) + share,
      overfullTime === null ? "" : `${exact(Math.round(overfullTime))} ms`,
    ],
    [
      "Blocked producer time",
      empty || blockedTime === null ? "–" : duration(blockedTime),
      settings.unreported
        ? "This broker does not report the blocked producers of queues"
        : "Sum over all blocked producers, of the recorded time in this range",
    ],
    ["Peak", formatPeak(series, unit ?? "messages"), "Highest recorded depth"],
    ["No data", unwatched ? duration(unwatched) : "none", `Time that was not recorded: ${exact(unwatched)} ms`],
  ];
  fill(
    byId("facts"),
    rows.flatMap(([name, value, title]) => [h("dt", {}, name), h("dd", { title }, value)]),
  );
}

/** @param {any} options */
function show([series, spans, marks]) {
  shown = { series, spans };
  /** @param {any} name */
  const some = (name) => series[name].some((/** @type {any} */ value) => value);
  if (unit === null) showUnit(!some("capacity_messages") && some("capacity_bytes") ? "bytes" : "messages");
  const empty = series.known === 0 && !spans.count;
  setText(
    byId("resolution"),
    empty
      ? ""
      : `${describeResolution(series)}` +
          (spans.count > spans.results.length
            ? `; the ${exact(MOST_SPANS)} longest of ${plural(spans.count, "episode")} shaded`
            : ""),
  );
  if (empty) {
    chart.clear();
    showEmpty(
      byId("chart"),
      h("strong", {}, "No data in this range."),
      " The queue was not recorded or did not exist. Choose another range.",
    );
  } else {
    chart.show(series, spans.results, marks.results);
  }
  facts();
  byId("actions-note").hidden = marks.count > 0;
  if (!marks.count) setText(byId("actions-note"), "No edits or actions in this range.");
  showEvents(byId("actions"), [...marks.results].reverse());
}

function load() {
  range.renew();
  const parameters = { ...about, ...range.query };
  loading.load(
    "chart",
    (/** @type {AbortSignal} */ signal) =>
      Promise.all([
        fetchHistory("series", parameters, signal),
        fetchHistory("episodes", { ...parameters, page_size: MOST_SPANS, sort: "-duration" }, signal),
        fetchHistory("events", { ...parameters, kind: MARKS, page_size: 200, order: "ascending" }, signal),
      ]),
    show,
    byId("chart"),
    () => {
      chart.clear();
      load();
    },
  );
  episodes.show(parameters);
  linkRange();
}

/** Give the links to other pages the range of this one, also before anything is loaded. */
function linkRange() {
  const fixed = { from: addressMoment(range.from), until: addressMoment(range.until) };
  byId("incident").href = incidentUrl(about, fixed);
  byId("what-if").href = whatIfUrl(about, range.length ? { range: range.length } : fixed);
}

linkRange();
range.addEventListener("change", load);
repeat(load, () => range.live && !byId("history").hidden, 15_000);
begin((/** @type {any} */ catalog) => {
  const ours = catalog.brokers.find((/** @type {any} */ one) => one.broker === key.broker);
  if (ours) range.known = [ours];
}, load);
