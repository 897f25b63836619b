// Why a queue or a producer is blocked: the verdict, the chain from the client to the limit, all causes, the consumers,
// the blocked producers and shared connections.

import { atThatTime, away, drawing, UNKNOWN } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { CounterRates } from "../core/counter_rates.js";
import { byId, fill, fillOnce, find, h, icon, reconcile, setAttribute, setText } from "../core/elements.js";
import { bytes, count, duration, exact, exactAmount, middle, percent, plural, rate } from "../core/format.js";
import { objectUrl, parseName, shortName, stopInWords, whyUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { setSince, sinceElement } from "../core/times.js";
import { ConditionsLine } from "../widgets/conditions.js";
import { setState, stateElement } from "../widgets/states.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { endOf } from "../widgets/stop_lines.js";

const NAMED = 60; // characters of a name in a row; the page's title has the full name
const deliveries = new CounterRates("messages"); // of each consumer

const conditions = new ConditionsLine({ about: false });

/** @type {any} */
let snapshot = null;
let drawn = false; // whether the page shows the object, or its last state before it was deleted
let queueName = parseName(settings.object)?.type === "Queue" ? settings.object : null;

/**
 * @param {any} n
 * @param {string} unit
 */
const amount = (n, unit) => (unit === "bytes" ? bytes(n) : `${count(n)} ${n === 1 ? "message" : "messages"}`);

/**
 * Show [name, text or nodes, title] rows in a <dl>; unchanged cells are not touched.
 *
 * @param {HTMLElement} list
 * @param {any} rows
 */
function showFacts(list, rows) {
  reconcile(
    list,
    rows
      .filter((/** @type {any} */ row) => row && row[1] !== "" && row[1] !== null)
      .flatMap((/** @type {any} */ [name, value, title, key]) => [
        { key: `t${name}`, tag: "dt", value: name },
        { key: `d${name}`, tag: "dd", value, title, same: key ?? value },
      ]),
    (cell) => cell.key,
    (cell) => h(cell.tag),
    (node, cell) => {
      setAttribute(node, "title", cell.title);
      if (cell.tag === "dt" || typeof cell.value === "string") setText(node, cell.value);
      else if (node.dataset.same !== String(cell.same)) {
        node.dataset.same = String(cell.same);
        fill(node, cell.value);
      }
    },
  );
}

// -- verdict and chain ------------------------------------------------------------------------------------------

/** @param {any} cause */
const becauseOf = (cause) => cause.because;

/** @param {any} data */
function showVerdict(data) {
  setText(byId("verdict"), data.summary);
  byId("verdict-card").dataset.blocked = String(data.blocked);
  const holding = data.causes.filter((/** @type {any} */ cause) => cause.blocks);
  let when = "";
  if (holding.length) {
    const never = holding.filter((/** @type {any} */ cause) => cause.resume_ms === null);
    if (away()) when = "Time to resume: not known while the broker does not answer.";
    else if (data.resume_ms !== null)
      when =
        data.resume_ms < 1000
          ? "Resumes at once."
          : `Resumes in about ${duration(data.resume_ms)} at the present rate.`;
    else if (never.length) when = `Time to resume: unknown (${never.map(becauseOf).join("; ")}).`;
  }
  setText(byId("when"), when);
  const notes = byId("notes");
  notes.hidden = data.notes.length === 0;
  fillOnce(notes, JSON.stringify(data.notes), () => data.notes.map((/** @type {string} */ note) => h("li", {}, note)));
}

/** @param {any} data */
function chainSteps(data) {
  const { queue, producer, connections } = data;
  const steps = [];
  if (producer) {
    const connection = connections[0];
    steps.push(["client", "Client", producer.client || "unknown", ""]);
    if (connection) {
      const others =
        connection.other_producers.length + connection.consumers_here.length + connection.other_consumers.length;
      steps.push([
        "of-connection",
        "Connection",
        h("a", { href: objectUrl(connection.object) }, `Connection ${connection.id}`),
        others ? `shared with ${plural(others, "other link")}` : "no other links",
      ]);
    }
    steps.push([
      "link",
      "Link",
      h("a", { href: objectUrl(producer.object) }, producer.link || `Producer ${producer.id}`),
      producer.draining
        ? "draining"
        : producer.state === "BLOCKED"
          ? producer.credit === 0
            ? "blocked: no credit"
            : "blocked"
          : known(producer.credit)
            ? `credit ${exact(producer.credit)}`
            : "",
    ]);
  } else {
    const clients = new Set(data.producers.map((/** @type {any} */ p) => p.client));
    const more = data.producers_total > data.producers.length ? "+" : "";
    const listed = data.producers_total !== null;
    steps.push([
      "client",
      "Clients",
      !listed ? "not known" : queue.producers ? `${count(clients.size)}${more}` : "none",
      listed
        ? `on ${plural(new Set(data.producers.map((/** @type {any} */ p) => p.connection)).size, "connection")}`
        : "",
    ]);
    steps.push([
      "link",
      "Links",
      blockedOf(queue),
      [
        queue.waiting_producers ? `${count(queue.waiting_producers)} waiting for credit` : "",
        queue.draining_producers ? `${count(queue.draining_producers)} draining` : "",
      ]
        .filter(Boolean)
        .join(", "),
    ]);
  }
  if (!queue) {
    steps.push(["queue", "Queue", "not known", ""]);
    return [...steps, ...data.causes.map(causeStep)];
  }
  steps.push([
    "queue",
    "Queue",
    h("a", { href: objectUrl(queue.object), title: queue.name }, middle(queue.name, NAMED)),
    `${count(queue.depth_messages)} ${queue.depth_messages === 1 ? "message" : "messages"}, ` +
      `${bytes(queue.depth_bytes)}`,
  ]);
  for (const cause of data.causes) steps.push(causeStep(cause));
  if (!data.causes.length) steps.push(["limit", "Limit", "none effective", ""]);
  const stuck = data.consumers.filter((/** @type {any} */ consumer) => consumer.stuck).length;
  steps.push([
    queue.consumers === 0 ? "consumers bad" : "consumers",
    "Consumers",
    queue.consumers === 0 ? "none" : known(queue.consumers) ? count(queue.consumers) : "not known",
    stuck
      ? `${count(stuck)} stuck`
      : queue.consumers && known(queue.rate_out)
        ? `${rate(queue.rate_out)} messages/s`
        : "",
  ]);
  return steps;
}

/** @param {any} cause */
function causeStep(cause) {
  if (cause.kind === "stop")
    return ["limit effective", "Operator's stop", cause.actor || "an unknown user", cause.reason || "no reason given"];
  if (cause.kind === "reported") return ["limit effective", "Reason", cause.title, ""];
  if (cause.kind !== "queue")
    return [
      "limit effective",
      words(cause.kind),
      known(cause.used) && cause.limit ? `${bytes(cause.used)} of ${bytes(cause.limit)}` : "above its limit",
      cause.node ? `on ${cause.node}` : "shared limit",
    ];
  const effective = cause.limits.find((/** @type {any} */ limit) => limit.effective) ?? cause.limits[0];
  if (!effective) return ["limit effective", "Limit", "unknown", ""];
  const source =
    effective.fields.find((/** @type {any} */ field) => field.field.startsWith("capacity_") && field.value) ??
    effective.fields[0];
  return [
    "limit effective",
    "Effective limit",
    amount(effective.stop, effective.unit),
    source?.origin ? `from ${originWords(source.origin)}` : "",
  ];
}

/**
 * Return whether the broker reports a value.
 *
 * @param {any} value
 */
const known = (value) => value !== null && value !== undefined;

/** @param {any} queue */
function blockedOf(queue) {
  if (!known(queue.blocked_producers))
    return known(queue.producers) ? plural(queue.producers, "producer") : "not known which are blocked";
  return `${count(queue.blocked_producers)} of ${count(queue.producers)} blocked`;
}

/** @param {any} kind */
const words = (kind) =>
  /** @type {Record<string, any>} */ ({ store: "Store", memory: "Memory", temp: "Temp store", disk: "Disk" })[kind] ??
  kind;

/** @param {any} origin */
function originWords(origin) {
  return (
    /** @type {Record<string, any>} */ ({
      own: "the queue",
      virtualhost: "the virtual host",
      broker: "the broker's defaults",
      "built-in": "the default",
    })[origin] ?? origin
  );
}

/** @param {any} data */
function showChain(data) {
  const steps = chainSteps(data).map(([kind, label, value, note], index) => ({ index, kind, label, value, note }));
  reconcile(
    byId("chain"),
    steps,
    (step) => `${step.index}${step.kind}`,
    (step) =>
      h(
        "li",
        { class: `step ${step.kind}` },
        h("span", { class: "step-label" }),
        h("strong", { class: "step-value" }),
        h("span", { class: "step-note muted" }),
      ),
    (node, step) => {
      const [label, value, note] = node.children;
      setText(label, step.label);
      if (typeof step.value === "string") setText(value, step.value);
      else if (value.textContent !== step.value.textContent || value.firstElementChild?.href !== step.value.href)
        fill(value, step.value);
      setText(note, step.note);
      setAttribute(note, "title", step.note);
    },
  );
}

// -- causes -----------------------------------------------------------------------------------------------------

/** @param {any} cause */
const causeKey = (cause) => `${cause.kind} ${cause.scope ?? cause.object}`;

/** @param {any} cause */
function causeCard(cause) {
  return h(
    "article",
    { class: "card cause", data: { kind: cause.kind } },
    h(
      "header",
      { class: "card-head" },
      h("h2", {}, icon(cause.kind === "stop" ? "stopped" : "overfull"), h("span", {})),
      h("span", { class: "muted cause-since" }, "for ", sinceElement()),
    ),
    h("div", { class: "limit-lines" }),
    h("dl", { class: "facts" }),
  );
}

/**
 * @param {any} node
 * @param {any} cause
 */
function updateCause(node, cause) {
  const [head, lines, facts] = node.children;
  setText(
    head.querySelector("h2 span"),
    cause.kind === "stop" ? `Producers of ${stopInWords(cause.scope)} are stopped` : cause.title,
  );
  setSince(head.querySelector("time"), cause.since);
  head.querySelector(".cause-since").hidden = !cause.since;
  if (cause.kind === "queue") {
    reconcile(lines, cause.limits, (limit) => limit.unit, limitLine, updateLimit);
    showFacts(facts, [
      [
        "To drain",
        Object.entries(cause.to_drain)
          .map(([unit, n]) => amount(n, unit))
          .join(" and ") || "nothing",
        Object.entries(cause.to_drain)
          .map(([unit, n]) => exactAmount(n, unit))
          .join(", "),
      ],
      [
        "Resumes",
        away()
          ? "not known"
          : cause.resume_ms === null
            ? `unknown: ${cause.because}`
            : cause.resume_ms < 1000
              ? "at once"
              : `in about ${duration(cause.resume_ms)}`,
      ],
      cause.blocks ? null : ["Mechanism", `${cause.mechanism}: blocks no producers`],
    ]);
    return;
  }
  if (cause.kind === "stop") {
    showFacts(facts, [
      ["Reason", cause.reason || "no reason given"],
      ["Stopped by", cause.actor || "an unknown user"],
      cause.effect && cause.effect !== "hold" ? ["Effect", `${cause.effect}: ${cause.remark}`] : null,
      [
        "Ends",
        cause.until || cause.below ? h("span", {}, endOf(cause)) : "when an operator starts the producers",
        null,
        `${cause.until} ${cause.below}`,
      ],
    ]);
    return;
  }
  if (cause.kind === "reported" || !known(cause.used)) {
    showFacts(facts, [["Resumes", away() ? "not known" : cause.because]]);
    return;
  }
  showFacts(facts, [
    ["Used", bytes(cause.used), exactAmount(cause.used, "bytes")],
    [
      "Limit",
      cause.limit
        ? h(
            "a",
            { href: objectUrl(cause.object) },
            `${bytes(cause.limit)} (${cause.field} of ${shortName(cause.object)})`,
          )
        : "free disk space",
      exactAmount(cause.limit, "bytes"),
      `${cause.limit}${cause.object}`,
    ],
    ["Resumes", away() ? "not known" : cause.because],
  ]);
}

/** @param {any} limit */
function limitLine(limit) {
  return h(
    "div",
    { class: "limit-line", data: { unit: limit.unit } },
    h("p", { class: "limit-now" }),
    h("div", { class: "bar", "aria-hidden": "true" }, h("div", { class: "bar-fill" }), h("span", { class: "mark" })),
    h("p", { class: "small" }),
  );
}

/**
 * @param {any} node
 * @param {any} limit
 */
function updateLimit(node, limit) {
  const [now, bar, origins] = node.children;
  const top = Math.max(limit.depth ?? 0, limit.stop);
  fillOnce(now, JSON.stringify(limit), () => [
    h("strong", {}, known(limit.depth) ? amount(limit.depth, limit.unit) : "not known"),
    ` of ${amount(limit.stop, limit.unit)}${known(limit.depth) ? ` (${percent(limit.depth, limit.stop)})` : ""}. `,
    limit.effective
      ? `Resumes ${limit.resumes_below ? "below" : "at"} ${amount(limit.resume, limit.unit)}.`
      : `Below its resume level of ${amount(limit.resume, limit.unit)}: not the cause.`,
  ]);
  setAttribute(
    now,
    "title",
    `${exactAmount(limit.depth, limit.unit)}; stop level ${exact(limit.stop)}, resume level ${exact(limit.resume)}`,
  );
  bar.firstChild.style.inlineSize = `${(100 * (limit.depth ?? 0)) / top}%`;
  bar.firstChild.dataset.level = limit.effective ? "over" : "";
  bar.lastChild.style.insetInlineStart = `${(100 * limit.resume) / top}%`;
  fillOnce(origins, JSON.stringify(limit.fields), () =>
    limit.fields
      .filter((/** @type {any} */ field) => field.value !== null && field.value !== 0)
      .flatMap((/** @type {any} */ field, /** @type {any} */ index) => [
        index ? "; " : "",
        h("code", {}, field.field),
        ` ${typeof field.value === "number" ? exact(field.value) : field.value} `,
        field.origin ? "from " : "(origin not known)",
        field.origin_object
          ? h("a", { href: objectUrl(field.origin_object) }, originWords(field.origin))
          : field.origin
            ? originWords(field.origin)
            : "",
      ]),
  );
}

// -- lists ------------------------------------------------------------------------------------------------------

/** @param {any} consumer */
function consumerRow(consumer) {
  return h(
    "tr",
    {},
    h(
      "th",
      { scope: "row", class: "c-client" },
      h("a", { href: objectUrl(consumer.object) }),
      h("small", { class: "muted" }),
    ),
    h("td", { class: "wrap", "data-label": "Activity" }),
    h("td", { class: "num", "data-label": "Rate" }),
  );
}

/**
 * @param {any} node
 * @param {any} consumer
 */
function updateConsumer(node, consumer) {
  const [client, what, speed] = node.children;
  setText(client.firstChild, consumer.client || consumer.link || `Consumer ${consumer.id}`);
  setText(client.lastChild, consumer.link ? `link ${consumer.link}` : "");
  setText(what, `${consumer.doing.charAt(0).toUpperCase()}${consumer.doing.slice(1)}.`);
  what.classList.toggle("hot", consumer.stuck);
  setText(speed, rate(deliveries.rateOf(consumer.object)));
}

/** @param {any} producer */
function producerRow(producer) {
  return h(
    "tr",
    {},
    h("td", { class: "c-state", "data-label": "State" }, h("span", { class: "state" })),
    h(
      "th",
      { scope: "row", class: "c-client" },
      h("a", { href: whyUrl(producer.object) }),
      h("small", { class: "muted" }),
    ),
    h("td", { "data-label": "Duration" }, sinceElement()),
    h("td", { class: "num", "data-label": "Sent" }),
  );
}

/**
 * @param {any} node
 * @param {any} producer
 */
function updateProducer(node, producer) {
  const [state, client, since, sent] = node.children;
  node.dataset.state = producer.state;
  setState(state.firstChild, producer.state);
  setText(client.firstChild, producer.client || producer.link || `Producer ${producer.id}`);
  setText(client.lastChild, `${producer.link ? `link ${producer.link}` : ""}${producer.draining ? ", draining" : ""}`);
  setSince(since.firstChild, producer.blocked_since);
  setText(sent, count(producer.messages));
  setAttribute(sent, "title", exactAmount(producer.messages, "messages"));
}

function connectionRow() {
  return h(
    "article",
    { class: "shared" },
    h("h3", {}, h("a")),
    h("p", { class: "muted small" }),
    h("ul", { class: "plain-list" }),
  );
}

/**
 * @param {any} node
 * @param {any} connection
 */
function updateConnection(node, connection) {
  const [head, about, list] = node.children;
  head.firstChild.href = objectUrl(connection.object);
  setText(head.firstChild, `${connection.user}@${connection.remote_address}`);
  setText(
    about,
    `Connection ${connection.id}, container ` +
      `${connection.container_id}` +
      `${connection.blocked_producers ? `; ${plural(connection.blocked_producers, "blocked producer")}` : ""}`,
  );
  const lines = [
    ...connection.other_producers.map((/** @type {any} */ link) => ({ ...link, says: "publishes to" })),
    ...connection.consumers_here.map((/** @type {any} */ link) => ({ ...link, says: "consumes from", here: true })),
    ...connection.other_consumers.map((/** @type {any} */ link) => ({ ...link, says: "consumes from" })),
  ];
  fillOnce(list, JSON.stringify(lines.map(({ object, queue, state }) => [object, queue, state])), () =>
    lines
      .slice(0, 12)
      .map((link) =>
        h(
          "li",
          {},
          `${link.says} `,
          link.queue ? h("a", { href: objectUrl(link.queue) }, shortName(link.queue)) : "a queue that is not known",
          link.here ? " (this queue)" : "",
          " ",
          link.state ? stateElement(link.state) : null,
        ),
      )
      .concat(lines.length > 12 ? [h("li", { class: "muted" }, `${plural(lines.length - 12, "more link")}`)] : []),
  );
  node.dataset.alone = String(lines.length === 0);
}

/**
 * @param {any} name
 * @param {any} items
 * @param {any} row
 * @param {any} update
 * @param {any} none
 * @param {any} [total]
 */
function list(name, items, row, update, none, total = items.length) {
  reconcile(byId(name), items, (item) => item.object, row, update);
  const table = byId(name).closest("table");
  if (table) table.hidden = items.length === 0;
  byId(`${name}-empty`).hidden = items.length > 0;
  if (!items.length) fillOnce(byId(`${name}-empty`), none, () => h("p", {}, none));
  const rest = byId(`${name}-rest`);
  if (!rest) return;
  rest.hidden = total <= items.length;
  setText(rest, `${exact(total - items.length)} more: see the object browser.`);
}

// -- the page ---------------------------------------------------------------------------------------------------

const render = drawing(() => {
  /** @type {any} */
  const data = snapshot?.data;
  if (!data) return;
  const gone = byId("gone");
  gone.hidden = !data.gone;
  document.body.classList.toggle("queue-gone", Boolean(data.gone));
  find(".why-grid").hidden = Boolean(data.gone) && !drawn;
  if (data.gone) {
    setText(byId("verdict"), `No such object${atThatTime()}.`);
    fill(
      gone,
      h(
        "p",
        {},
        h("strong", {}, `No such object${atThatTime()}. `),
        "The client has disconnected, or the queue was deleted. ",
        queueName ? h("a", { href: whyUrl(queueName) }, "Show its queue") : h("a", { href: "/" }, "Overview"),
      ),
    );
    return;
  }
  if (!data.queue && !data.producer) {
    setText(byId("verdict"), UNKNOWN);
    conditions.unknown("not known");
    setText(byId("state"), "not known");
    for (const name of ["consumers", "producers", "sharing"]) {
      const table = byId(name).closest("table");
      if (table) table.hidden = true;
      byId(`${name}-empty`).hidden = false;
      fillOnce(byId(`${name}-empty`), UNKNOWN, () => h("p", {}, UNKNOWN));
    }
    return;
  }
  const queue = data.queue ?? {}; // unknown for a producer of a broker that does not report it
  queueName = queue.object ?? null;
  drawn = true;
  for (const id of ["queue-link", "queue-page"]) byId(id).hidden = !queueName;
  for (const id of ["stop", "start"]) byId(id).hidden = !queueName;
  if (queueName) {
    for (const id of ["queue-link", "queue-page"]) byId(id).href = objectUrl(queueName);
    setText(byId("queue-link"), `${queue.virtualhost} / ${middle(queue.name, NAMED)}`);
  }
  setState(byId("state"), data.producer ? data.producer.state : queue.state);
  const since = data.producer
    ? data.producer.blocked_since
    : Math.min(...[queue.overfull_since, queue.stopped_since].filter(Boolean), Infinity);
  fillOnce(byId("since"), String(since), () => (since && since !== Infinity ? ["for ", sinceElement(since)] : []));
  showVerdict(data);
  conditions.show(data.conditions ?? [], data.conditions?.length ?? 0);
  showChain(data);
  reconcile(byId("causes"), data.causes, causeKey, causeCard, updateCause);
  setText(byId("consumers-count"), queue.consumers ? count(queue.consumers) : "");
  list(
    "consumers",
    data.consumers,
    consumerRow,
    updateConsumer,
    !data.consumers.length && queue.consumers !== 0
      ? known(queue.consumers)
        ? `${plural(queue.consumers, "consumer")}, not listed by this broker.`
        : "Not known for this broker."
      : atThatTime()
        ? `No consumers attached${atThatTime()}.`
        : queue.depth_messages
          ? `No consumers attached for ${plural(queue.depth_messages, "queued message")}. ` +
            (settings.purges ? "Start a consumer, or purge the queue." : "Start a consumer.")
          : "No consumers attached.",
    data.consumers.length ? data.consumers_total : 0,
  );
  setText(
    byId("producers-count"),
    queue.producers && known(queue.blocked_producers)
      ? `${count(queue.blocked_producers)} of ${count(queue.producers)} blocked`
      : "",
  );
  list(
    "producers",
    data.producers,
    producerRow,
    updateProducer,
    data.producers_total === null ? "Not known for this broker." : `No producers attached${atThatTime()}.`,
    data.producers_total ?? 0,
  );
  const sharing = data.connections.filter(
    (/** @type {any} */ c) =>
      c.other_producers.length || c.other_consumers.length || (c.here.length && c.consumers_here.length),
  );
  setText(
    byId("sharing-count"),
    data.connections.length ? `${count(sharing.length)} of ${plural(data.connections.length, "connection")}` : "",
  );
  list(
    "sharing",
    sharing,
    connectionRow,
    updateConnection,
    data.connections.length
      ? "None: these connections have no other links."
      : data.producers_total === null
        ? "Not known for this broker."
        : `No clients connected${atThatTime()}.`,
  );
});

live.addEventListener("snapshot", (event) => {
  if (event.detail.watch !== "why") return;
  // The page keeps its last snapshot, marked with its time.
  if (!event.detail.connected && (snapshot?.data.queue || snapshot?.data.producer)) return;
  snapshot = event.detail;
  deliveries.add(snapshot.at, snapshot.data.consumers ?? []);
  render();
});

/** @param {any} action */
const act = (action) => () => queueName && openStopDialog(action, queueName);
byId("stop").addEventListener("click", act("stop"));
byId("start").addEventListener("click", act("start"));

watch({ watch: "why", object: settings.object });
