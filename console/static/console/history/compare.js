// Up to eight queues in one chart: the queues, the measure and the range are in the address.

import { byId, fill, h, setText } from "../core/elements.js";
import { duration, middle } from "../core/format.js";
import { formatName } from "../core/object_names.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { plain } from "../widgets/chart_figures.js";
import { TimeChart } from "../widgets/charts.js";
import { describeResolution, lineOf, putSpans } from "./chart.js";
import { Answers, lastAndHighest, MEASURES, overfullTime, valuesOf, withTicks } from "./compared.js";
import { begin, fetchHistory, historyQueueUrl, Loading, repeat, showEmpty } from "./data.js";
import { knownUntil } from "./episode_end.js";
import { RangePicker } from "./range_picker.js";

const LIVE = 3_000; // ms between two updates of a range of up to an hour
const broker = settings.comparedBroker;
/** @type {any[]} */
let queues = settings.queues;
const answers = new Answers();
const loading = new Loading();
const range = new RangePicker(byId("range"), { initial: "15m" });
const chart = new TimeChart(byId("chart"), settings.figure, {
  zoomed: (/** @type {any} */ from, /** @type {any} */ until) => range.set(from, until),
  widen: () => range.widen(),
});
const select = byId("measure");
const measureInAddress = () => new URLSearchParams(location.search).get("measure") ?? "";
let measure = Object.hasOwn(MEASURES, measureInAddress()) ? measureInAddress() : "messages";

fill(
  select,
  Object.entries(MEASURES).map(([name, { title }]) => h("option", { value: name, selected: name === measure }, title)),
);
select.addEventListener("change", () => {
  measure = select.value;
  putIntoAddress();
  chart.clear(); // another axis
  show();
});

function putIntoAddress() {
  const url = new URL(location.href);
  url.searchParams.delete("queue");
  for (const { object } of queues) url.searchParams.append("queue", object);
  if (measure === "messages") url.searchParams.delete("measure");
  else url.searchParams.set("measure", measure);
  history.replaceState(null, "", url);
}

// -- the queues ------------------------------------------------------------------------------------------------------

/** @param {any} queue */
const title = (queue) => (queue.virtualhost === "default" ? queue.queue : `${queue.virtualhost}/${queue.queue}`);

function showRows() {
  fill(
    byId("rows"),
    queues.map((queue, index) => {
      const answer = answers.of(queue);
      const values = answer ? valuesOf(answer.series, measure) : [];
      const [last, highest] = lastAndHighest(values, measure);
      const remove = h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Remove ${queue.queue}`,
          on: { click: () => drop(queue.object) },
        },
        "Remove",
      );
      return h(
        "tr",
        {},
        h("td", {}, lineSample(index)),
        h(
          "th",
          { scope: "row" },
          h("a", { href: historyQueueUrl(queue, rangeInAddress()), title: title(queue) }, middle(title(queue))),
        ),
        h("td", { class: "num" }, last),
        h("td", { class: "num" }, highest),
        h("td", { class: "num" }, answer?.overfull ?? "–"),
        h("td", { class: "num" }, answer?.blocked ?? "–"),
        h("td", { class: "num" }, remove),
      );
    }),
  );
  byId("queues").hidden = queues.length === 0;
}

/**
 * A piece of the queue's line, as in the chart.
 *
 * @param {number} index
 */
function lineSample(index) {
  const { color, dash, width } = settings.figure.data.find(
    (/** @type {any} */ trace) => trace.meta === `queue-${index}`,
  ).line;
  /** @type {Record<string, string>} */
  const dashes = { dash: "9 6", dot: "3 3", dashdot: "9 4 3 4" };
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("class", "line");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "line");
  const given = { x1: 0, x2: 34, y1: 3, y2: 3, "stroke-width": width, "stroke-dasharray": dashes[dash] ?? "none" };
  for (const [name, value] of Object.entries(given)) line.setAttribute(name, String(value));
  line.style.stroke = color;
  svg.append(line);
  return svg;
}

const rangeInAddress = () => (range.length ? { range: range.length } : {});

/** @param {string} object */
function drop(object) {
  queues = queues.filter((queue) => queue.object !== object);
  putIntoAddress();
  chart.clear();
  show();
}

// -- adding ----------------------------------------------------------------------------------------------------------

const field = byId("add-name");
const names = byId("add-names");
/** @type {Map<string, any>} */
let found = new Map();
let pause = 0;

async function suggest() {
  const search = field.value.trim().split("/").at(-1) ?? "";
  const rows = await fetchHistory("queues", { broker, search, count: 50 });
  found = new Map(rows.map((/** @type {any} */ row) => [title({ ...row, queue: row.name }), row]));
  fill(
    names,
    [...found.keys()].map((name) => h("option", { value: name })),
  );
}

field.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => suggest().catch(() => {}), 200);
});
field.addEventListener("focus", () => suggest().catch(() => {}), { once: true });

/** @param {string} text empty: none */
function showProblem(text) {
  const problem = byId("problem");
  problem.hidden = !text;
  fill(problem, h("p", {}, text));
}

byId("add").addEventListener("submit", async (/** @type {Event} */ event) => {
  event.preventDefault();
  const wanted = field.value.trim();
  if (!wanted) return;
  if (!found.has(wanted)) await suggest().catch(() => {});
  const row = found.get(wanted);
  if (queues.length >= settings.most) return showProblem(`${settings.most} queues at most are compared.`);
  if (!row) return showProblem(`No queue ${wanted} is recorded.`);
  const object = formatName("Queue", { virtualhost: row.virtualhost, name: row.name });
  if (queues.some((queue) => queue.object === object)) return showProblem(`${wanted} is in the chart already.`);
  showProblem("");
  queues = [...queues, { object, broker, virtualhost: row.virtualhost, queue: row.name }];
  field.value = "";
  putIntoAddress();
  load();
});

// -- the chart -------------------------------------------------------------------------------------------------------

function show() {
  showRows();
  if (!queues.length) {
    chart.clear();
    setText(byId("resolution"), "");
    showEmpty(
      byId("chart"),
      h("strong", {}, "No queues chosen."),
      ` Add up to ${settings.most} here, or select rows on the overview.`,
    );
    return;
  }
  if (!queues.every((queue) => answers.of(queue))) return;
  const { series: first } = answers.of(queues[0]);
  setText(byId("resolution"), describeResolution(first));
  chart.show(first.from, first.until, (/** @type {any} */ figure) => {
    figure.layout.yaxis.title.text = MEASURES[measure].axis;
    const gaps = first.unwatched.map((/** @type {any} */ [from, until]) => ({
      from,
      until,
      text: `No data for ${duration(until - from)}`,
    }));
    putSpans(figure, "unwatched", gaps);
    figure.data.forEach((/** @type {any} */ trace) => {
      const [, number] = /^queue-(\d+)$/.exec(trace.meta) ?? [];
      if (number === undefined) return;
      const queue = queues[Number(number)];
      trace.visible = Boolean(queue);
      if (!queue) return;
      const answer = answers.of(queue);
      const { x, values } = lineOf(answer.series);
      trace.name = plain(middle(title(queue), 40));
      trace.x = x;
      trace.y = values(valuesOf(answer.series, measure));
    });
  });
  byId("chart").setAttribute(
    "aria-label",
    `${MEASURES[measure].title} of ${queues.map((queue) => queue.queue).join(", ")} over time`,
  );
}

/**
 * @param {any} queue
 * @param {AbortSignal} signal
 */
async function read(queue, signal) {
  const parameters = { broker, virtualhost: queue.virtualhost, queue: queue.queue, ...range.query };
  const [series, episodes] = await Promise.all([
    fetchHistory("series", parameters, signal),
    fetchHistory("episodes", { ...parameters, kind: "overfull", page_size: 500, sort: "-duration" }, signal),
  ]);
  const now = serverNow();
  const time = overfullTime(episodes.results, series, (episode) => knownUntil(episode, now));
  const known = series.known > 0 || episodes.count > 0;
  const least = episodes.count > episodes.results.length ? "≥ " : "";
  const overfull = known ? `${least}${duration(time)}` : "–";
  const ms = series.total_blocked_ms;
  return { series, overfull, blocked: known && ms !== null ? duration(ms) : "–" };
}

function request() {
  range.renew();
  const wanted = queues;
  if (!wanted.length) return show();
  return loading.load(
    "chart",
    (/** @type {AbortSignal} */ signal) => Promise.all(wanted.map((queue) => read(queue, signal))),
    (/** @type {any[]} */ found_) => {
      const whole = answers.take(wanted, found_, queues);
      show();
      if (!whole) load();
    },
    byId("chart"),
    () => {
      chart.clear();
      load();
    },
  );
}

const isShort = () => range.until - range.from <= 3_600_000;
const { run: load, tick } = withTicks(request);
range.addEventListener("change", load);
repeat(tick, () => range.live && isShort() && !byId("history").hidden, LIVE);
repeat(tick, () => range.live && !isShort() && !byId("history").hidden, 15_000);
begin((/** @type {any} */ catalog) => {
  const ours = catalog.brokers.find((/** @type {any} */ one) => one.broker === broker);
  if (ours) range.known = [ours];
}, load);
