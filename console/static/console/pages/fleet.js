// All brokers: those in trouble first, their queues in one table, and their conditions and events in one stream.

import { drawing } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, fillOnce, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { count, duration, middle, plural } from "../core/format.js";
import { ofBroker, queueUrl, whyUrl } from "../core/object_names.js";
import { preferences } from "../core/preferences.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { blockedBesides, ConditionsLine } from "../widgets/conditions.js";
import { depthElement } from "../widgets/depth.js";
import { FilterChips } from "../widgets/filter_chips.js";
import { groupRow, updateGroup } from "../widgets/group_rows.js";
import { groupView, linesOf, toggle, watched } from "../widgets/group_view.js";
import { LastHour } from "../widgets/last_hour.js";
import { Pager, storedSize } from "../widgets/pager.js";
import { PinnedOrder } from "../widgets/pinned_order.js";
import { showQueue } from "../widgets/queue_cells.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { setUpTableOptions } from "../widgets/table_options.js";
import { brokerRow, kindWord, showTotals, updateBroker } from "./fleet_brokers.js";
import { showStream } from "./fleet_stream.js";

const brokerRows = byId("broker-rows");
const queueRows = byId("queue-rows");
const search = byId("search");
const heads = [...byId("queues").querySelectorAll("th[data-sort]")];
const conditions = new ConditionsLine();
const brokerOrder = new PinnedOrder(brokerRows, (row) => row.slug);
/** @param {any} queue */
const queueKey = (queue) => `${queue.broker} ${queue.object}`;
const queueOrder = new PinnedOrder(queueRows, queueKey);
const groupOrder = new PinnedOrder(queueRows, (group) => group.name);
/** The groups of the table of queues; those that were toggled stay so when the user comes back to this page. */
let grouping = groupView(preferences, history.state?.toggled);

/** What filters the brokers of the page: parameter in the URL, name in the watch, and the select element. */
const SCOPES = [
  { parameter: "of", name: "brokers", select: byId("scope-brokers") },
  { parameter: "tag", name: "tags", select: byId("scope-tags") },
  { parameter: "kind", name: "kinds", select: byId("scope-kinds") },
];

/** @type {any} */
let snapshot = null;

// -- the view: filters, sort and page, in the URL --------------------------------------------------------------------

const view = (() => {
  const given = new URLSearchParams(location.search);
  return {
    scope: Object.fromEntries(SCOPES.map(({ parameter, name }) => [name, given.get(parameter) ?? ""])),
    search: given.get("search") ?? "",
    states: new Set(given.getAll("state")),
    only: new Set(given.getAll("only").filter((name) => settings.quickFilters.includes(name))),
    sort: given.get("sort") ?? "",
    page: Math.max(1, Number.parseInt(given.get("page") ?? "1", 10) || 1),
  };
})();
const pager = new Pager(byId("queues-pager"), { what: "queue", size: storedSize(), turn });

/** Watch the brokers and queues of the view, and write it into the URL. A changed filter starts on page 1. */
function watchView(page = 1) {
  view.page = page;
  const given = new URLSearchParams();
  for (const { parameter, name } of SCOPES) if (view.scope[name]) given.set(parameter, view.scope[name]);
  if (view.search) given.set("search", view.search);
  for (const state of view.states) given.append("state", state);
  for (const name of view.only) given.append("only", name);
  if (view.sort) given.set("sort", view.sort);
  if (view.page > 1) given.set("page", String(view.page));
  const text = given.toString();
  history.replaceState({ toggled: [...grouping.toggled] }, "", text ? `?${text}` : location.pathname);
  brokerOrder.reset();
  queueOrder.reset();
  groupOrder.reset();
  watch({
    watch: "fleet",
    ...Object.fromEntries(SCOPES.map(({ name }) => [name, view.scope[name] ? [view.scope[name]] : []])),
    search: view.search,
    states: [...view.states],
    only: [...view.only],
    sort: view.sort,
    page: view.page,
    page_size: pager.size,
    ...watched(grouping),
  });
}

/** @param {string} name */
function toggleGroup(name) {
  toggle(grouping, name);
  watchView(view.page);
}

/** Group as the preferences say now. */
function regroup() {
  grouping = groupView(preferences);
  watchView();
}

/** @param {any} page */
function turn(page) {
  watchView(page);
  byId("queues-title").scrollIntoView({ block: "nearest" });
}

for (const { name, select } of SCOPES) {
  select.addEventListener("change", () => {
    view.scope[name] = select.value;
    watchView();
    showActs();
  });
}

search.value = view.search;
let pause = 0;
search.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => {
    view.search = search.value.trim();
    watchView();
  }, 200);
});
for (const id of ["filters", "scope"])
  byId(id).addEventListener("submit", (/** @type {any} */ e) => e.preventDefault());
search.addEventListener("keydown", (/** @type {any} */ event) => {
  if (event.key === "Escape" && search.value) {
    search.value = view.search = "";
    watchView();
  }
});

new FilterChips(view, () => watchView());

for (const head of heads) {
  const button = h("button", { type: "button", class: "sort" }, ...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const wanted = head.dataset.sort;
    const turned = wanted.startsWith("-") ? wanted.slice(1) : wanted && `-${wanted}`;
    view.sort = view.sort === wanted ? turned : wanted;
    showSort();
    watchView();
  });
}

function showSort() {
  for (const head of heads) {
    const name = head.dataset.sort.replace("-", "");
    const mine = view.sort.replace("-", "") === name;
    setAttribute(head, "aria-sort", mine ? (view.sort.startsWith("-") || !name ? "descending" : "ascending") : null);
  }
}

/** @param {any} choices */
function showChoices(choices) {
  /** @type {Record<string, [string, string][]>} */
  const options = {
    brokers: choices.brokers.map((/** @type {any} */ each) => [each.slug, each.title]),
    tags: choices.tags.map((/** @type {string} */ tag) => [tag, tag]),
    kinds: choices.kinds.map((/** @type {string} */ kind) => [kind, kindWord(kind)]),
  };
  for (const { name, select } of SCOPES) {
    const text = JSON.stringify(options[name]);
    if (select.dataset.choices === text) continue;
    select.dataset.choices = text;
    fill(select, select.options[0], ...options[name].map(([value, title]) => h("option", { value }, title)));
    select.value = view.scope[name];
    const chosen = select.value === view.scope[name];
    if (!chosen) select.append(h("option", { value: view.scope[name], selected: true }, view.scope[name]));
    select.parentElement.hidden = options[name].length < 2 && !view.scope[name];
  }
}

// -- queues ----------------------------------------------------------------------------------------------------------

/** @param {any} queue */
function queueRow(queue) {
  /**
   * @param {string} label
   * @param {any} attributes
   * @param {...any} children
   */
  const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);
  const href = queueUrl(queue.virtualhost, queue.name, queue.broker);
  return h(
    "tr",
    {},
    cell("State", { class: "c-state" }, h("span", { class: "state" })),
    h(
      "th",
      { scope: "row", class: "c-name" },
      h("a", { href, title: `${queue.name} on ${queue.virtualhost}` }, middle(queue.name)),
      h("span", { class: "muted vh" }, queue.virtualhost),
    ),
    cell("Broker", { class: "c-broker" }, h("a", { href: ofBroker("/", queue.broker) })),
    cell("Depth", { class: "c-depth" }, depthElement()),
    cell("Blocked", { class: "num c-blocked" }, h("a", { href: whyUrl(queue.object, queue.broker) }), h("span")),
    cell("Consumers", { class: "num c-consumers" }),
    cell("In /s", { class: "num c-in" }),
    cell("Out /s", { class: "num c-out" }),
    cell("Unacknowledged", { class: "num c-unacknowledged" }),
    cell("Duration", { class: "c-since" }, sinceElement()),
  );
}

/**
 * @param {any} node
 * @param {any} queue
 */
function updateQueue(node, queue) {
  const [state, , broker, depth, blocked, consumers, rateIn, rateOut, unacknowledged, since] = node.children;
  node.dataset.state = queue.state;
  node.classList.toggle("outdated", queue.stale);
  setText(broker.firstChild, queue.broker_title);
  setAttribute(broker, "title", queue.stale ? "The broker is disconnected: values of its last snapshot" : null);
  showQueue(
    {
      state: state.firstChild,
      depth: depth.firstChild,
      blocked,
      consumers,
      rateIn,
      rateOut,
      unacknowledged,
      since: since.firstChild,
    },
    queue.stale ? { ...queue, overfull_since: null, stopped_since: null } : queue,
  );
  if (queue.stale) setText(since.firstChild, lasted(queue));
}

/**
 * How long a queue had been overfull or stopped at the time of its broker's snapshot.
 *
 * @param {any} queue
 */
function lasted({ broker, overfull_since: overfull, stopped_since: stopped }) {
  const asOf = snapshot.data.brokers.find((/** @type {any} */ row) => row.slug === broker)?.as_of;
  const began = Math.min(overfull ?? Number.POSITIVE_INFINITY, stopped ?? Number.POSITIVE_INFINITY);
  return asOf && Number.isFinite(began) ? duration(asOf - began) : "";
}

// -- the page --------------------------------------------------------------------------------------------------------

/**
 * @param {any} element
 * @param {any} shown
 * @param {string} text
 */
function emptyOr(element, shown, text) {
  element.hidden = shown;
  if (!shown) fillOnce(element, text, () => h("p", {}, h("strong", {}, text)));
}

/** @type {any} */
const render = drawing(() => {
  if (!snapshot) return;
  const { data } = snapshot;
  showChoices(data.choices);
  showTotals(data.totals);
  conditions.show(data.conditions, data.conditions_total, blockedBesides(data.totals) ?? "No active conditions");
  reconcile(brokerRows, brokerOrder.of(data.brokers), (row) => row.slug, brokerRow, updateBroker);
  byId("brokers").hidden = !data.brokers.length;
  emptyOr(byId("brokers-empty"), data.brokers.length > 0, "No matching brokers.");
  const grouped = data.groups && data.group === grouping.by ? data.groups : null;
  reconcile(
    queueRows,
    linesOf(grouped ? groupOrder.of(grouped) : undefined, queueOrder.of(data.queues), queueKey),
    (line) => line.key,
    (line) => (line.group ? groupRow(line.group, toggleGroup) : queueRow(line.queue)),
    (node, line) => (line.group ? updateGroup(node, line.group) : updateQueue(node, line.queue)),
  );
  byId("queues").hidden = !data.total;
  const filtered = view.search || view.states.size || view.only.size || scoped();
  emptyOr(byId("queues-empty"), data.total > 0, filtered ? "No matching queues." : "No queues.");
  const inGroups = grouped ? ` in ${plural(data.groups_total, "group")}` : "";
  setText(byId("queues-count"), `${count(data.total)}${inGroups}`);
  if (grouped) pager.show(data.page, data.lines, "row");
  else pager.show(data.page, data.total);
  showStream(data.stream);
});

/** The brokers of the page. Of very many the history adds up all that are recorded: an address has a limit. */
const slugs = () => (snapshot?.data.brokers ?? []).map((/** @type {any} */ row) => row.slug);
const scoped = () => Object.values(view.scope).some(Boolean);
/** Whether the newest snapshot is of the filter of brokers: until then the page does not know which brokers match. */
const answered = () => SCOPES.every(({ name }) => snapshot?.data.of[name].join() === view.scope[name]);
const lastHour = new LastHour(() => {
  if (!scoped()) return slugs().length <= 50 ? slugs() : [];
  if (!answered()) return undefined;
  return slugs().length ? slugs() : null;
});
let added = "";

live.addEventListener("snapshot", (event) => {
  snapshot = event.detail;
  render();
  showActs();
  const members = `${answered()} ${slugs().sort().join(" ")}`;
  if (members !== added) lastHour.load();
  added = members;
});
live.addEventListener("refused", (event) => {
  emptyOr(byId("queues-empty"), false, `Invalid filter. ${event.detail.detail ?? ""}`);
});
for (const rows of [brokerRows, queueRows]) rows.addEventListener("pointerleave", render);

/** @param {string} action */
function openForAll(action) {
  if (scoped() && !answered()) return;
  openStopDialog(action, { scope: "type=Broker", brokers: scoped() ? slugs() : ["*"] });
}
/** Stop and start all are for the brokers of the filter: not while those are of the filter before. */
function showActs() {
  for (const id of ["stop-all", "start-all"]) byId(id).disabled = scoped() && !answered();
}
byId("stop-all").addEventListener("click", () => openForAll("stop"));
byId("start-all").addEventListener("click", () => openForAll("start"));

setUpTableOptions(byId("queues"), regroup);
showSort();
showActs();
watchView(view.page);
