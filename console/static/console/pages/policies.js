// The policies page: overrides of each scope, patterns in the order in which they match, and queues with overrides.

import { get, post, query } from "../core/api.js";
import { whenBack } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, h, icon } from "../core/elements.js";
import { count, plural } from "../core/format.js";
import { acting, unless } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { scopeUrl, settingChips } from "../widgets/policy_fields.js";

const scopes = byId("scopes");
const own = byId("own");
const empty = byId("own-empty");
const pager = byId("own-pager");
const search = byId("search");
const SIZE = 50;
let page = 1;

/**
 * @param {string} object
 * @param {string | Node} text
 */
const link = (object, text) => h("a", { href: scopeUrl(object) }, text);
/** @param {any} n */
const queueCount = (n) => h("td", { class: "num", "data-label": "Queues" }, count(n));

/**
 * @param {any} caption
 * @param {any} columns
 * @param {any} rows
 */
function table(caption, columns, rows) {
  return h(
    "div",
    { class: "table-box" },
    h(
      "table",
      { class: "grid policies-table" },
      h("caption", { class: "sr" }, caption),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((/** @type {any} */ [text, kind]) => h("th", { scope: "col", class: kind ?? null }, text)),
        ),
      ),
      h("tbody", {}, rows),
    ),
  );
}

const ofPage = new URLSearchParams(location.search).get("broker");
/** @param {string} type */
const has = (type) => settings.scopes.includes(type); // whether its objects can have policy fields at this broker

/** @param {any} broker */
function brokerCard(broker) {
  return h(
    "section",
    { class: "card" },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, link(broker.object, "Broker")),
      h("span", { class: "muted" }, `defaults for ${plural(broker.queues, "queue")}`),
    ),
    h("div", { class: "card-text" }, settingChips(broker.set)),
  );
}

/** @param {any} host */
function hostCard(host) {
  const patterns = host.patterns.map((/** @type {any} */ pattern, /** @type {any} */ at) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, link(pattern.object, h("code", {}, pattern.pattern))),
      h("td", { class: "wrap", "data-label": "Overrides" }, settingChips(pattern.set)),
      queueCount(pattern.queues),
      h("td", { class: "order" }, settings.orders ? [arrow(host, at, -1), arrow(host, at, 1)] : null),
    ),
  );
  const exchanges = host.exchanges.map((/** @type {any} */ exchange) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, link(exchange.object, exchange.name)),
      h("td", { class: "wrap", "data-label": "Overrides" }, settingChips(exchange.set)),
      queueCount(exchange.queues),
    ),
  );
  const fresh =
    settings.creatable &&
    h(
      "a",
      {
        class: "button",
        href: `/policies/scope/${query({ new: host.name, broker: ofPage })}`,
        ...unless("edit", host.name),
      },
      "New pattern",
    );
  return h(
    "section",
    { class: "card", "data-host": host.name },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, "Virtual host ", has("VirtualHost") ? link(host.object, host.name) : host.name),
      h("span", { class: "muted" }, `${has("VirtualHost") ? "defaults for " : ""}${plural(host.queues, "queue")}`),
    ),
    has("VirtualHost") ? h("div", { class: "card-text" }, settingChips(host.set)) : null,
    has("Policy")
      ? h(
          "header",
          { class: "card-head inner" },
          h("h3", {}, "Patterns ", h("small", { class: "muted" }, "best match first")),
          fresh,
        )
      : null,
    !has("Policy")
      ? null
      : patterns.length
        ? table(`Patterns of ${host.name}`, [["Pattern"], ["Overrides"], ["Queues", "num"], ["Order"]], patterns)
        : h(
            "p",
            { class: "card-text muted" },
            settings.creatable
              ? "No patterns yet. A pattern sets limits for all queues with a matching name."
              : "No patterns. They are created on the broker itself.",
          ),
    exchanges.length
      ? [
          h("header", { class: "card-head inner" }, h("h3", {}, "Exchanges")),
          table(`Exchanges of ${host.name}`, [["Exchange"], ["Overrides"], ["Queues", "num"]], exchanges),
        ]
      : null,
  );
}

/**
 * A button that swaps a pattern with its neighbour. Only patterns of equal rank can be swapped: between others, the
 * literal prefix decides and not the priority.
 *
 * @param {any} host
 * @param {any} at
 * @param {any} step
 */
function arrow(host, at, step) {
  const other = host.patterns[at + step];
  const here = host.patterns[at];
  const movable = other && JSON.stringify(other.rank) === JSON.stringify(here.rank);
  const label = step < 0 ? `Move ${here.pattern} up` : `Move ${here.pattern} down`;
  const why = other ? "The longer literal prefix, then fewer wildcards, win over priority" : "";
  const button = h(
    "button",
    {
      type: "button",
      class: `quiet icon-only ${step < 0 ? "up" : "down"}`,
      "aria-label": label,
      title: movable ? label : why,
      disabled: !movable,
      ...acting("edit", host.name),
    },
    icon("chevron"),
  );
  button.addEventListener("click", () => {
    const patterns = host.patterns.map((/** @type {any} */ pattern) => pattern.pattern);
    [patterns[at], patterns[at + step]] = [patterns[at + step], patterns[at]];
    const body = { virtualhost: host.name, patterns };
    openChangeDialog({
      title: label,
      action: "Change order",
      load: () => post("policies/order/", { ...body, dry_run: true }),
      async apply(/** @type {any} */ reason) {
        const { applied } = await post("policies/order/", { ...body, reason });
        const failed = applied.filter((/** @type {any} */ each) => each.outcome !== "done");
        await load();
        if (failed.length) throw new Error(failed.map((/** @type {any} */ each) => each.detail).join(" "));
        toast("Order changed.");
      },
    });
  });
  return button;
}

/** @param {any} queues */
function showQueues(queues) {
  byId("own-count").textContent = count(queues.count);
  fill(
    own,
    queues.results.map((/** @type {any} */ queue) =>
      h(
        "tr",
        {},
        h("th", { scope: "row" }, link(queue.object, queue.name), h("small", { class: "muted vh" }, queue.virtualhost)),
        h("td", { class: "wrap", "data-label": "Overrides" }, settingChips(queue.set)),
      ),
    ),
  );
  empty.hidden = queues.count > 0;
  fill(
    empty,
    search.value.trim()
      ? h("p", {}, "No matching queue with overrides.")
      : h("p", {}, "No overrides: all queues inherit."),
  );
  const last = Math.max(1, Math.ceil(queues.count / SIZE));
  pager.hidden = last === 1;
  byId("own-where").textContent = `Page ${page} of ${last}`;
  byId("own-before").disabled = page === 1;
  byId("own-next").disabled = page >= last;
}

/** @type {AbortController | null} */
let request = null;

/** A new request aborts the previous one, whose late answer would show another search or page. */
async function load() {
  request?.abort();
  const mine = new AbortController();
  request = mine;
  try {
    const wanted = query({ search: search.value.trim(), page, page_size: SIZE });
    const policies = await get(`policies/${wanted}`, mine.signal);
    if (mine !== request) return;
    fill(scopes, has("Broker") ? brokerCard(policies.broker) : null, policies.virtualhosts.map(hostCard));
    const [first] = policies.virtualhosts;
    if (first && !policies.virtualhosts.some((/** @type {any} */ { name }) => name === "default"))
      byId("new-pattern")?.setAttribute("href", `/policies/scope/${query({ new: first.name, broker: ofPage })}`);
    showQueues(policies.queues);
  } catch (error) {
    if (mine !== request) return;
    fill(
      scopes,
      h(
        "section",
        { class: "card" },
        h(
          "div",
          { class: "empty" },
          h("p", { class: "wrong" }, error.message),
          h("button", { type: "button", on: { click: load } }, "Try again"),
        ),
      ),
    );
  }
}

let pause = 0;
/** @param {any} ms */
const soon = (ms) => {
  clearTimeout(pause);
  pause = setTimeout(load, ms);
};
search.addEventListener("input", () => {
  page = 1;
  soon(250);
});
byId("own-before").addEventListener("click", () => {
  page -= 1;
  load();
});
byId("own-next").addEventListener("click", () => {
  page += 1;
  load();
});
const RELOAD_EVENTS = new Set([
  "policy-changed",
  "queue-created",
  "queue-deleted",
  "exchange-created",
  "exchange-deleted",
]);
live.addEventListener("events", (event) => {
  if (event.detail.events.some((/** @type {any} */ e) => RELOAD_EVENTS.has(e.kind))) soon(500);
});
whenBack(load);
watch({ watch: "objects", object: "" });
load();
