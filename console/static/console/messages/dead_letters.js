// The dead-letter queues of the broker: how many messages wait there, why, from which queues, since when; retry.

import { get, query } from "../core/api.js";
import { whenBack } from "../core/away.js";
import { watch } from "../core/connection.js";
import { byId, fill, h, reconcile, setText } from "../core/elements.js";
import { bytes, count, exactAmount, plural, words } from "../core/format.js";
import { formatName, messagesUrl, parseName, queueUrl } from "../core/object_names.js";
import { acting } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { openActDialog } from "./act_dialog.js";
import { Jobs } from "./jobs.js";
import { textNode, timeOf } from "./text_nodes.js";

const MORE = "Show reasons";
const MOST_AT_ONCE = 20; // queues whose reasons are loaded without a request of the user
const empty = byId("dead-letters-empty");
const jobs = new Jobs(null, () => refresh());

/** The summaries by queue: {depth (when it was loaded), groups, complete, error}. @type {Map<string, any>} */
const summaries = new Map();
/** @type {any[]} */
let queues = [];

// -- summaries -----------------------------------------------------------------------------------------------------

let loading = false;

/** Load the summaries that are missing or of another depth, one after the other. */
async function loadSummaries() {
  if (loading || !settings.summarizes) return;
  loading = true;
  try {
    for (;;) {
      const next = queues
        .filter((queue) => queue.depth_messages > 0)
        .slice(0, MOST_AT_ONCE)
        .find((queue) => summaries.get(queue.object)?.depth !== queue.depth_messages);
      if (!next) break;
      await summarize(next);
    }
  } finally {
    loading = false;
  }
}

/** @param {any} queue */
async function summarize(queue) {
  const depth = queue.depth_messages;
  try {
    const answer = await get(`messages/summary/${query({ object: queue.object })}`);
    summaries.set(queue.object, { ...answer, depth });
  } catch (error) {
    summaries.set(queue.object, { groups: [], complete: true, error: error.message, depth });
  }
  draw();
}

// -- rows ----------------------------------------------------------------------------------------------------------

/**
 * @param {string} label
 * @param {any} attributes
 * @param {...any} children
 */
const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);

/** @param {any} ms */
const age = (ms) => {
  const at = timeOf(ms);
  return at === null ? "–" : sinceElement(at);
};

/** @param {any} queue */
function queueRow(queue) {
  const full = queue.depth_messages > 0;
  return h(
    "tr",
    { class: "dead-queue", data: { state: queue.state ?? "" } },
    h(
      "th",
      { scope: "row" },
      h("a", { href: queueUrl(queue.virtualhost, queue.name) }, textNode(queue.name)),
      h("small", { class: "muted vh" }, textNode(queue.virtualhost)),
    ),
    cell(
      "Messages",
      { class: "num", title: exactAmount(queue.depth_messages, "messages") },
      count(queue.depth_messages),
    ),
    cell("Bytes", { class: "num", title: exactAmount(queue.depth_bytes, "bytes") }, bytes(queue.depth_bytes)),
    cell("Oldest", { class: "num" }, age(queue.oldest_message_at)),
    cell("Source queues", { class: "num", title: "Queues whose dead letters go here" }, count(queue.sources)),
    cell("Consumers", { class: "num" }, count(queue.consumers)),
    cell(
      "",
      { class: "c-acts" },
      h("a", { class: "button", href: messagesUrl(queue.object) }, "Messages"),
      full ? retry(queue, {}, ["all dead letters of ", textNode(queue.name)]) : null,
    ),
  );
}

/**
 * @param {any} queue
 * @param {any} match
 * @param {any} about
 */
function retry(queue, match, about) {
  const button = h("button", { type: "button", ...acting("operate", queue.virtualhost) }, "Retry…");
  button.addEventListener("click", () =>
    openActDialog({
      action: "retry",
      object: queue.object,
      match,
      about,
      done() {
        summaries.delete(queue.object);
        jobs.refresh();
        refresh();
      },
    }),
  );
  return settings.retries ? button : null;
}

/**
 * @param {any} queue
 * @param {any} group
 */
function groupRow(queue, group) {
  const match = { dead_letter_reason: group.reason, dead_letter_queue: group.queue };
  /** @type {[string, string][]} */
  const filter = [
    ["reason", group.reason],
    ["source", group.queue],
  ];
  const source = group.queue ? sourceLink(queue.virtualhost, group.queue) : null;
  return h(
    "tr",
    { class: "dead-group" },
    h(
      "th",
      { scope: "row" },
      group.reason
        ? textNode(words(group.reason), { most: 80 })
        : h("span", { class: "muted" }, "Not dead-lettered (published or moved there)"),
      source ? [h("span", { class: "muted" }, " from "), source] : null,
    ),
    cell("Messages", { class: "num", title: exactAmount(group.messages, "messages") }, count(group.messages)),
    cell("Bytes", { class: "num", title: exactAmount(group.bytes, "bytes") }, bytes(group.bytes)),
    cell("Oldest", { class: "num" }, age(group.oldest_at)),
    cell("", { class: "vacant" }),
    cell("", { class: "vacant" }),
    cell(
      "",
      { class: "c-acts" },
      group.reason
        ? [
            h("a", { class: "button", href: messagesUrl(queue.object, filter) }, "Messages"),
            retry(queue, match, [
              "dead letters from ",
              textNode(group.queue || "any queue"),
              ", reason ",
              textNode(words(group.reason)),
            ]),
          ]
        : null,
    ),
  );
}

/**
 * @param {string} virtualhost
 * @param {string} name a queue's name, or its object name
 */
function sourceLink(virtualhost, name) {
  const keys = parseName(name.startsWith("type=") ? name : formatName("Queue", { virtualhost, name }))?.keys;
  return h("a", { href: queueUrl(keys?.virtualhost, keys?.name) }, textNode(keys?.name ?? name));
}

/**
 * What is to say about the summary of a queue; "": nothing.
 *
 * @param {any} queue
 * @param {any} summary
 */
function noteOf(queue, summary) {
  if (summary?.error) return summary.error;
  if (summary) return summary.complete ? "" : `Reasons of the first ${plural(summary.searched, "message")}.`;
  return queues.filter((each) => each.depth_messages > 0).indexOf(queue) < MOST_AT_ONCE ? "Loading reasons…" : MORE;
}

/**
 * @param {any} queue
 * @param {string} note
 */
function noteRow(queue, note) {
  const shown =
    note === MORE ? h("button", { type: "button", class: "quiet", on: { click: () => summarize(queue) } }, note) : note;
  return h("tr", { class: "dead-group" }, h("td", { colspan: "7", class: "muted" }, shown));
}

// -- the page ------------------------------------------------------------------------------------------------------

/**
 * The rows of a queue: of itself, and of its groups of dead letters. Rows are made again when their data has changed,
 * so that buttons of others keep the focus.
 *
 * @param {any} queue
 * @returns {{key: string, make: () => Element}[]}
 */
function rowsOf(queue) {
  const key = (/** @type {any} */ ...parts) => JSON.stringify([queue.object, ...parts]);
  const own = { key: key(queue), make: () => queueRow(queue) };
  if (!queue.depth_messages || !settings.summarizes) return [own];
  const summary = summaries.get(queue.object);
  const groups = (summary?.groups ?? []).map((/** @type {any} */ group) => ({
    key: key("group", group),
    make: () => groupRow(queue, group),
  }));
  const note = noteOf(queue, summary);
  const notes = note ? [{ key: key("note", note), make: () => noteRow(queue, note) }] : [];
  return [own, ...groups, ...notes];
}

function draw() {
  byId("dead-letters-table").hidden = queues.length === 0;
  reconcile(
    byId("dead-letters"),
    queues.flatMap(rowsOf),
    (row) => row.key,
    (row) => row.make(),
  );
  const messages = queues.reduce((sum, queue) => sum + (queue.depth_messages ?? 0), 0);
  const size = queues.reduce((sum, queue) => sum + (queue.depth_bytes ?? 0), 0);
  const unknown = queues.some((queue) => queue.depth_messages === null || queue.depth_messages === undefined);
  setText(
    byId("dead-letters-count"),
    queues.length
      ? `${plural(queues.length, "queue")}, ${unknown ? "at least " : ""}${plural(messages, "message")}, ${bytes(size)}`
      : "",
  );
  byId("all-empty").hidden = messages > 0 || unknown || queues.length === 0;
  empty.hidden = queues.length > 0;
  if (!queues.length)
    fill(
      empty,
      h("p", {}, h("strong", {}, "No dead-letter queues.")),
      h(
        "p",
        {},
        "No queue that you see has a dead-letter queue: messages that consumers reject or fail to process too often " +
          "are discarded. Set the policy field Dead-letter queue of a queue, a pattern or a virtual host under ",
        h("a", { href: "/policies/" }, "Policies"),
        ".",
      ),
    );
}

/** Request the queues. Without an answer so far, the page says that they are not known. */
async function request() {
  try {
    return await get("dead-letters/");
  } catch (error) {
    if (empty.querySelector(".loading")) fill(empty, h("p", {}, h("strong", {}, "Dead letters: not known.")));
    throw error;
  }
}

const { refresh } = poll(request, (answer) => {
  queues = [...answer.results].sort(
    (a, b) => (b.depth_messages ?? 0) - (a.depth_messages ?? 0) || a.name.localeCompare(b.name),
  );
  draw();
  loadSummaries();
});
refresh();
if (settings.retries) jobs.refresh();
whenBack(refresh);
watch({ watch: "objects", object: "" });
