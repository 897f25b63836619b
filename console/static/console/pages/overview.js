// The overview: all queues, those with problems first, updated in place.

import { atThatTime, drawing, UNKNOWN } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, find, h, icon, reconcile, setAttribute, setText } from "../core/elements.js";
import { bytes, count, exact, exactAmount, middle, plural } from "../core/format.js";
import { ofBroker, queueUrl, whyUrl } from "../core/object_names.js";
import { acting, may } from "../core/permissions.js";
import { preferences } from "../core/preferences.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { showHealth } from "../widgets/broker_health.js";
import { blockedBesides, ConditionsLine } from "../widgets/conditions.js";
import { depthElement } from "../widgets/depth.js";
import { Feed } from "../widgets/event_feed.js";
import { FilterChips } from "../widgets/filter_chips.js";
import { groupRow, updateGroup } from "../widgets/group_rows.js";
import { groupView, linesOf, toggle, watched } from "../widgets/group_view.js";
import { LastHour } from "../widgets/last_hour.js";
import { Pager, storedSize } from "../widgets/pager.js";
import { PinnedOrder } from "../widgets/pinned_order.js";
import { showQueue } from "../widgets/queue_cells.js";
import { SavedChooser } from "../widgets/saved_selections.js";
import { showStops } from "../widgets/stop_banner.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { setUpTableOptions } from "../widgets/table_options.js";
import { showFirstSteps } from "./first_steps.js";
import { Selection } from "./selection.js";

const rows = byId("queue-rows");
const table = byId("queues");
const empty = byId("queues-empty");
const search = byId("search");
const heads = [...table.querySelectorAll("th[data-sort]")];
const feed = new Feed(byId("feed"), byId("feed-note"));

const conditions = new ConditionsLine();
new LastHour(() => [settings.broker]);
const selection = new Selection(byId("selection"), (/** @type {any} */ made) => saved.load(made.id));

/** @type {any} */
let snapshot = null;
const order = new PinnedOrder(rows, (queue) => queue.object);
const groupOrder = new PinnedOrder(rows, (group) => group.name);
/** The groups of the table; those that were toggled stay so when the user comes back to this page. */
let grouping = groupView(preferences, history.state?.toggled);

// -- the view: filter, sort and page, in the URL -----------------------------------------------------------------

const view = (() => {
  const given = new URLSearchParams(location.search);
  return {
    search: given.get("search") ?? "",
    states: new Set(given.getAll("state")),
    only: new Set(given.getAll("only").filter((name) => settings.quickFilters.includes(name))),
    sort: given.get("sort") ?? "",
    page: Math.max(1, Number.parseInt(given.get("page") ?? "1", 10) || 1),
  };
})();
const pager = new Pager(byId("queues-pager"), { what: "queue", size: storedSize(), turn });

/** Watch the queues of the view, and write it into the URL. A changed filter starts on page 1. */
function watchView(page = 1) {
  view.page = page;
  const given = new URLSearchParams();
  const broker = new URLSearchParams(location.search).get("broker");
  if (broker) given.set("broker", broker);
  if (view.search) given.set("search", view.search);
  for (const state of view.states) given.append("state", state);
  for (const name of view.only) given.append("only", name);
  if (view.sort) given.set("sort", view.sort);
  if (view.page > 1) given.set("page", String(view.page));
  const text = given.toString();
  history.replaceState({ toggled: [...grouping.toggled] }, "", text ? `?${text}` : location.pathname);
  order.reset();
  groupOrder.reset();
  showSelection();
  watch({
    watch: "overview",
    search: view.search,
    states: [...view.states],
    only: [...view.only],
    sort: view.sort,
    page: view.page,
    page_size: pager.size,
    ...watched(grouping),
  });
}

/** @param {any} page */
function turn(page) {
  watchView(page);
  byId("queues-box").scrollTop = 0;
}

search.value = view.search;
let pause = 0;
search.addEventListener("input", () => {
  showSelection(); // the count is of the filter before
  clearTimeout(pause);
  pause = setTimeout(() => {
    view.search = search.value.trim();
    watchView();
  }, 120);
});
byId("filters").addEventListener("submit", (/** @type {any} */ event) => event.preventDefault());
search.addEventListener("keydown", (/** @type {any} */ event) => {
  if (event.key === "Escape" && search.value) {
    search.value = view.search = "";
    watchView();
  }
});

const chips = new FilterChips(view, () => watchView());

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

/** Offer actions for the filter; with the number of matching queues if the newest snapshot is of this filter. */
function showSelection() {
  const text = search.value.trim();
  const [chosen, only] = [[...view.states], [...view.only]];
  /** @type {any} */
  const { search: answered, states: within, only: among, total: found } = snapshot?.data ?? {};
  /**
   * @param {string[]} given
   * @param {string[] | undefined} shown
   */
  const same = (given, shown) => shown?.length === given.length && given.every((each) => shown.includes(each));
  /** @type {any} */
  const current = snapshot !== null && answered === text && same(chosen, within) && same(only, among);
  selection.filtered(
    text || chosen.length || only.length ? { search: text, states: chosen, only, total: current ? found : null } : null,
  );
}

// -- saved selections ----------------------------------------------------------------------------------------------

const saved = new SavedChooser(byId("saved-box"), (/** @type {any} */ chosen) => {
  selection.pick(chosen?.queues ?? []);
  search.value = view.search = chosen?.queues ? "" : (chosen?.search ?? "");
  view.states.clear();
  for (const state of chosen?.queues ? [] : (chosen?.states ?? [])) view.states.add(state);
  view.only.clear();
  for (const name of chosen?.queues ? [] : (chosen?.only ?? [])) view.only.add(name);
  chips.show();
  watchView();
});
for (const element of [search, byId("states"), byId("quick")]) element.addEventListener("input", () => saved.forget());

// -- rows -------------------------------------------------------------------------------------------------------

/** @param {any} queue */
function row(queue) {
  const act = h("button", { type: "button", class: "quiet row-act", ...acting("operate", queue.virtualhost) });
  act.addEventListener("click", () => openStopDialog(act.dataset.action, queue.object));
  /**
   * @param {string} label
   * @param {any} attributes
   * @param {...any} children
   */
  const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);
  return h(
    "tr",
    {},
    cell("State", { class: "c-state" }, selection.box(queue.object, queue.name), h("span", { class: "state" })),
    h(
      "th",
      { scope: "row", class: "c-name" },
      h(
        "a",
        { href: queueUrl(queue.virtualhost, queue.name), title: `${queue.name} on ${queue.virtualhost}` },
        middle(queue.name),
      ),
      h("span", { class: "muted vh" }, queue.virtualhost),
    ),
    cell("Depth", { class: "c-depth" }, depthElement()),
    cell("Blocked", { class: "num c-blocked" }, h("a", { href: whyUrl(queue.object) }), h("span")),
    cell("Consumers", { class: "num c-consumers" }),
    cell("In /s", { class: "num c-in" }),
    cell("Out /s", { class: "num c-out" }),
    cell("Unacknowledged", { class: "num c-unacknowledged" }),
    cell("Duration", { class: "c-since" }, sinceElement()),
    cell("", { class: "c-act" }, act),
  );
}

/**
 * @param {any} node
 * @param {any} queue
 */
function update(node, queue) {
  const [state, , depth, blocked, consumers, rateIn, rateOut, unacknowledged, since, act] = node.children;
  node.dataset.state = queue.state;
  showQueue(
    {
      state: state.lastChild,
      depth: depth.firstChild,
      blocked,
      consumers,
      rateIn,
      rateOut,
      unacknowledged,
      since: since.firstChild,
    },
    queue,
  );
  const stopped = queue.state?.includes("STOPPED");
  const action = stopped ? "start" : "stop";
  const button = act.firstChild;
  if (button.dataset.action !== action) {
    button.dataset.action = action;
    fill(button, icon(action), stopped ? "Start" : "Stop");
    button.title = may("operate", queue.virtualhost)
      ? `${stopped ? "Start" : "Stop"} the producers of ${queue.name}`
      : "Actions require the role of operator";
    button.setAttribute("aria-label", `${stopped ? "Start" : "Stop"} producers of ${queue.name}`);
  }
}

// -- groups -----------------------------------------------------------------------------------------------------

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

// -- the page ---------------------------------------------------------------------------------------------------

const TOTALS = [
  "queues",
  "overfull_queues",
  "stopped_queues",
  "blocked_producers",
  "consumers",
  "connections",
  "depth",
];

/**
 * @param {any} name
 * @param {string} text
 * @param {string | null} title
 * @param {boolean} [hot]
 */
function total(name, text, title, hot = false) {
  const element = find(`[data-total="${name}"]`);
  setText(element.firstElementChild, text);
  setAttribute(element, "title", title);
  element.classList.toggle("hot", hot);
}

/** @type {any} */
const render = drawing(() => {
  if (!snapshot) return;
  const {
    totals,
    queues,
    total: all,
    page,
    group,
    groups,
    groups_total: groupsTotal,
    lines,
    stops,
    conditions: worst = [],
    conditions_total: conditionsTotal = 0,
  } = snapshot.data;
  if (!snapshot.connected && totals?.queues === undefined) {
    for (const name of TOTALS) total(name, "–", null);
    setText(find('[data-total="depth"] .total-name'), "messages");
    setText(byId("queues-count"), "");
    pager.show(1, 0);
    conditions.unknown("not known");
    fill(
      empty,
      h("p", {}, h("strong", {}, `${settings.brokerTitle} has not answered yet.`)),
      h("p", {}, `${UNKNOWN} Is it running? The console reconnects automatically and then lists the queues.`),
    );
    delete empty.dataset.shown;
    empty.hidden = false;
    table.hidden = true;
    return;
  }
  /**
   * The mark of a sum in which values are missing.
   *
   * @param {string} name
   */
  const mark = (name) => (totals[name] !== null && totals.partial?.includes(name) ? "≥ " : "");
  /** @param {string} name */
  const sum = (name) => mark(name) + count(totals[name]);
  /** @param {string} name */
  const missing = (name) =>
    totals.partial?.includes(name) ? "Not known for each queue: the sum of those that are" : null;
  total("queues", count(totals.queues), exactAmount(totals.queues, "queues"));
  total("overfull_queues", sum("overfull_queues"), missing("overfull_queues"), totals.overfull_queues > 0);
  total("stopped_queues", sum("stopped_queues"), missing("stopped_queues"), totals.stopped_queues > 0);
  total(
    "blocked_producers",
    `${sum("blocked_producers")} / ${sum("producers")}`,
    missing("blocked_producers") ??
      missing("producers") ??
      `${exact(totals.blocked_producers)} of ${exactAmount(totals.producers, "producers")} blocked`,
    totals.blocked_producers > 0,
  );
  total("consumers", sum("consumers"), missing("consumers") ?? exactAmount(totals.consumers, "consumers"));
  total("connections", count(totals.connections), exactAmount(totals.connections, "connections"));
  total(
    "depth",
    mark("depth_bytes") + bytes(totals.depth_bytes),
    missing("depth_bytes") ??
      missing("depth_messages") ??
      `${exactAmount(totals.depth_messages, "messages")}, ${exactAmount(totals.depth_bytes, "bytes")}`,
  );
  setText(
    find('[data-total="depth"] .total-name'),
    `in ${sum("depth_messages")} ${totals.depth_messages === 1 ? "message" : "messages"}`,
  );
  showHealth(totals);
  showStops(stops ?? []);
  conditions.show(worst, conditionsTotal, blockedBesides(totals));
  showSelection();
  const grouped = groups && group === grouping.by ? groups : null;
  reconcile(
    rows,
    linesOf(grouped ? groupOrder.of(grouped) : undefined, order.of(queues)),
    (line) => line.key,
    (line) => (line.group ? groupRow(line.group, toggleGroup) : row(line.queue)),
    (node, line) => (line.group ? updateGroup(node, line.group) : update(node, line.queue)),
  );
  setText(byId("queues-count"), grouped ? `${count(all)} in ${plural(groupsTotal, "group")}` : count(all));
  if (grouped) pager.show(page, lines, "row");
  else pager.show(page, all);
  table.hidden = all === 0;
  empty.hidden = all > 0;
  if (!all) showEmpty();
});

function showEmpty() {
  const filtered = view.search || view.states.size || view.only.size;
  const now = `${filtered ? "filtered" : "none"}${atThatTime()}`;
  if (empty.dataset.shown === now) return;
  empty.dataset.shown = now;
  if (filtered) {
    const clear = () => {
      search.value = view.search = "";
      view.states.clear();
      view.only.clear();
      chips.show();
      watchView();
    };
    fill(
      empty,
      h("p", {}, h("strong", {}, `No matching queues${atThatTime()}.`)),
      h("p", {}, h("button", { type: "button", on: { click: clear } }, "Show all queues")),
      view.search
        ? h(
            "p",
            {},
            h("a", { href: ofBroker(`/clients/?${new URLSearchParams({ search: view.search })}`) }, "Search clients"),
          )
        : null,
    );
  } else {
    showFirstSteps(empty);
  }
}

live.addEventListener("snapshot", (event) => {
  snapshot = event.detail;
  render();
});
live.addEventListener("refused", (event) => {
  fill(empty, h("p", {}, h("strong", {}, "Invalid filter.")), h("p", {}, event.detail.detail ?? ""));
  empty.hidden = false;
});
live.addEventListener("events", (event) => feed.add(event.detail.events, event.detail.reset));
rows.addEventListener("pointerleave", render);

byId("stop-all").addEventListener("click", () => openStopDialog("stop", "type=Broker"));
byId("start-all").addEventListener("click", () => openStopDialog("start", "type=Broker"));

setUpTableOptions(byId("queues"), regroup);
showSort();
watchView(view.page);
