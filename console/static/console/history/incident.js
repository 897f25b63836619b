// An incident: a time range with its charts and all its events in order, on a page with a permanent link.

import { byId, fill, h, setAttribute, setText } from "../core/elements.js";
import { duration, exact, moment, plural } from "../core/format.js";
import { addressMoment } from "../core/moments.js";
import { serverNow } from "../core/server_clock.js";
import { brokerTitle, settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { QueueChart } from "./chart.js";
import { begin, fetchHistory, fileUrl, historyQueueUrl, Loading, showEmpty } from "./data.js";
import { endInWords } from "./episode_end.js";
import { eventLine } from "./events.js";
import { RangePicker } from "./range_picker.js";

const MARKS = ["producers-stopped", "producers-started", "policy-changed", "queue-purged"];
const GROUPS = {
  flow: "Flow control",
  producers: "Producers",
  operators: "Edits and actions",
  broker: "Broker and clients",
};
const DEFAULT_GROUPS = ["flow", "producers", "operators"];
const CHARTS = 4;
const SIZE = 200;

const search = new URLSearchParams(location.search);
/** @type {Record<string, any>} */
const about = {
  broker: search.get("broker") ?? "",
  virtualhost: search.get("virtualhost") ?? "",
  queue: search.get("queue") ?? "",
};
const range = new RangePicker(byId("range"), { initial: "1h", fixed: true });
const loading = new Loading();
let groups = new Set(search.getAll("group").filter((name) => name in GROUPS));
if (!groups.size) groups = new Set(DEFAULT_GROUPS);
let several = false;
let awaited = false; // an answer with events

// -- broker and queue ---------------------------------------------------------------------------------------------

const form = byId("about");
for (const name of ["broker", "queue", "virtualhost"]) form.elements[name].value = about[name];
form.addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  const url = new URL(location.href);
  for (const name of ["broker", "queue", "virtualhost"]) {
    about[name] = form.elements[name].value.trim();
    if (about[name]) url.searchParams.set(name, about[name]);
    else url.searchParams.delete(name);
  }
  history.pushState(null, "", url);
  load();
});

/** @type {any} */
let suggestTimer = null;
form.elements.queue.addEventListener("input", () => {
  clearTimeout(suggestTimer);
  suggestTimer = setTimeout(async () => {
    try {
      const found = await fetchHistory("queues", {
        search: form.elements.queue.value.trim(),
        broker: form.elements.broker.value,
        count: 20,
      });
      fill(
        byId("queue-names"),
        found.map((/** @type {any} */ one) => h("option", { value: one.name }, one.virtualhost)),
      );
    } catch {
      // Suggestions only: the name may be typed.
    }
  }, 200);
});

byId("copy").addEventListener("click", async () => {
  const url = new URL(location.href);
  url.searchParams.delete("range");
  url.searchParams.set("from", addressMoment(range.from));
  url.searchParams.set("until", addressMoment(range.until));
  try {
    await navigator.clipboard.writeText(url.href);
    toast("Link copied.");
  } catch {
    toast(`Copying failed. Copy this link: ${url.href}`, "error");
  }
});

// -- charts -------------------------------------------------------------------------------------------------------

const charts = new Map();

/** @param {any} key */
function chartOf(key) {
  const name = JSON.stringify(key);
  if (!charts.has(name)) {
    const box = h(
      "div",
      { class: "chart small", role: "img", "aria-label": `Depth of ${key.queue}` },
      h("p", { class: "loading" }, "Loading…"),
    );
    const link = h("a", { href: "#" }, key.queue);
    const head = h(
      "header",
      { class: "card-head" },
      h(
        "h3",
        {},
        link,
        " ",
        h(
          "span",
          { class: "muted" },
          [key.virtualhost === "default" ? "" : key.virtualhost, several ? brokerTitle(key.broker) : ""]
            .filter(Boolean)
            .join(" · "),
        ),
      ),
      h("span", { class: "muted small" }),
    );
    const section = h("section", { class: "card" }, head, box);
    const chart = new QueueChart(box, settings.figures, {
      zoomed: (/** @type {any} */ from, /** @type {any} */ until) => range.set(from, until),
      widen: () => range.widen(),
    });
    charts.set(name, { section, box, chart, link, note: head.lastChild });
  }
  return charts.get(name);
}

/** @param {any} keys */
function showCharts(keys) {
  const box = byId("charts");
  fill(
    box,
    keys.map((/** @type {any} */ key) => chartOf(key).section),
  );
  if (!keys.length) {
    fill(
      box,
      h(
        "section",
        { class: "card" },
        h(
          "div",
          { class: "empty" },
          h("p", {}, "No overfull queues recorded in this range."),
          h("p", {}, "Enter a queue above to see its depth."),
        ),
      ),
    );
    return;
  }
  for (const key of keys) {
    const one = chartOf(key);
    const parameters = { ...key, ...range.query };
    one.link.href = historyQueueUrl(key, { from: addressMoment(range.from), until: addressMoment(range.until) });
    loading.load(
      `chart ${JSON.stringify(key)}`,
      (/** @type {AbortSignal} */ signal) =>
        Promise.all([
          fetchHistory("series", parameters, signal),
          fetchHistory("episodes", { ...parameters, page_size: 200, sort: "-duration" }, signal),
          fetchHistory("events", { ...parameters, kind: MARKS, page_size: 100 }, signal),
        ]),
      (/** @type {any} */ [series, episodes, marks]) => {
        const bytes =
          !series.capacity_messages.some((/** @type {any} */ value) => value) &&
          series.capacity_bytes.some((/** @type {any} */ value) => value);
        if (!series.known && !episodes.count) {
          one.chart.clear();
          showEmpty(one.box, "No data in this range.");
          return;
        }
        one.chart.unit = bytes ? "bytes" : "messages";
        const ends = episodes.results
          .map((/** @type {any} */ episode) => [episode.kind, endInWords(episode, serverNow())])
          .filter((/** @type {any} */ [, end]) => end && end !== "ongoing")
          .map((/** @type {any} */ [kind, end]) => `${kind}: ${end}`);
        setText(one.note, ends.slice(0, 1).join());
        one.chart.show(series, episodes.results, marks.results, { height: keys.length === 1 ? 360 : 250 });
      },
      one.box,
      load,
    );
  }
}

/**
 * The queues to chart: the entered one, or the most blocked ones; the most overfull ones of a broker that does not
 * report the blocked producers of queues.
 *
 * @param {AbortSignal} signal
 */
async function keysOf(signal) {
  if (about.queue)
    return [
      { broker: about.broker || settings.broker, virtualhost: about.virtualhost || "default", queue: about.queue },
    ];
  const measure = settings.unreported.includes(about.broker) ? "overfull" : "blocked";
  const top = await fetchHistory(
    "top",
    { ...range.query, broker: about.broker, of: "queues", measure, count: CHARTS },
    signal,
  );
  return top.rows.map((/** @type {any} */ one) => ({
    broker: one.broker,
    virtualhost: one.virtualhost,
    queue: one.name,
  }));
}

// -- events -------------------------------------------------------------------------------------------------------

const words = byId("search");
/** @type {any} */
let wait = null;
words.addEventListener("input", () => {
  clearTimeout(wait);
  wait = setTimeout(loadEvents, 250);
});

const eventParameters = () => ({ ...range.query, ...about, search: words.value.trim() });

/** @param {any} answer */
function showEvents(answer) {
  setText(byId("events-count"), answer.count ? exact(answer.count) : "");
  for (const [name, n] of Object.entries(answer.groups)) {
    const chip = byId("groups").querySelector(`[data-group="${name}"]`);
    setText(chip.querySelector(".chip-count"), exact(n));
  }
  const lines = answer.results.map((/** @type {any} */ event) => eventLine(event, { several }));
  const list = byId("timeline");
  if (answer.page === 1) fill(list, lines);
  else list.append(...lines);
  const left = answer.count - list.children.length;
  byId("more").hidden = left <= 0;
  awaited = false;
  setText(byId("more"), `Show ${plural(Math.min(left, SIZE), "more event")} of ${exact(left)}`);
  fill(byId("events-note"));
  if (!answer.count) {
    const others = Object.values(answer.groups).reduce((all, n) => all + n, 0);
    showEmpty(
      byId("events-note"),
      others
        ? "No events of the selected groups in this range."
        : words.value
          ? "No matching events."
          : "No events recorded in this range.",
    );
  }
  /**
   * @param {any} kind
   * @param {string} label
   */
  const link = (kind, label) =>
    h("a", { href: fileUrl("events", { ...eventParameters(), group: [...groups] }, kind), download: "" }, label);
  fill(byId("events-files"), answer.count ? ["Export: ", link("csv", "CSV"), ", ", link("parquet", "Parquet")] : null);
}

/** Load a page of the events; the first one replaces those that are shown. */
function loadEvents(page = 1) {
  awaited = true;
  loading.load(
    "events",
    (/** @type {AbortSignal} */ signal) =>
      fetchHistory("events", { ...eventParameters(), group: [...groups], page, page_size: SIZE }, signal),
    showEvents,
    byId("events-note"),
    () => loadEvents(page),
  );
}

fill(
  byId("groups"),
  Object.entries(GROUPS).map(([name, label]) => {
    const box = h("input", { type: "checkbox", checked: groups.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) groups.add(name);
      else groups.delete(name);
      if (!groups.size) {
        groups.add(name);
        box.checked = true;
      }
      const url = new URL(location.href);
      url.searchParams.delete("group");
      if ([...groups].sort().join() !== [...DEFAULT_GROUPS].sort().join())
        for (const one of groups) url.searchParams.append("group", one);
      history.replaceState(null, "", url);
      loadEvents();
    });
    return h(
      "label",
      { class: "chip", data: { group: name } },
      box,
      h("span", {}, label),
      h("span", { class: "chip-count muted" }),
    );
  }),
);
// Not while an answer is awaited, which changes what follows. The button stays enabled, so that it retains the focus.
byId("more").addEventListener("click", () => {
  if (!awaited) loadEvents(Math.floor(byId("timeline").children.length / SIZE) + 1);
});

// -- page ---------------------------------------------------------------------------------------------------------

function load() {
  const where = about.queue
    ? `queue ${about.queue}`
    : about.broker
      ? `broker ${brokerTitle(about.broker)}`
      : "all brokers";
  setText(
    byId("incident-summary"),
    `${moment(range.from)} to ${moment(range.until)} (${duration(range.until - range.from)}), ${where}`,
  );
  loading.load("keys", keysOf, showCharts, byId("charts"), load);
  loadEvents();
}

range.addEventListener("change", load);
setAttribute(byId("timeline"), "tabindex", "0");
begin((/** @type {any} */ catalog) => {
  several = catalog.brokers.length > 1;
  const names = [
    ...new Set([
      ...catalog.brokers.map((/** @type {any} */ one) => one.broker),
      ...(about.broker ? [about.broker] : []),
    ]),
  ];
  fill(
    form.elements.broker,
    h("option", { value: "" }, "All brokers"),
    names.map((name) => h("option", { value: name }, brokerTitle(name))),
  );
  form.elements.broker.value = about.broker;
  range.known = catalog.brokers;
}, load);
