// The list of connections, with a search that also finds producers by queue, link and client.

import { get, query } from "../core/api.js";
import { UNKNOWN, whenBack } from "../core/away.js";
import { watch } from "../core/connection.js";
import { byId, fill, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { count, plural } from "../core/format.js";
import { objectUrl } from "../core/object_names.js";
import { poll } from "../core/polling.js";
import { settings } from "../core/settings.js";
import { setSince, sinceElement } from "../core/times.js";
import { Pager, storedSize } from "../widgets/pager.js";
import {
  chosen,
  clientName,
  clientUrl,
  durationCell,
  linkCell,
  ownMark,
  stateCell,
  updateDuration,
  updateState,
} from "./client_links.js";

const FOUND = 50; // producers that a search lists
const objects = `brokers/${encodeURIComponent(settings.broker)}/objects/`;
const search = byId("search");
const heads = [...byId("connections").querySelectorAll("th[data-sort]")];
const empty = byId("connections-empty");
const pager = new Pager(byId("connections-pager"), { what: "connection", size: storedSize(), turn });
const given = new URLSearchParams(location.search);
const view = {
  search: given.get("search") ?? "",
  sort: given.get("sort") ?? "",
  page: Math.max(1, Number.parseInt(given.get("page") ?? "1", 10) || 1),
};
const USUAL = "-blocked_producers"; // what the list is sorted by, unless the user says otherwise
/** @type {any} */
let types = null;

/** @param {string} type */
const declares = (type) => types.find((/** @type {any} */ each) => each.name === type);

async function read() {
  if (!types) {
    const answer = await get(`brokers/${encodeURIComponent(settings.broker)}/types/`);
    types = Array.isArray(answer) ? answer : (answer.types ?? []);
  }
  const connection = declares("Connection");
  if (!connection) return { connections: null, producers: null };
  const names = connection.attributes.map((/** @type {any} */ each) => each.name);
  const sort = view.sort || USUAL;
  showSort(names);
  const [connections, producers] = await Promise.all([
    get(
      objects +
        query({
          type: "Connection",
          search: view.search,
          sort: names.includes(sort.replace("-", "")) ? sort : "",
          offset: (view.page - 1) * pager.size,
          count: pager.size,
        }),
    ),
    view.search && declares("Producer")
      ? get(objects + query({ type: "Producer", search: view.search, count: FOUND }))
      : null,
  ]);
  return { connections, producers };
}

/** @param {any} item */
function connectionRow(item) {
  const attributes = item.attributes;
  const client = clientUrl(attributes);
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row" },
      h("a", { href: client ?? objectUrl(item.name) }, h("bdi", {}, clientName(attributes))),
      ownMark(attributes),
      h(
        "small",
        { class: "muted" },
        h("a", { href: objectUrl(item.name) }, `Connection ${attributes.id}`),
        ` in ${attributes.virtualhost}`,
      ),
    ),
    h("td", { "data-label": "Address" }, chosen(attributes.remote_address)),
    h(
      "td",
      { "data-label": "Library" },
      chosen([attributes.product, attributes.product_version].filter(Boolean).join(" ")),
    ),
    h("td", { class: "num", "data-label": "Connected" }, sinceElement()),
    h("td", { class: "num", "data-label": "Blocked" }),
    h("td", { class: "num", "data-label": "Consumers" }),
    h("td", { class: "num", "data-label": "Unacknowledged" }),
  );
}

/**
 * @param {any} row
 * @param {any} item
 */
function updateConnection(row, { attributes }) {
  const [, , , since, blocked, consumers, unacknowledged] = row.children;
  setSince(since.firstChild, attributes.opened);
  setText(blocked, `${count(attributes.blocked_producers)} / ${count(attributes.producers)}`);
  blocked.classList.toggle("hot", attributes.blocked_producers > 0);
  setText(consumers, count(attributes.consumers));
  setText(unacknowledged, count(attributes.unacknowledged_messages));
}

/** @param {any} item */
const producerRow = (item) =>
  h(
    "tr",
    {},
    stateCell({ object: item.name }),
    linkCell(item.attributes),
    h(
      "td",
      { "data-label": "Client" },
      item.attributes.connection
        ? h("a", { href: objectUrl(item.attributes.connection) }, chosen(item.attributes.client))
        : chosen(item.attributes.client),
    ),
    durationCell(),
  );

/**
 * @param {any} row
 * @param {any} item
 */
function updateProducer(row, { attributes }) {
  updateState(row.children[0], attributes);
  updateDuration(row.children[3], attributes);
}

/** @param {string} text */
const say = (text) => {
  empty.hidden = !text;
  fill(empty, h("p", {}, text));
};

/** @param {any} answer */
function show({ connections, producers }) {
  byId("connections").hidden = !connections?.items.length;
  byId("found").hidden = !producers?.items.length;
  if (!connections) return say("This broker does not report its connections.");
  setText(byId("clients-count"), plural(connections.total, "connection"));
  reconcile(
    byId("connection-rows"),
    connections.items,
    (/** @type {any} */ item) => item.name,
    connectionRow,
    updateConnection,
  );
  pager.show(view.page, connections.total);
  say(connections.total ? "" : view.search ? "No matching connections." : "No connections.");
  if (!producers) return undefined;
  setText(
    byId("found-count"),
    producers.total > producers.items.length
      ? `${producers.items.length} of ${count(producers.total)}`
      : count(producers.total),
  );
  reconcile(byId("found-rows"), producers.items, (/** @type {any} */ item) => item.name, producerRow, updateProducer);
  return undefined;
}

/** @param {number} page */
function turn(page) {
  view.page = page;
  const written = new URLSearchParams(location.search);
  for (const [name, value] of [
    ["search", view.search],
    ["sort", view.sort],
    ["page", page > 1 ? String(page) : ""],
  ])
    if (value) written.set(name, value);
    else written.delete(name);
  const text = written.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
  refresh();
}

/** Sort by a column that the broker reports: by the same one again in the other direction. */
for (const head of heads) {
  const button = h("button", { type: "button", class: "sort" }, ...head.childNodes);
  head.append(button);
  button.addEventListener("click", () => {
    const wanted = head.dataset.sort;
    const turned = wanted.startsWith("-") ? wanted.slice(1) : `-${wanted}`;
    view.sort = (view.sort || USUAL) === wanted ? turned : wanted;
    showSort();
    turn(1);
  });
}

/**
 * @param {string[]} [reported] attributes of connections that the broker reports, once known
 */
function showSort(reported) {
  const now = view.sort || USUAL;
  for (const head of heads) {
    const name = head.dataset.sort.replace("-", "");
    // The later it was opened, the shorter is the time that is shown.
    const falls = now.startsWith("-") !== (name === "opened");
    const mine = name === now.replace("-", "") && (!reported || reported.includes(name));
    setAttribute(head, "aria-sort", mine ? (falls ? "descending" : "ascending") : null);
    if (reported) head.querySelector("button").disabled = !reported.includes(name);
  }
}

showSort();
search.value = view.search;
let pause = 0;
search.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => {
    view.search = search.value.trim();
    turn(1);
  }, 200);
});
search.addEventListener("keydown", (/** @type {any} */ event) => {
  if (event.key !== "Escape" || !search.value) return;
  search.value = view.search = "";
  turn(1);
});
byId("filters").addEventListener("submit", (/** @type {any} */ event) => event.preventDefault());

/** Read; without an answer so far, the page says that nothing is known. */
async function request() {
  try {
    return await read();
  } catch (error) {
    if (empty.querySelector(".loading")) say(UNKNOWN);
    throw error;
  }
}

const { refresh } = poll(request, show);
whenBack(refresh);
watch({ watch: "objects", object: "" });
refresh();
