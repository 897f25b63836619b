// The history of all brokers: the most blocked queues and producers, blocked time by queue and time, and all episodes.

import { byId, fill, findAll, h, setAttribute } from "../core/elements.js";
import { clock, duration, exact, plural } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { brokerTitle, settings } from "../core/settings.js";
import { plain } from "../widgets/chart_figures.js";
import { TimeChart } from "../widgets/charts.js";
import { begin, fetchHistory, historyQueueUrl, Loading, repeat, showEmpty, showPipeline } from "./data.js";
import { Episodes, setCount } from "./episodes.js";
import { RangePicker } from "./range_picker.js";

const range = new RangePicker(byId("range"), { initial: "24h" });
const loading = new Loading();
const search = new URLSearchParams(location.search);
let broker = search.get("broker") ?? "";
/** What is shown first: blocked time, unless the broker does not report producers of queues. */
const usual = settings.unreported.includes(broker) ? "overfull" : "blocked";
let measure = ["blocked", "overfull", "stopped"].find((name) => name === search.get("measure")) ?? usual;
let brokers = [];
/** @type {any} */
let heat = null;

const episodes = new Episodes(byId("episodes"), {
  onCount: (/** @type {any} */ n) => setCount(byId("episodes-count"), n),
  several: () => several(),
});
/** @type {any} */
const heatChart = new TimeChart(byId("heat"), settings.figures.heat, {
  zoomed: (/** @type {any} */ from, /** @type {any} */ until) => range.set(from, until),
  widen: () => range.widen(),
  clicked: (/** @type {any} */ point) => {
    if (!heat || point.data.meta !== "heat") return;
    const at = heat.at[point.pointIndex?.[1] ?? point.pointNumber?.[1]];
    location.assign(
      historyQueueUrl(heat.queues[point.y], { from: addressMoment(at), until: addressMoment(at + heat.bucket_ms) }),
    );
  },
});

/** @type {Record<string, string>} */
const MEASURE_LABELS = {
  blocked: "blocked producer time",
  overfull: "overfull time",
  stopped: "stopped time",
};
const several = () => brokers.length > 1 && !broker;
const rangeNow = () =>
  range.length ? { range: range.length } : { from: addressMoment(range.from), until: addressMoment(range.until) };

/**
 * @param {any} one
 * @param {any} most
 * @param {any} [options]
 */
function row(one, most, { producer = false } = {}) {
  const value = one[`${measure}_ms`];
  const name = producer ? h("span", {}, one.name) : h("a", { href: historyQueueUrl(one, rangeNow()) }, one.name);
  const note = [
    producer ? one.queues : one.virtualhost === "default" ? "" : one.virtualhost,
    several() ? brokerTitle(one.broker) : "",
    producer ? `${plural(one.blocks ?? 0, "time")}` : plural(one.episodes ?? 0, "episode"),
  ]
    .filter(Boolean)
    .join(" · ");
  return h(
    "li",
    { class: "ranked" },
    h("div", { class: "ranked-name", title: [one.name, note].join(" · ") }, name, h("small", { class: "muted" }, note)),
    h("span", { class: "ranked-value", title: `${exact(value)} ms ${MEASURE_LABELS[measure]}` }, duration(value)),
    h(
      "div",
      { class: "bar" },
      h("div", {
        class: "bar-fill",
        "data-level": measure === "stopped" ? "stopped" : "over",
        style: `inline-size: ${Math.max(0.5, (value / most) * 100)}%`,
      }),
    ),
  );
}

/** @param {any} answer */
const unreportedBy = ({ unreported }) =>
  `Not known for ${unreported.map(brokerTitle).join(", ")}: ` +
  `${unreported.length > 1 ? "they do" : "it does"} not report the blocked producers of queues`;

/** @param {any} answer */
const nothingRecorded = (answer) =>
  answer.unreported.length && (broker || answer.unreported.length >= brokers.length)
    ? `${unreportedBy(answer)}.`
    : `No ${MEASURE_LABELS[measure]} recorded in this range.` +
      (answer.unreported.length ? ` ${unreportedBy(answer)}.` : "");

/**
 * @param {HTMLElement} element
 * @param {any} answer
 * @param {any} options
 */
function showTop(element, answer, options) {
  if (!answer.rows.length) {
    showEmpty(element, nothingRecorded(answer));
    return;
  }
  const most = answer.rows[0][`${measure}_ms`];
  fill(
    element,
    h(
      "ol",
      { class: "ranking" },
      answer.rows.map((/** @type {any} */ one) => row(one, most, options)),
    ),
    answer.unreported.length ? h("p", { class: "muted ranked-note" }, `${unreportedBy(answer)}.`) : null,
  );
}

/**
 * Hatch the time that was not recorded: one bar per span, over the neighbouring rows of one broker.
 *
 * @param {any} bars
 * @param {any} answer
 */
function putGaps(bars, answer) {
  const gaps = answer.queues.flatMap((/** @type {any} */ queue, /** @type {number} */ index) => {
    if (answer.queues[index - 1]?.broker === queue.broker) return [];
    let rows = 1;
    while (answer.queues[index + rows]?.broker === queue.broker) rows += 1;
    return answer.unwatched[queue.broker].map((/** @type {any} */ [from, until]) => ({ index, rows, from, until }));
  });
  bars.visible = gaps.length > 0;
  bars.x = gaps.map((/** @type {any} */ gap) => (gap.from + gap.until) / 2);
  bars.width = gaps.map((/** @type {any} */ gap) => gap.until - gap.from);
  bars.base = gaps.map((/** @type {any} */ gap) => gap.index - 0.5);
  bars.y = gaps.map((/** @type {any} */ gap) => gap.rows);
  bars.text = gaps.map((/** @type {any} */ gap) => `No data for ${duration(gap.until - gap.from)}`);
}

/** @param {any} answer */
function showHeat(answer) {
  heat = answer;
  if (!answer.queues.length) {
    heatChart.clear();
    showEmpty(byId("heat"), nothingRecorded(answer));
    return;
  }
  const names = answer.queues.map((/** @type {any} */ queue) =>
    [
      queue.name,
      queue.virtualhost === "default" ? "" : ` (${queue.virtualhost})`,
      several() ? ` · ${brokerTitle(queue.broker)}` : "",
    ].join(""),
  );
  const slotIsQueueTime = measure !== "blocked";
  heatChart.show(answer.from, answer.until, (/** @type {any} */ figure) => {
    const map = figure.data.find((/** @type {any} */ trace) => trace.meta === "heat");
    map.x = answer.at.map((/** @type {any} */ at) => at + answer.bucket_ms / 2);
    map.y = answer.queues.map((/** @type {any} */ _, /** @type {any} */ index) => index);
    map.z = answer.values;
    const most = Math.max(1, ...answer.values.flat().map((/** @type {any} */ value) => value ?? 0));
    map.zmax = slotIsQueueTime ? Math.min(answer.bucket_ms, most) : most;
    map.text = answer.values.map((/** @type {any} */ line, /** @type {any} */ index) =>
      line.map(
        (/** @type {any} */ value, /** @type {any} */ slot) =>
          `<b>${plain(names[index])}</b><br>${clock(answer.at[slot])} – ` +
          `${clock(answer.at[slot] + answer.bucket_ms)}<br>` +
          `${value === null ? "no data" : `${duration(value)} ${MEASURE_LABELS[measure]}`}`,
      ),
    );
    map.colorbar.tickvals = [0, map.zmax / 2, map.zmax];
    map.colorbar.ticktext = [0, map.zmax / 2, map.zmax].map((value) => duration(value));
    map.colorbar.title.text = MEASURE_LABELS[measure];
    putGaps(
      figure.data.find((/** @type {any} */ trace) => trace.meta === "unwatched"),
      answer,
    );
    const longest = byId("heat").clientWidth < 520 ? 14 : 24;
    figure.layout.yaxis.range = [answer.queues.length - 0.5, -0.5];
    figure.layout.yaxis.tickvals = map.y;
    figure.layout.yaxis.ticktext = names.map((/** @type {any} */ name) =>
      plain(name.length > longest ? `${name.slice(0, longest - 1)}…` : name),
    );
    figure.layout.height = Math.max(180, 90 + answer.queues.length * 22);
  });
  byId("heat").setAttribute(
    "aria-label",
    `Heat map: ${MEASURE_LABELS[measure]} of ${plural(answer.queues.length, "queue")}, highest: ${names[0]}`,
  );
}

function load() {
  range.renew();
  const parameters = { ...range.query, broker };
  for (const [name, of] of [
    ["top-queues", "queues"],
    ["top-producers", "producers"],
  ]) {
    const producer = of === "producers";
    const values = { ...parameters, of, measure: producer ? "blocked" : measure };
    const element = byId(name);
    loading.load(
      name,
      (/** @type {AbortSignal} */ signal) => fetchHistory("top", values, signal),
      (/** @type {any} */ answer) => {
        const shown = measure;
        if (producer) measure = "blocked";
        showTop(element, answer, { producer });
        measure = shown;
      },
      element,
      load,
    );
  }
  loading.load(
    "heat",
    (/** @type {AbortSignal} */ signal) => fetchHistory("heat", { ...parameters, measure }, signal),
    showHeat,
    byId("heat"),
    () => {
      heatChart.clear();
      load();
    },
  );
  episodes.show(parameters);
}

function showMeasure() {
  for (const button of findAll("[data-measure]"))
    setAttribute(button, "aria-pressed", String(button.dataset.measure === measure));
}

/**
 * @param {any} name
 * @param {any} value
 * @param {any} defaultValue
 */
function setParameter(name, value, defaultValue) {
  const url = new URL(location.href);
  if (value === defaultValue) url.searchParams.delete(name);
  else url.searchParams.set(name, value);
  history.replaceState(null, "", url);
}

for (const button of findAll("[data-measure]")) {
  button.addEventListener("click", () => {
    measure = button.dataset.measure;
    setParameter("measure", measure, usual);
    showMeasure();
    load();
  });
}
showMeasure();

const choice = byId("history-broker");
choice.addEventListener("change", () => {
  broker = choice.value;
  setParameter("broker", broker, "");
  load();
});

range.addEventListener("change", load);
const pipeline = () => showPipeline(byId("pipeline"));
/** The notice is above the charts: it comes first, so that it does not push a link away that is about to be clicked. */
const noticed = pipeline();
/** How long the charts wait for a slow answer about the pipeline. */
const NOTICE_MS = 1_000;
repeat(pipeline, () => true, 30_000);
repeat(load, () => range.live && !byId("history").hidden, 30_000);
begin(async (/** @type {any} */ catalog) => {
  brokers = catalog.brokers;
  choice.closest("label").hidden = brokers.length < 2 && !broker;
  const names = [...new Set([...brokers.map((/** @type {any} */ one) => one.broker), ...(broker ? [broker] : [])])];
  fill(
    choice,
    h("option", { value: "" }, "All brokers"),
    names.map((name) => h("option", { value: name }, brokerTitle(name))),
  );
  choice.value = broker;
  range.known = brokers.filter((/** @type {any} */ one) => !broker || one.broker === broker);
  await Promise.race([noticed, new Promise((resolve) => setTimeout(resolve, NOTICE_MS))]);
}, load);
