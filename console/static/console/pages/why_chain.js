// The chain from the client to the limit, of a queue or a producer that is blocked.

import { byId, fill, h, reconcile, setAttribute, setText } from "../core/elements.js";
import { bytes, count, exact, middle, plural, rate } from "../core/format.js";
import { objectUrl } from "../core/object_names.js";
import { amount, known, NAMED, originWords } from "./why_words.js";

/** @param {any} data */
export function showChain(data) {
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
