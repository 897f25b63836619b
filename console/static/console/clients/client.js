// A client with all its connections, or one connection: facts, links, what blocks them, and actions. What a broker does
// not report is not known; what it cannot do has no button.

import { get } from "../core/api.js";
import { away, drawing, UNKNOWN, whenAway, whenBack } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { CounterRates } from "../core/counter_rates.js";
import { byId, fill, fillOnce, h, icon, reconcile, setText } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { count, rate, words } from "../core/format.js";
import { isolated, objectUrl, shortName } from "../core/object_names.js";
import { acting } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { stopLines } from "../widgets/stop_lines.js";
import { areStopsKnown, isOnBanner } from "../widgets/stops_in_force.js";
import { reasonInWords, valueNode } from "../widgets/values.js";
import {
  clientName,
  clientUrl,
  durationCell,
  known,
  linkCell,
  ownMark,
  stateCell,
  updateDuration,
  updateState,
} from "./client_links.js";
import { openCloseDialog } from "./close_dialog.js";
import { DepthEnds } from "./depth_ends.js";
import { listedOf } from "./listed.js";
import { appliesTo } from "./stops_here.js";

const published = new CounterRates("messages");
const delivered = new CounterRates("messages");
/** Facts of a connection that its heading or the tables have. */
const SHOWN_ELSEWHERE = new Set(["virtualhost", "id", "version"]);

/** @type {Map<string, any>} */
const types = new Map();
/** @type {any} */
let who = settings.object ? null : { user: settings.client_user, container_id: settings.container_id };

/**
 * Return how many of the objects of a type are listed, of how many; null: not known.
 *
 * @param {any} page {items, total}
 * @param {boolean} [ofListed] the connections are cut themselves
 */
const countOf = (page, ofListed = false) => {
  const text = page && listedOf(page.items.length, page.total);
  return text && ofListed ? `${text} of the listed connections` : text;
};

// -- actions -------------------------------------------------------------------------------------------------------

/** Whether stops can be restricted to clients here. */
const stopsClients = () =>
  types
    .get("VirtualHost")
    ?.operations.find((/** @type {any} */ each) => each.name === "stop-producers")
    ?.arguments.some((/** @type {any} */ each) => each.name === "container_id");

/**
 * @param {string} name icon
 * @param {string} text
 * @param {() => void} act
 * @param {string} [className]
 */
const button = (name, text, act, className = "") =>
  h(
    "button",
    { type: "button", class: className, ...acting("operate", settings.virtualhost), on: { click: act } },
    name ? icon(name) : null,
    text,
  );

/**
 * @param {any} item
 * @param {string} type
 * @param {string} what
 */
const closeButton = (item, type, what) =>
  types.get(type)?.operations.some((/** @type {any} */ each) => each.name === "close")
    ? button("", "Close…", () => openCloseDialog({ object: item.name, type: types.get(type), what, done: refresh }))
    : null;

function drawActions() {
  const aim = { scope: settings.scope, pattern: "", ...named(who) };
  const label = clientLabel(who);
  const able = stopsClients() && Boolean(who?.user || who?.container_id);
  fill(
    byId("actions"),
    able ? button("stop", "Stop this client…", () => openStopDialog("stop", { ...aim, label }), "danger") : null,
  );
}

/** @param {any} client */
const named = (client) =>
  Object.fromEntries(["user", "container_id"].filter((name) => client?.[name]).map((name) => [name, client[name]]));

/** @param {any} client */
const clientLabel = (client) =>
  [client?.user ? `user ${client.user}` : "", client?.container_id ? `container ${client.container_id}` : ""]
    .filter(Boolean)
    .join(", ");

// -- connections ---------------------------------------------------------------------------------------------------

/** @param {any} item */
function connectionNode(item) {
  const { attributes } = item;
  const declared = types.get("Connection").attributes.filter((/** @type {any} */ a) => !SHOWN_ELSEWHERE.has(a.name));
  const client = settings.object ? clientUrl(attributes) : null;
  return h(
    "article",
    { class: "client-connection" },
    h(
      "header",
      {},
      h(
        "h3",
        {},
        settings.object
          ? client
            ? h("a", { href: client }, h("bdi", {}, clientName(attributes)))
            : h("bdi", {}, clientName(attributes))
          : h("a", { href: objectUrl(item.name) }, `Connection ${attributes.id}`),
        ownMark(attributes),
      ),
      closeButton(item, "Connection", `connection ${attributes.id}`),
    ),
    h(
      "dl",
      {},
      declared.map((/** @type {any} */ each) =>
        h("div", { data: { attribute: each.name } }, h("dt", { title: each.description }, words(each.name)), h("dd")),
      ),
    ),
  );
}

/**
 * Return a declaration without a unit that its name has already, as in "Producers: 1 producers".
 *
 * @param {any} declared
 */
const plain = (declared) => (declared.name.endsWith(declared.unit || " ") ? { ...declared, unit: "" } : declared);

/**
 * @param {any} node
 * @param {any} item
 */
function updateConnection(node, item) {
  for (const fact of node.querySelectorAll("[data-attribute]")) {
    const name = fact.dataset.attribute;
    const value = item.attributes[name];
    const text = JSON.stringify(value ?? null);
    if (fact.dataset.text === text) continue;
    fact.dataset.text = text;
    const declared = types.get("Connection").attributes.find((/** @type {any} */ each) => each.name === name);
    fill(
      fact.lastChild,
      value === null || value === undefined || value === "" ? "–" : valueNode(plain(declared), value),
    );
  }
}

// -- links ---------------------------------------------------------------------------------------------------------

/** @param {any} item */
function producerRow(item) {
  const { attributes } = item;
  const what = `producer ${attributes.id} of ${attributes.queue ? isolated(shortName(attributes.queue)) : "a queue"}`;
  const aim = { scope: attributes.queue, ...named(who), link: attributes.link };
  const able = stopsClients() && attributes.queue && attributes.link && who;
  return h(
    "tr",
    {},
    stateCell({ object: item.name }),
    linkCell(attributes),
    h("td", { class: "wrap", "data-label": "Reasons" }),
    durationCell(),
    h("td", { class: "num", "data-label": "In /s" }),
    h("td", { class: "num", "data-label": "Sent" }),
    h("td", { class: "num", "data-label": "Unsettled" }),
    h(
      "td",
      { class: "c-acts" },
      able
        ? button("", "Stop…", () => openStopDialog("stop", { ...aim, label: `link ${attributes.link}` }), "danger")
        : null,
      closeButton(item, "Producer", what),
    ),
  );
}

/**
 * @param {any} row
 * @param {any} item
 */
function updateProducer(row, item) {
  const { attributes } = item;
  const [state, , reasons, since, speed, sent, unsettled] = row.children;
  row.dataset.state = attributes.state ?? "";
  updateState(state, attributes);
  const texts = (attributes.reasons ?? []).map(reasonInWords);
  const draining = texts.length && attributes.draining ? ["draining: messages in flight may still arrive"] : [];
  setText(reasons, [...texts, ...draining].join("; ") || attributes.waits_for || "–");
  reasons.title = attributes.release ? `Until ${attributes.release}` : "";
  updateDuration(since, attributes);
  setText(speed, rate(published.rateOf(item.name)));
  setText(sent, count(attributes.messages));
  setText(unsettled, count(attributes.unsettled_messages));
}

/** @param {any} item */
function consumerRow(item) {
  const { attributes } = item;
  const what = `consumer ${attributes.id} of ${attributes.queue ? isolated(shortName(attributes.queue)) : "a queue"}`;
  const kind = known(attributes.browsing) ? (attributes.browsing ? "Browser" : "Consumer") : "not known";
  return h(
    "tr",
    {},
    h("td", { "data-label": "Kind" }, kind),
    linkCell(attributes),
    h("td", { class: "num", "data-label": "Out /s" }),
    h("td", { class: "num", "data-label": "Delivered" }),
    h("td", { class: "num", "data-label": "Unacknowledged" }),
    h("td", { class: "num", "data-label": "Credit" }),
    h("td", { class: "c-acts" }, closeButton(item, "Consumer", what)),
  );
}

/**
 * @param {any} row
 * @param {any} item
 */
function updateConsumer(row, item) {
  const { attributes } = item;
  const [, , speed, messages, unacknowledged, credit] = row.children;
  setText(speed, rate(delivered.rateOf(item.name)));
  setText(messages, count(attributes.messages));
  setText(unacknowledged, count(attributes.unacknowledged_messages));
  setText(credit, count(attributes.credit));
}

/**
 * @param {string} name of the table
 * @param {any[] | null} items null: not known
 * @param {string | null} total how many are listed, of how many
 * @param {any} row
 * @param {any} update
 */
function drawLinks(name, items, total, row, update) {
  byId(name).hidden = !items?.length;
  const empty = byId(`${name}-empty`);
  empty.hidden = Boolean(items?.length);
  const none = items ? `No ${name}.` : `This broker does not report which ${name} a connection has.`;
  fillOnce(empty, none, () => h("p", {}, none));
  setText(byId(`${name}-count`), total ?? "");
  reconcile(byId(`${name.slice(0, -1)}-rows`), items ?? [], (/** @type {any} */ item) => item.name, row, update);
}

const depthEnds = new DepthEnds(byId("stop-ends"));

// -- the page ------------------------------------------------------------------------------------------------------

/** @type {any} */
let snapshot = null;
/** @type {Map<string, string>} */
const drawn = new Map();
const RETRY = 3000; // ms
let pause = 0;
let problems = { types: "", refused: "" };

/**
 * Draw a part of the page if its data changed: unchanged buttons keep the focus.
 *
 * @param {string} part
 * @param {any} data
 * @param {() => void} draw
 */
function drawChanged(part, data, draw) {
  const text = JSON.stringify(data);
  if (drawn.get(part) === text) return;
  drawn.set(part, text);
  draw();
}

/** @type {any} */
const render = drawing(() => {
  if (!snapshot?.data.stops || !types.size) {
    if (snapshot) showUnknown();
    return;
  }
  const { connections, producers, consumers, stops } = snapshot.data;
  const [first] = connections?.items ?? [];
  if (settings.object && first) {
    who = { user: first.attributes.user ?? "", container_id: first.attributes.container_id ?? "" };
    setText(byId("who"), `${settings.virtualhost} / ${clientName(first.attributes)}`);
  }
  drawChanged("actions", [who, [...types.keys()]], drawActions);
  const client = who && { ...who, virtualhost: settings.virtualhost };
  const links = producers?.items.map((/** @type {any} */ each) => each.attributes);
  const applying = stops.filter((/** @type {any} */ stop) => appliesTo(stop, client, links ?? null));
  depthEnds.show(applying);
  // What the banner does not list, once it is known what it lists.
  const here = areStopsKnown() ? applying.filter((/** @type {any} */ stop) => !isOnBanner(stop)) : [];
  drawChanged("stops", here, () => {
    byId("stops").hidden = !here.length;
    fill(byId("stops"), here.length ? stopLines(here, here.length) : []);
  });
  const gone = connections !== null && !first;
  byId("gone").hidden = !gone;
  if (first) ending?.exists();
  const ended = gone && ending ? ending.text("This connection") : "";
  const missing = ending ? `${ended || "No such connection."} ` : "This client is not connected. ";
  fillOnce(byId("gone"), gone ? missing : "", () =>
    gone ? h("p", {}, missing, h("a", { href: "/clients/" }, "All clients")) : [],
  );
  reconcile(
    byId("connections"),
    connections?.items ?? [],
    (/** @type {any} */ item) => item.name,
    connectionNode,
    updateConnection,
  );
  const empty = byId("connections-empty");
  empty.hidden = Boolean(first);
  const none = connections ? "No open connection." : "This broker does not report its connections.";
  fillOnce(empty, none, () => h("p", {}, none));
  const cut = Boolean(connections && connections.total > connections.items.length);
  if (!settings.object) setText(byId("connections-count"), countOf(connections) ?? "");
  drawLinks("producers", producers?.items ?? null, countOf(producers, cut), producerRow, updateProducer);
  drawLinks("consumers", consumers?.items ?? null, countOf(consumers, cut), consumerRow, updateConsumer);
});

const ending = settings.object ? new Ending(settings.object, render) : null;

/** Without data so far, the page says that nothing is known. */
function showUnknown() {
  for (const name of ["connections", "producers", "consumers"])
    if (byId(`${name}-empty`).querySelector(".loading"))
      fillOnce(byId(`${name}-empty`), UNKNOWN, () => h("p", {}, UNKNOWN));
}

live.addEventListener("snapshot", (event) => {
  if (event.detail.watch !== "client") return;
  showProblem({ refused: "" });
  const { data } = event.detail;
  if (!data.stops && snapshot?.data.stops) return; // the page keeps its last snapshot, marked with its time
  snapshot = event.detail;
  /** @param {any} page */
  const rows = (page) =>
    (page?.items ?? []).map((/** @type {any} */ each) => ({ object: each.name, messages: each.attributes.messages }));
  if (data.stops) {
    published.add(data.read_at, rows(data.producers));
    delivered.add(data.read_at, rows(data.consumers));
  }
  render();
});
live.addEventListener("refused", (event) => showProblem({ refused: event.detail.detail ?? "" }));

/** @param {Partial<typeof problems>} changed texts; empty: none */
function showProblem(changed) {
  problems = { ...problems, ...changed };
  const text = (away() ? "" : problems.types) || problems.refused; // the banner says it, too
  if (drawn.get("problem") === text) return;
  drawn.set("problem", text);
  byId("problem").hidden = !text;
  fill(byId("problem"), h("p", {}, text));
}

/** Load the types of the broker's objects, until there are any: the page shows nothing without them. */
async function loadTypes() {
  clearTimeout(pause);
  try {
    const answer = await get(`brokers/${encodeURIComponent(settings.broker)}/types/`);
    for (const type of Array.isArray(answer) ? answer : (answer.types ?? [])) types.set(type.name, type);
    showProblem({ types: "" });
    render();
  } catch (error) {
    showProblem({ types: error.message });
    pause = setTimeout(loadTypes, RETRY);
  }
}

/** Read at once, after an action. */
const refresh = () =>
  watch({ watch: "client", ...(settings.object ? { object: settings.object } : { object: settings.scope, ...who }) });

whenAway(() => showProblem({}));
whenBack(() => types.size || loadTypes());
addEventListener("headgate-stops", () => {
  render();
  refresh();
});
refresh();
loadTypes();
