// The messages of a queue: filter, page through, look at one, act on ticked messages or on all of the filter.

import { get } from "../core/api.js";
import { away, drawing, UNKNOWN, whenBack } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { byId, fill, h, setText } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { bytes, clock, count, exact, plural } from "../core/format.js";
import { acting, may } from "../core/permissions.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { register } from "../widgets/keys.js";
import { storedSize } from "../widgets/pager.js";
import { setState } from "../widgets/states.js";
import { openActDialog } from "./act_dialog.js";
import { ACTIONS } from "./actions.js";
import { deadLetterQueueOf } from "./dead_letter_queue.js";
import { isEmpty, toAddress, toQuery } from "./filter.js";
import { FilterBar } from "./filter_bar.js";
import { Jobs } from "./jobs.js";
import { MessageList } from "./list.js";
import { MessagePanel } from "./panel.js";
import { openPublishDialog } from "./publish_dialog.js";
import { openPurgeDialog } from "./purge_dialog.js";

const MOST = 200; // messages a page
const { object, virtualhost, name } = settings;
const offered = new Set(settings.operations);
const size = Math.min(MOST, storedSize());
const order = byId("order");
const table = byId("messages-table");
const emptyBox = byId("messages-empty");
const status = byId("status-line");
const request = new DebouncedRequest(0);

const bar = new FilterBar(() => visit({ after: null, cursors: [] }));
const jobs = new Jobs(object, () => load());
const list = new MessageList({ urlOf: (id) => address({ message: id }), opened: open, ticked: showActions });
const panel = new MessagePanel(byId("panel"), {
  object,
  virtualhost,
  reads: offered.has("read-message"),
  closed: close,
  actions: actionsOfOne,
});

// -- the address: filter, order, cursor, open message --------------------------------------------------------------

/** Cursors of the pages before this one, the first page's is null; and of this page. */
let cursors = /** @type {(string | null)[]} */ ([]);
/** @type {string | null} */
let after = null;
/** @type {string | null} the cursor of the next page */
let next = null;
/** The filter of the page as the broker understood it. @type {any} */
let match = null;
let answered = false; // whether the table shows the page of the address

/** @param {{message?: string | null}} options */
function address({ message = panel.shown } = {}) {
  const given = new URLSearchParams();
  const broker = new URLSearchParams(location.search).get("broker");
  if (broker) given.set("broker", broker);
  given.set("object", object);
  for (const [key, value] of toAddress(bar.filter)) given.append(key, value);
  if (order.value) given.set("order", order.value);
  if (after) given.set("after", after);
  if (message) given.set("message", message);
  return `?${given}`;
}

/**
 * Go to a page of the list: another entry of the browser's history.
 *
 * @param {{after: string | null, cursors: (string | null)[]}} to
 */
function visit(to) {
  panel.hide();
  document.body.classList.remove("with-panel");
  ({ after, cursors } = to);
  history.pushState({ cursors }, "", address());
  clear();
  load();
}

/** Show what the address says, after a load or a step in the browser's history. */
function follow() {
  const given = new URLSearchParams(location.search);
  const before = answered ? JSON.stringify([toAddress(bar.filter), order.value, after]) : "";
  bar.show(given);
  order.value = given.get("order") === "unacknowledged" ? "unacknowledged" : "";
  after = given.get("after");
  cursors = history.state?.cursors ?? (after ? [null] : []);
  const message = given.get("message");
  if (before === JSON.stringify([toAddress(bar.filter), order.value, after])) showOpen(message);
  else {
    clear();
    load(message);
  }
}

// -- the list ------------------------------------------------------------------------------------------------------

function clear() {
  answered = false;
  list.show([]);
  table.hidden = true;
  byId("pager").hidden = true;
  emptyBox.hidden = false;
  fill(emptyBox, h("p", { class: "loading" }, "Loading…"));
  setText(status, "");
}

/** Load the page of the address. @param {string | null} [message] the message to open then */
async function load(message = panel.shown) {
  const parameters = new URLSearchParams([["object", object], ...toQuery(bar.filter), ["count", String(size)]]);
  if (order.value) parameters.set("order", order.value);
  if (after) parameters.set("after", after);
  table.setAttribute("aria-busy", "true");
  try {
    const answer = await request.send((signal) => get(`messages/?${parameters}`, signal));
    answered = true;
    ({ next, match } = answer);
    list.show(answer.results);
    table.hidden = answer.results.length === 0;
    emptyBox.hidden = answer.results.length > 0;
    if (!answer.results.length) showEmpty();
    showPager(answer);
    showOpen(message);
  } catch (error) {
    if (error.name === "AbortError") return;
    failed(error);
  }
  table.removeAttribute("aria-busy");
}

/** @param {any} error */
function failed(error) {
  const fields = error.fields ?? {};
  if (Object.keys(fields).length) bar.wrong(fields);
  answered = false;
  list.show([]);
  table.hidden = true;
  byId("pager").hidden = true;
  emptyBox.hidden = false;
  setText(status, "");
  fill(
    emptyBox,
    h("p", {}, h("strong", {}, away() ? UNKNOWN : error.message)),
    Object.keys(fields).length
      ? null
      : h("p", {}, h("button", { type: "button", on: { click: () => reload() } }, "Try again")),
    after && error.status === 400
      ? h(
          "p",
          {},
          h("button", { type: "button", on: { click: () => visit({ after: null, cursors: [] }) } }, "First page"),
        )
      : null,
  );
}

function reload() {
  if (!answered) clear();
  load();
}

function showEmpty() {
  const filtered = !isEmpty(bar.filter);
  if (next)
    fill(
      emptyBox,
      h(
        "p",
        {},
        h("strong", {}, filtered ? "No match in this part of the queue." : "No messages in this part of the queue."),
      ),
      h("p", {}, "Load the next page to search on."),
    );
  else if (after)
    fill(
      emptyBox,
      h("p", {}, h("strong", {}, "No more messages.")),
      h(
        "p",
        {},
        h("button", { type: "button", on: { click: () => visit({ after: null, cursors: [] }) } }, "First page"),
      ),
    );
  else if (filtered)
    fill(
      emptyBox,
      h("p", {}, h("strong", {}, "No message matches the filter.")),
      h("p", {}, h("button", { type: "button", on: { click: () => bar.clear() } }, "Show all messages")),
    );
  else fill(emptyBox, h("p", {}, h("strong", {}, "The queue has no messages.")));
}

/** @param {any} answer */
function showPager(answer) {
  const shown = answer.results.length;
  byId("pager").hidden = !next && !after;
  byId("previous").disabled = !after;
  byId("next").disabled = !next;
  setText(byId("page-number"), `Page ${exact(cursors.length + 1)}`);
  const searched = answer.searched > shown ? `, ${exact(answer.searched)} searched` : "";
  setText(status, `${plural(shown, "message")}${searched}, as of ${clock(serverNow())}`);
}

byId("previous").addEventListener("click", () =>
  visit({ after: cursors.at(-1) ?? null, cursors: cursors.slice(0, -1) }),
);
byId("next").addEventListener("click", () => visit({ after: next, cursors: [...cursors, after] }));
byId("refresh").addEventListener("click", reload);
order.addEventListener("change", () => visit({ after: null, cursors: [] }));
addEventListener("popstate", follow);
whenBack(reload);

// -- one message ---------------------------------------------------------------------------------------------------

/** @param {string | null} id */
function showOpen(id) {
  document.body.classList.toggle("with-panel", Boolean(id));
  list.mark(id);
  if (!id) panel.hide();
  else if (panel.shown !== id) panel.show(id, list.messages.find((message) => message.id === id) ?? null);
}

/** @param {string} id */
function open(id) {
  const url = address({ message: id });
  if (panel.shown) history.replaceState(history.state, "", url);
  else history.pushState({ cursors }, "", url);
  showOpen(id);
  if (matchMedia("(max-width: 1100px)").matches) byId("panel").focus();
}

function close() {
  const id = panel.shown;
  showOpen(null);
  history.replaceState(history.state, "", address());
  list.focus(id);
}

register({ keys: ["Escape"], says: "Close the message", when: () => panel.shown !== null, act: close });
register({ keys: ["r"], says: "Refresh the list", act: reload });

// -- actions -------------------------------------------------------------------------------------------------------

/** @type {string | null} name of the effective dead-letter queue; "": none; null: not known */
let deadLetterQueue = null;

/**
 * The actions that the broker offers and that apply here.
 *
 * @param {boolean} [dead] whether the messages are dead letters, of which at least one is known; undefined: not known
 */
const available = (dead = undefined) =>
  Object.keys(ACTIONS).filter((action) => {
    if (!offered.has(ACTIONS[action].operation)) return false;
    if (action === "deadLetter") return Boolean(deadLetterQueue);
    return action !== "retry" || dead !== false;
  });

/**
 * @param {string[]} actions
 * @param {() => any} target {ids} or {match}, and what it is in words
 */
const buttons = (actions, target) =>
  actions.map((action) =>
    h(
      "button",
      {
        type: "button",
        class: ACTIONS[action].danger ? "danger" : "",
        ...acting("operate", virtualhost),
        on: { click: () => act(action, target()) },
      },
      `${ACTIONS[action].verb}…`,
    ),
  );

/**
 * @param {string} action
 * @param {any} target
 */
function act(action, target) {
  const dialog = openActDialog({
    action,
    object,
    ...target,
    done(answer) {
      if (answer.job) jobs.refresh();
      list.clearTicks();
      load(target.ids?.includes(panel.shown) && action !== "copy" ? null : panel.shown);
    },
  });
  // The button that opened it is replaced after the action: the keyboard goes on at the list.
  dialog.addEventListener("close", () => {
    if (document.activeElement === document.body) table.parentElement.focus();
  });
}

/** @param {any} message */
function actionsOfOne(message) {
  return buttons(available(Boolean(message.dead_letter)), () => ({ ids: [message.id], about: "1 message" }));
}

function showActions() {
  const { ticked } = list;
  const box = byId("selection");
  const everything = isEmpty(bar.filter);
  box.hidden = list.messages.length === 0 && !(answered && next);
  if (ticked.length) {
    const dead = ticked.some((message) => message.dead_letter);
    const total = ticked.reduce((sum, message) => sum + message.size, 0);
    fill(
      box,
      h("strong", {}, `${count(ticked.length)} ticked`),
      h("span", { class: "muted" }, bytes(total)),
      buttons(available(dead), () => ({
        ids: list.ticked.map(({ id }) => id),
        about: plural(list.ticked.length, "ticked message"),
      })),
      h("button", { type: "button", class: "quiet", on: { click: () => list.clearTicks() } }, "Clear"),
    );
    return;
  }
  const dead = list.messages.some((message) => message.dead_letter) || (answered && next ? undefined : false);
  fill(
    box,
    h("span", {}, everything ? "All messages of the queue:" : "All messages that match the filter:"),
    buttons(available(dead), () => ({
      match,
      about: everything ? "all messages of the queue" : "all messages that match the filter",
    })),
  );
}

byId("purge")?.addEventListener("click", () => openPurgeDialog(object, name, reload));
byId("publish")?.addEventListener("click", () => openPublishDialog(object, name, reload));

// -- the queue -----------------------------------------------------------------------------------------------------

/** @type {any} */
let snapshot = null;
/** @type {any} */
const renderQueue = drawing(() => {
  if (!snapshot) return;
  const queue = snapshot.data.object?.attributes ?? snapshot.data.object;
  const gone = !queue && snapshot.connected;
  byId("gone").hidden = !gone;
  document.body.classList.toggle("queue-gone", gone);
  if (gone)
    fill(
      byId("gone"),
      h("p", {}, h("strong", {}, "No such queue."), ` ${ending.text()} `, h("a", { href: "/" }, "Overview")),
    );
  if (!queue) {
    setText(byId("depth"), snapshot.connected ? "" : "Depth: not known");
    return;
  }
  ending.exists();
  setState(byId("queue-state"), queue.state);
  setText(
    byId("depth"),
    queue.depth_messages === undefined || queue.depth_messages === null
      ? "Depth: not known"
      : `${plural(queue.depth_messages, "message")}, ${bytes(queue.depth_bytes)}`,
  );
});

const ending = new Ending(object, renderQueue);

live.addEventListener("snapshot", (event) => {
  snapshot = event.detail;
  renderQueue();
});

if (may("operate", virtualhost) && offered.has("move-messages"))
  deadLetterQueueOf(object, name).then((found) => {
    deadLetterQueue = found;
    showActions();
  });
watch({ watch: "objects", object });
follow();
if (offered.size > 1) jobs.refresh();
