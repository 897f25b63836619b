// A stop or start of several brokers in its dialog: progress and result of each, another attempt where it failed, and
// undo. What a broker shows counts: a stop without an answer in time may have been made.

import { get, objectPath, post } from "../core/api.js";
import { fill, h, icon } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { toast } from "../core/toast.js";
import { sentence } from "./stop_brokers.js";
import { PROGRESS_REQUESTS, pauseBeforeProgress } from "./stop_progress.js";
import { aimOfCall, endOf, madeUnseen, planAcross } from "./stop_undo.js";

const NOT_SEEN = "it does not say which stops are in force";

/**
 * One broker: `before` is its preview, `result` of the call, `seen` its progress; `left`: an undo has left its stop.
 *
 * @typedef {{broker: string, title: string, before: any, result: any, seen: any, left?: boolean}} Part
 */

/**
 * Stop or start the producers of the selected brokers, and show what comes of it.
 *
 * @param {HTMLDialogElement} dialog
 * @param {any} form
 * @param {any} action
 * @param {any[]} selected previews of brokers
 * @param {any} body of the request, without the brokers
 */
export async function stopAcross(dialog, form, action, selected, body) {
  const parts = selected.map((each) => ({
    broker: each.broker,
    title: each.title,
    before: each,
    result: null,
    seen: null,
  }));
  const call = new AcrossCall(dialog, form, action, parts, body);
  await call.send(parts);
}

class AcrossCall {
  /**
   * @param {HTMLDialogElement} dialog
   * @param {any} form
   * @param {any} action
   * @param {Part[]} parts
   * @param {any} body
   */
  constructor(dialog, form, action, parts, body) {
    this.form = form;
    this.action = action;
    this.parts = parts;
    this.body = body;
    this.undone = false;
    this.pending = false;
    this.following = false;
    this.list = h("ul", { class: "stop-brokers results", "aria-live": "polite" });
    this.head = h("h2", { id: "stop-title" });
    this.total = h("p", { class: "answer" });
    this.again = h("button", { type: "button", data: { acts: "" }, on: { click: () => this.retry() } });
    this.undoing = h(
      "button",
      { type: "button", class: "undo", data: { acts: "" }, on: { click: () => this.undo() } },
      icon("start"),
      "Undo",
    );
    this.close = h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, "Close");
    const actions = h("div", { class: "dialog-actions" }, this.undoing, this.again, this.close);
    fill(form, this.head, this.total, this.list, actions);
    this.close.focus();
    dialog.addEventListener("close", () => this.offerUndo());
  }

  /** @param {Part[]} parts */
  async send(parts) {
    for (const part of parts) part.result = part.seen = null;
    this.pending = true;
    this.render();
    const sending = this.request(`${this.action}-producers/`, parts, this.body);
    this.follow();
    for (const [part, result] of await sending) part.result = result;
    this.pending = false;
    this.render();
  }

  /**
   * Send a request for some brokers; return the result of each, also if all failed.
   *
   * @param {string} path
   * @param {Part[]} parts
   * @param {any} body
   * @returns {Promise<[Part, any][]>}
   */
  async request(path, parts, body) {
    let answer;
    try {
      answer = await post(path, { ...body, brokers: parts.map((each) => each.broker) });
    } catch (error) {
      const known = error.status !== 0 && error.status < 500;
      answer = { brokers: [], missing: { outcome: known ? "refused" : "unknown", error: error.message } };
      if (Array.isArray(error.body?.brokers) && error.status !== 409) answer.brokers = error.body.brokers;
    }
    return parts.map((part) => [
      part,
      answer.brokers.find((/** @type {any} */ each) => each.broker === part.broker) ?? answer.missing,
    ]);
  }

  /** Show what the brokers have, until nothing is expected any more or the dialog is closed. */
  async follow() {
    if (this.action !== "stop" || this.following) return;
    this.following = true;
    for (let tries = 0; this.form.isConnected && !this.undone && tries < PROGRESS_REQUESTS; tries += 1) {
      const open = this.parts.filter(isOpen);
      if (!open.length) break;
      await new Promise((resume) => setTimeout(resume, pauseBeforeProgress(tries)));
      if (!this.form.isConnected || this.undone) break;
      try {
        const brokers = open.map((each) => each.broker);
        const answer = await post("stop-producers/progress/", { ...aimOfCall(this.body), brokers });
        for (const part of open)
          part.seen = answer.brokers.find((/** @type {any} */ each) => each.broker === part.broker) ?? part.seen;
        if (!this.undone) this.render(); // undone meanwhile: its result is shown
      } catch {
        // The last figures stay.
      }
    }
    this.following = false;
  }

  /** @param {Part} part */
  isInForce(part) {
    return part.seen?.stop?.reason === this.body.reason;
  }

  /** The brokers on which this call made a stop or changed its end, for an undo. */
  get made() {
    return this.parts.filter(
      (each) =>
        (each.result?.outcome === "done" && each.result.changed && !each.result.earlier?.replaced) ||
        (isUnknown(each) && this.madeOn(each)),
    );
  }

  /** The stop that this call made, as it was right after it; null: none, or not known. @param {Part} part */
  madeOn({ result, seen }) {
    return result.outcome === "unknown" ? madeUnseen(this.body, result, seen?.stop) : result.made;
  }

  /** The brokers on which it replaced a staged start, which no undo restores. */
  get lost() {
    return this.parts.filter((each) => each.result?.outcome === "done" && each.result.earlier?.replaced);
  }

  get failed() {
    return this.parts.filter((each) => each.result && each.result.outcome !== "done" && !this.isInForce(each));
  }

  retry() {
    this.close.focus();
    return this.send(this.failed);
  }

  /**
   * Undo what this call has made and no other has changed since: a stop that was in force before gets its end again,
   * unless that has passed.
   */
  async undo() {
    const { made, lost } = this;
    this.undoing.disabled = true;
    const stops = await stopsInForce(made.map((part) => part.broker));
    const calls = made.map((part) => ({
      broker: part.broker,
      earlier: part.result.earlier,
      made: this.madeOn(part),
    }));
    const plan = planAcross(this.body, calls, stops, serverNow());
    const among = (/** @type {string[]} */ brokers) => made.filter((part) => brokers.includes(part.broker));
    const [lifted, before, left] = [among(plan.lift), among(plan.restore), among(plan.left)];
    for (const part of left) part.left = true;
    const { effects, reason } = this.body;
    const aim = { ...aimOfCall(this.body), reason: `undo: ${reason}` };
    const results = await Promise.all([
      ...before.map((each) =>
        this.request("stop-producers/", [each], {
          ...aim,
          ...(effects ? { effects } : {}),
          ...endOf(each.result.earlier),
        }),
      ),
      ...(lifted.length ? [this.request("start-producers/", lifted, { ...aim, only: true })] : []),
    ]);
    results.push(among(plan.unread).map((part) => [part, { outcome: "failed", error: NOT_SEEN }]));
    const undone = results.flat();
    this.undone = undone.every(([, result]) => result.outcome === "done");
    if (!this.form.isConnected) return undone;
    if (this.undone) {
      const asBefore = before.length + plan.same.length;
      this.head.textContent = left.length === made.length ? "Not undone" : "Undone";
      this.total.textContent = [
        lifted.length ? `The stop was removed on ${plural(lifted.length, "broker")}.` : "",
        asBefore ? `On ${plural(asBefore, "broker")} the earlier stop is in force.` : "",
        left.length ? `On ${plural(left.length, "broker")} it was removed or changed meanwhile, and stays so.` : "",
      ]
        .filter(Boolean)
        .join(" ");
      fill(
        this.list,
        [...made, ...lost].map((part) => row(part.title, "done", undoneInWords(part))),
      );
      this.undoing.remove();
      this.again.remove();
    } else {
      for (const [part, result] of undone)
        part.result = result.outcome === "done" ? { ...result, changed: false, undone: true } : part.result;
      this.render();
      const left = undone.filter(([, result]) => result.outcome !== "done");
      this.total.after(
        ...left.map(([part, result]) =>
          h("p", { class: "wrong undoing", role: "alert" }, `Undo failed on ${part.title}: ${sentence(result.error)}`),
        ),
      );
      this.undoing.disabled = false;
    }
    return undone;
  }

  /** The effect of a stop shows after the dialog is closed: a toast offers undo for a while. */
  offerUndo() {
    const { made } = this;
    if (this.action !== "stop" || this.undone || !made.length) return;
    const where = made.length === 1 ? made[0]?.title : plural(made.length, "broker");
    toast(`${where}: producers stopped.`, "done", [
      "Undo",
      async () => {
        const undone = await this.undo();
        const left = undone.filter(([, result]) => result.outcome !== "done");
        for (const [part, result] of left) toast(`Undo failed on ${part.title}: ${result.error}`, "error");
        if (left.length) return;
        const changed = made.filter((part) => part.left).length;
        if (changed < made.length) toast(`${where}: stop undone.`);
        if (changed) toast(`${plural(changed, "broker")}: the stop was removed or changed meanwhile, and stays so.`);
      },
    ]);
  }

  render() {
    for (const wrong of this.form.querySelectorAll(".undoing")) wrong.remove();
    const stop = this.action === "stop";
    const done = this.parts.filter((each) => each.result?.outcome === "done" || this.isInForce(each));
    const verb = stop ? "stopped" : "started";
    this.head.textContent =
      done.length === this.parts.length && !this.pending
        ? `Producers ${verb}`
        : `Producers ${verb} on ${done.length} of ${plural(this.parts.length, "broker")}`;
    this.total.textContent = this.pending ? (stop ? "Stopping…" : "Starting…") : this.summary(done);
    fill(
      this.list,
      this.sorted().map((each) => row(each.title, this.stateOf(each), this.words(each))),
    );
    this.undoing.hidden = !stop || !this.made.length || this.pending;
    this.again.hidden = !this.failed.length || this.pending;
    fill(this.again, icon(this.action), `Retry on ${plural(this.failed.length, "broker")}`);
  }

  /** The brokers where it failed first, once all have answered. */
  sorted() {
    if (this.pending) return this.parts;
    /** @param {Part} part */
    const rank = (part) => (this.stateOf(part) === "done" ? 1 : 0);
    return [...this.parts].sort((one, other) => rank(one) - rank(other));
  }

  /** @param {Part[]} done */
  summary(done) {
    const known = done.map((each) => (each.result?.outcome === "done" ? each.result.producers : null));
    const sum = known.reduce((total, each) => total + (each ?? 0), 0);
    const queues = done.reduce((total, each) => total + (each.result?.queues ?? each.seen?.queues ?? 0), 0);
    if (!done.length) return `No broker was ${this.action === "stop" ? "stopped" : "started"}.`;
    const some = known.some((each) => each === null || each === undefined);
    const producers = some && !sum ? "The producers" : `${some ? "At least " : ""}${plural(sum, "producer")}`;
    return `${producers} of ${plural(queues, "queue")} on ${plural(done.length, "broker")}.`;
  }

  /** @param {Part} part */
  stateOf(part) {
    if (this.isInForce(part)) return "done";
    return part.result?.outcome ?? "pending";
  }

  /** @param {Part} part */
  words(part) {
    const { result } = part;
    const stop = this.action === "stop";
    if (!result) return this.isInForce(part) ? "Stopped, no answer yet" : stop ? "Stopping…" : "Starting…";
    if (result.undone) return `Undone. ${undoneInWords(part)}`;
    if (result.outcome === "done") return doneInWords(part, stop);
    if (result.outcome === "unknown" && this.isInForce(part))
      return "Stopped: it did not answer in time, and shows the stop";
    const text = sentence(result.error);
    if (result.outcome === "unknown") return `Not known whether it was done: ${text}`;
    return `Not ${stop ? "stopped" : "started"}: ${text}`;
  }
}

/**
 * Return the stops in force now of each broker that answers.
 *
 * @param {string[]} brokers
 * @returns {Promise<Map<string, any[]>>}
 */
async function stopsInForce(brokers) {
  const read = await Promise.allSettled(brokers.map((broker) => get(objectPath(broker, "type=Broker"))));
  return new Map(
    read.flatMap((each, number) =>
      each.status === "fulfilled" ? [[brokers[number] ?? "", each.value.attributes.stops ?? []]] : [],
    ),
  );
}

/** @param {Part} part */
const isUnknown = (part) => part.result?.outcome === "unknown";

/** Whether more can be learned of a broker. @param {Part} part */
const isOpen = (part) =>
  !part.result ||
  isUnknown(part) ||
  (part.result.outcome === "done" && (part.seen?.draining ?? part.result.draining) > 0);

/** @param {Part} part */
function undoneInWords({ result, left }) {
  if (left) return "Left as it is: the stop was removed or changed meanwhile";
  if (!result?.earlier) return "Producers started";
  if (result.earlier.replaced) return "Still stopped: the staged start before is not restored";
  return isOver(result.earlier)
    ? "Producers started: the end of the earlier stop has passed"
    : "Stopped as before, with the earlier end";
}

/** @param {any} earlier */
const isOver = ({ until }) => until && until <= serverNow();

/**
 * @param {Part} part
 * @param {boolean} stop
 */
function doneInWords({ result, seen }, stop) {
  const producers = result.producers === null ? "producers" : plural(result.producers, "producer");
  const what = `${producers} of ${plural(result.queues, "queue")}`;
  if (!result.changed) return stop ? "This stop was already in force" : "This stop was not in force";
  const draining = seen?.draining ?? result.draining;
  const blocked = (result.stopped ?? 0) + (result.draining ?? 0);
  return [
    `${stop ? "Stopped" : "Started"}: ${what}`,
    stop && draining ? `${exact(draining)} draining` : "",
    result.unstoppable ? `${plural(result.unstoppable, "queue")} cannot be stopped` : "",
    !stop && blocked ? `${exact(blocked)} still blocked` : "",
    result.earlier && stop
      ? result.earlier.replaced
        ? "this replaced a staged start"
        : "it was stopped before, and has the new end"
      : "",
  ]
    .filter(Boolean)
    .join("; ");
}

/** @type {Record<string, string>} */
const MARKS = { done: "✓", pending: "…", unknown: "?", refused: "✗", failed: "✗" };

/**
 * @param {string} title
 * @param {string} state
 * @param {string} text
 */
const row = (title, state, text) =>
  h(
    "li",
    { class: state },
    h("span", { class: "result-mark", "aria-hidden": "true" }, MARKS[state] ?? ""),
    h("strong", {}, title),
    h("span", { class: state === "done" || state === "pending" ? "muted" : "wrong" }, text),
  );
