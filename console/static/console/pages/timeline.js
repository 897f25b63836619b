// The timeline: broker events and user actions in one list. The filter is in the URL, so that a link shows the same
// entries. The server searches; new entries are loaded when the WebSocket reports events.

import { get, query } from "../core/api.js";
import { shownAsOf, whenAway } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, h, icon, reconcile, setText } from "../core/elements.js";
import { clock, eventName, moment, plural } from "../core/format.js";
import { readMoment } from "../core/moments.js";
import { formatName, objectUrl, parseName, shortName } from "../core/object_names.js";
import { toast } from "../core/toast.js";
import { SHAPES, said } from "../widgets/event_feed.js";
import { MomentField, zoneElement } from "../widgets/moment_field.js";
import { addTimePresets } from "../widgets/time_presets.js";
import { reasonInWords } from "../widgets/values.js";
import { positionBefore } from "./timeline_position.js";

const MAX_ENTRIES = 2000; // in the page
const form = byId("filters");
const FIELDS = ["search", "queue", "producer", "actor", "kind", "source", "from", "until"];
const TIMES = new Set(["from", "until"]);

/** @type {any} */
let entries = null; // null: not loaded
let at = { before_event: 0, before_audit: 0, newest_event: 0, newest_audit: 0, more: false, searched_to: 0 };
/** @type {any} */
let request = null; // aborts the search under way

// -- the filter -------------------------------------------------------------------------------------------------

const moments = Object.fromEntries([...TIMES].map((name) => [name, new MomentField(form.elements[name])]));
byId("zone").append(zoneElement());

const given = new URLSearchParams(location.search);
if (given.has("told_by")) given.set("source", given.get("told_by") ?? ""); // addresses of earlier releases
for (const name of FIELDS) {
  const value = given.get(name);
  if (!value) continue;
  const queue = name === "queue" && parseName(value);
  if (TIMES.has(name)) moments[name].ms = readMoment(value);
  else if (queue)
    form.elements[name].value = formatName(queue.type, queue.keys); // the broker's form
  else form.elements[name].value = value;
}

function filter() {
  /** @type {Record<string, string>} */
  const values = {};
  for (const name of FIELDS) {
    const value = TIMES.has(name) ? moments[name].address : form.elements[name].value.trim();
    if (value) values[name] = value;
  }
  return values;
}

/** @param {any} values */
function putIntoAddress(values) {
  const address = new URLSearchParams(Object.entries(values));
  const broker = new URLSearchParams(location.search).get("broker");
  if (broker) address.set("broker", broker);
  const text = address.toString();
  history.replaceState(null, "", text ? `?${text}` : location.pathname);
  /** @param {any} as */
  const file = (as) => `/api/v1/timeline/download/${query({ ...values, as, broker: broker ?? "" })}`;
  byId("as-csv").href = file("csv");
  byId("as-json").href = file("json");
  byId("clear").hidden = Object.keys(values).length === 0;
}

// -- request -----------------------------------------------------------------------------------------------------

async function load({ older = false } = {}) {
  const values = filter();
  putIntoAddress(values);
  request?.abort();
  request = new AbortController();
  byId("older").disabled = true;
  if (!older) setText(byId("note"), "Searching…");
  try {
    const from = older ? { before_event: at.before_event, before_audit: at.before_audit } : {};
    const response = await get(`timeline/${query({ ...values, ...from, count: 100 })}`, request.signal);
    at = { ...response, ...(older ? { newest_event: at.newest_event, newest_audit: at.newest_audit } : {}) };
    entries = older ? [...(entries ?? []), ...response.entries] : response.entries;
    request = null;
    show();
  } catch (error) {
    if (error.name === "AbortError") return;
    request = null;
    setText(byId("note"), error.message);
    byId("older").disabled = false;
  }
}

let due = 0;
let late = false;

/** Load new entries after a short delay, once for several calls. */
function freshen() {
  if (due || document.visibilityState !== "visible") {
    late = document.visibilityState !== "visible";
    return;
  }
  due = setTimeout(async () => {
    try {
      if (request || !entries) return;
      const current = filter();
      const response = await get(
        `timeline/${query({ ...current, after_event: at.newest_event, after_audit: at.newest_audit })}`,
      );
      if (JSON.stringify(current) !== JSON.stringify(filter()) || request) return;
      if (response.more) {
        await load(); // more than one answer has: what is between it and the entries shown would be missing
        return;
      }
      at = { ...at, newest_event: response.newest_event, newest_audit: response.newest_audit };
      const known = new Set(entries.map((/** @type {any} */ entry) => entry.id));
      const fresh = response.entries.filter((/** @type {any} */ entry) => !known.has(entry.id));
      if (!fresh.length) return;
      entries = [...fresh, ...entries];
      at = { ...at, ...positionBefore(entries.splice(MAX_ENTRIES), at) };
      show();
    } catch {
      // The banner reports the lost connection; the next request has the missed entries.
    } finally {
      due = 0;
    }
  }, 250);
}

live.addEventListener("events", freshen);
live.addEventListener("beat", () => {
  if (Date.now() - lastBeat > 5000) {
    lastBeat = Date.now();
    freshen(); // denied actions have no event
  }
});
let lastBeat = Date.now();
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible" && late) freshen();
});

// -- showing ----------------------------------------------------------------------------------------------------

function show() {
  if (!entries) return;
  const filtered = Object.keys(filter()).length > 0;
  const list = byId("entries");
  reconcile(list, entries, (entry) => entry.id, line);
  list.hidden = entries.length === 0;
  const empty = byId("entries-empty");
  empty.hidden = entries.length > 0;
  if (!entries.length) {
    fill(
      empty,
      h(
        "p",
        {},
        h(
          "strong",
          {},
          at.more ? "No matching entries so far." : filtered ? "No matching entries." : "No entries yet.",
        ),
      ),
      h(
        "p",
        {},
        at.more
          ? "Search further back, or widen the filter."
          : filtered
            ? "New matching entries appear live."
            : "Broker events and user actions appear live.",
      ),
    );
  }
  setText(
    byId("note"),
    `${plural(entries.length, "entry", "entries")}${at.more ? ", older entries available" : ""}. ` +
      `${shownAsOf() ? `Events as of ${clock(shownAsOf())}.` : "Updating live."}`,
  );
  const older = byId("older");
  older.hidden = !at.more;
  older.disabled = false;
  setText(older, entries.length ? "Load older" : "Search further back");
  setText(byId("searched"), at.searched_to ? `Searched back to ${clock(at.searched_to)}` : "");
}

/** @type {Record<string, string>} */
const ACTION_ICONS = {
  "stop-producers": "stopped",
  "start-producers": "start",
  update: "pencil",
  create: "pencil",
  delete: "close",
};

/** @param {any} entry */
function about(entry) {
  if (!entry.object.startsWith("type=")) return h("span", {}, entry.object);
  const name = parseName(entry.object);
  const target = name?.type === "Producer" && entry.queue ? entry.queue : entry.object;
  return h("a", { href: objectUrl(target) }, shortName(target));
}

/**
 * The reason as text: of a user, or why a producer is blocked.
 *
 * @param {any} entry
 */
function reasonOf(entry) {
  if (entry.source === "people") return entry.reason;
  if (!entry.kind.startsWith("producer-")) return entry.text.includes(entry.reason) ? "" : entry.reason;
  return entry.reason
    .split(/, (?=[a-z]+-[a-z-]+(?::|$))/)
    .filter(Boolean)
    .map(reasonInWords)
    .join("; ");
}

/** @param {any} entry */
function line(entry) {
  const people = entry.source === "people";
  const why = reasonOf(entry);
  const bad = people && entry.outcome !== "done";
  return h(
    "li",
    { class: "event", data: { kind: entry.kind, source: entry.source } },
    h("time", { class: "clock", datetime: new Date(entry.at).toISOString(), title: moment(entry.at) }, clock(entry.at)),
    h(
      "span",
      { class: "event-icon" },
      icon(people ? (ACTION_ICONS[entry.kind] ?? "user") : (SHAPES[entry.kind] ?? "info")),
    ),
    h(
      "div",
      { class: "event-body" },
      h(
        "p",
        { class: "event-head" },
        h("strong", {}, eventName(entry.kind)),
        " ",
        about(entry),
        entry.actor
          ? h(
              "span",
              { class: "muted" },
              " by ",
              h(
                "button",
                {
                  type: "button",
                  class: "quiet inline",
                  title: `Filter by user ${entry.actor}`,
                  on: { click: () => set("actor", entry.actor) },
                },
                entry.actor,
              ),
            )
          : null,
        people ? h("span", { class: `tag outcome-${entry.outcome}` }, bad ? entry.outcome : "audit") : null,
        entry.queue
          ? h(
              "button",
              {
                type: "button",
                class: "quiet inline only",
                title: `Filter by queue ${shortName(entry.queue)}`,
                on: { click: () => set("queue", entry.queue) },
              },
              "this queue only",
            )
          : null,
      ),
      entry.producer ? h("p", { class: "event-text" }, entry.producer) : null,
      why ? h("p", {}, why) : null,
      h(
        "p",
        { class: "event-text", title: `${entry.text}\n${people ? "Audit row" : "Event"} ${entry.number}` },
        people ? entry.text : said(entry.text),
      ),
    ),
  );
}

/**
 * @param {any} name
 * @param {any} value
 */
function set(name, value) {
  form.elements[name].value = value;
  load();
}

// -- controls ---------------------------------------------------------------------------------------------------

let pause = 0;
form.addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(() => load(), 300);
});
form.addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  load();
});
byId("clear").addEventListener("click", () => {
  for (const name of FIELDS) form.elements[name].value = "";
  form.dispatchEvent(new Event("headgate-cleared"));
  load();
});
addTimePresets(byId("presets"), form, (from) => {
  moments.from.ms = from;
  moments.until.ms = null;
  load();
});
byId("older").addEventListener("click", () => load({ older: true }));
byId("share").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(location.href);
    toast("Link copied. It opens this search for users who can sign in.");
  } catch {
    toast(`Copy the URL of this page: ${location.href}`);
  }
});

whenAway((/** @type {any} */ away) => (away ? show() : load()));
watch({ watch: "objects", object: "" });
load();
