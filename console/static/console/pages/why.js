// Why a queue or a producer is blocked: the verdict, the chain from the client to the limit, all causes, the consumers,
// the producers and shared connections.

import { atThatTime, away, drawing, UNKNOWN } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, fillOnce, find, h, reconcile, setText } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { duration, middle } from "../core/format.js";
import { isolated, objectUrl, parseName, whyUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { ConditionsLine } from "../widgets/conditions.js";
import { setState } from "../widgets/states.js";
import { openStopDialog } from "../widgets/stop_dialog.js";
import { causeCard, causeKey, updateCause } from "./why_causes.js";
import { showChain } from "./why_chain.js";
import { deliveries, showConnections, showConsumers, showProducers } from "./why_lists.js";
import { NAMED } from "./why_words.js";

const conditions = new ConditionsLine({ about: false });
/** Of an object of which no end is known. */
const NEVER =
  parseName(settings.object)?.type === "Producer" ? "A producer exists only while its client is connected." : "";

/** @type {any} */
let snapshot = null;
let drawn = false; // whether the page shows the object, or its last state before it was deleted
let queueName = parseName(settings.object)?.type === "Queue" ? settings.object : null;

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

/** @type {any} */
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
        `${ending.text() || NEVER} `,
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
  ending.exists();
  for (const id of ["queue-link", "queue-page"]) byId(id).hidden = !queueName;
  for (const id of ["stop", "start"]) byId(id).hidden = !queueName;
  if (queueName) {
    for (const id of ["queue-link", "queue-page"]) byId(id).href = objectUrl(queueName);
    setText(byId("queue-link"), `${isolated(queue.virtualhost)} / ${isolated(middle(queue.name, NAMED))}`);
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
  showConsumers(data, queue);
  showProducers(data, queue);
  showConnections(data);
});

const ending = new Ending(settings.object, render);

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
