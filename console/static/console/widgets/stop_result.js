// The result of a stop or start in its dialog: figures, live progress of the draining, and undo.

import { get, objectPath, post } from "../core/api.js";
import { fill, h, icon } from "../core/elements.js";
import { exact, moment, plural } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { sinceElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { PROGRESS_REQUESTS, pauseBeforeProgress } from "./stop_progress.js";
import { isUndoable, planOf, undoOf } from "./stop_undo.js";

/**
 * Show the result in the dialog, with live progress and an undo button for a stop.
 *
 * @param {HTMLDialogElement} dialog
 * @param {any} form
 * @param {{action: string, sent: any, answer: any, reason: string, scope: string}} call what was called with which
 *   arguments, and the response; `scope` as text
 */
export function showResult(dialog, form, { action, sent, answer, reason, scope }) {
  const close = h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, "Close");
  const mine = undoOf(sent, answer);
  const undo =
    action === "stop" && isUndoable(mine)
      ? h("button", { type: "button", class: "undo", data: { acts: "" } }, icon("start"), "Undo")
      : null;
  fill(
    form,
    h("h2", { id: "stop-title" }, titleOf(action, answer)),
    ...resultLines(action, answer),
    h("div", { class: "dialog-actions" }, undo, close),
  );
  close.focus();
  const following = { on: action === "stop" };
  if (action === "stop" && isCounted(answer)) followDraining(form, sent, answer, following);
  if (!undo) return;
  let over = false;
  // Only what this call has changed: other stops stay, also one that has replaced it meanwhile.
  const revert = async () => {
    const stops = (await get(objectPath(settings.broker, "type=Broker"))).attributes.stops ?? [];
    const plan = planOf(mine, stops, serverNow());
    const why = `undo: ${reason}`;
    for (const arguments_ of plan.restore) await post("stop-producers/", { ...arguments_, reason: why });
    const started = plan.lift ? await post("start-producers/", { ...plan.lift, only: true, reason: why }) : null;
    return { ...plan, started };
  };
  // The effect of a stop shows after the dialog is closed: a toast offers undo for a while.
  dialog.addEventListener(
    "close",
    () =>
      over ||
      toast(`${scope}: producers stopped.`, "done", [
        "Undo",
        async () => {
          try {
            const undone = await revert();
            const lines = [...(isDone(undone) ? ["stop undone."] : []), ...restoredInWords(undone)];
            toast(`${scope}: ${lines.join(" ")}`);
          } catch (error) {
            toast(`Undo failed: ${error.message}`, "error");
          }
        },
      ]),
  );
  undo.addEventListener("click", async () => {
    undo.disabled = true;
    try {
      const undone = await revert();
      over = true;
      following.on = false;
      fill(
        form,
        h("h2", { id: "stop-title" }, isDone(undone) ? "Undone" : "Not undone"),
        ...(undone.started ? resultLines("start", undone.started) : []),
        ...restoredInWords(undone).map((line) => h("p", { class: "answer" }, line)),
        h("div", { class: "dialog-actions" }, close),
      );
      close.focus();
    } catch (error) {
      undo.disabled = false;
      form.querySelector(".wrong.undoing")?.remove();
      form.lastElementChild.before(h("p", { class: "wrong undoing", role: "alert" }, `Undo failed: ${error.message}`));
    }
  });
}

/** @param {any} undone */
const isDone = ({ restore, started }) => restore.length > 0 || Boolean(started?.changed);

/**
 * Say what an undo has done besides lifting the stop of the call, and what it has not done.
 *
 * @param {any} undone
 */
function restoredInWords({ restore, over, left }) {
  return [
    ...restore.map(
      (/** @type {any} */ each) =>
        `${each.queues ? `${plural(each.queues.length, "queue")} stopped as before` : "Stopped as before"}: ` +
        `${endInWords(each)}.`,
    ),
    ...(over.length
      ? [`Removed, since the earlier end has passed: ${plural(over.length, "stop")} (until ${moment(over[0].until)}).`]
      : []),
    ...(left > 1 ? [`${exact(left)} stops are no longer in force, or were changed meanwhile.`] : []),
    ...(left === 1 ? ["This stop is no longer in force, or was changed meanwhile."] : []),
  ];
}

/** @param {any} end */
function endInWords({ until, below }) {
  const ends = [until ? `at ${moment(until)}` : "", below ? `at a depth of ${below}%` : ""].filter(Boolean);
  return ends.length ? `resumes automatically ${ends.join(" or ")}` : "no automatic end";
}

/**
 * @param {string} action
 * @param {any} answer
 */
function titleOf(action, answer) {
  if (action === "stop") return "Producers stopped";
  return answer.changed ? "Producers started" : "Nothing changed";
}

/**
 * @param {any} action
 * @param {any} answer
 */
function resultLines(action, answer) {
  const lines = [];
  if (action === "stop") {
    lines.push(
      h(
        "p",
        { class: "answer" },
        h("strong", {}, answer.producers === null ? "The producers" : plural(answer.producers, "producer")),
        ` of ${plural(answer.queues, "queue")} `,
        answer.effects?.length
          ? `${answer.producers === 1 ? "is" : "are"} stopped (${answer.effects.join(", ")}).`
          : `${answer.producers === 1 ? "receives" : "receive"} no more credit.`,
      ),
    );
    if (answer.unstoppable)
      lines.push(
        h(
          "p",
          { class: "wrong" },
          `${plural(answer.unstoppable, "queue", "queues")} cannot be stopped: the producers go on.`,
        ),
      );
    if (isCounted(answer))
      lines.push(h("div", { class: "bar stopping", "aria-hidden": "true" }, h("div", { class: "bar-fill" })));
    if (isCounted(answer))
      lines.push(
        h(
          "dl",
          { class: "facts" },
          h("dt", {}, "Stopped"),
          h("dd", { class: "stopped-now" }),
          h("dt", {}, "Draining"),
          h("dd", { class: "draining-now", "aria-live": "polite" }),
        ),
      );
    lines.push(...beforeLines(answer));
  } else {
    const blocked = (answer.stopped ?? 0) + (answer.draining ?? 0);
    if (answer.rate && answer.changed)
      lines.push(
        h(
          "p",
          { class: "answer" },
          `${plural(answer.producers, "producer")} of ${plural(answer.queues, "queue")} ` +
            `${answer.producers === 1 ? "is" : "are"} being started in stages, initially ` +
            `${exact(answer.rate)} messages/s into each queue. The banner shows the progress.`,
        ),
      );
    else if (!answer.changed)
      lines.push(h("p", { class: "answer" }, "No producer was started: this stop was not in force."));
    else
      lines.push(
        h(
          "p",
          { class: "answer" },
          `Removed the stop for ${answer.producers === null ? "the producers" : plural(answer.producers, "producer")}` +
            ` of ${plural(answer.queues, "queue")}.`,
        ),
      );
    if (blocked)
      lines.push(
        h(
          "p",
          { class: "muted" },
          `${plural(blocked, "producer is", "producers are")} still blocked, by an overfull queue or another stop.`,
        ),
      );
  }
  if (answer.missing)
    lines.push(h("p", { class: "muted" }, `${plural(answer.missing, "queue was", "queues were")} deleted meanwhile.`));
  return lines;
}

/**
 * Say what was stopped already, by which user and why.
 *
 * @param {any} answer
 */
function beforeLines({ changed, stops_before: before = [] }) {
  if (!before.length) return changed ? [] : [h("p", { class: "muted" }, "This stop was already in force.")];
  const [{ actor, reason, since, replaced }] = before;
  const many = before.length > 1;
  const found = replaced ? "A staged start of these producers was in progress or had halted, " : "";
  return [
    h(
      "p",
      { class: "muted" },
      many
        ? `${plural(before.length, "stop was", "stops were")} already in force, one `
        : found || "This stop was already in force, ",
      `by ${actor || "an unknown user"}, for `,
      sinceElement(since),
      `${reason ? ` (${reason})` : ""}. `,
      changed ? afterInWords(before) : `${many ? "They stay as they were" : "It stays as it was"}.`,
    ),
  ];
}

/**
 * Say what the call has changed about the stops before, and what an undo restores.
 *
 * @param {any[]} before
 */
function afterInWords(before) {
  const lost = before.filter((stop) => stop.replaced).length;
  const rest = before.length - lost;
  const [first] = before.filter((stop) => !stop.replaced);
  const ends = new Set(before.filter((stop) => !stop.replaced).map(endInWords));
  return [
    rest ? `${rest > 1 ? "They stay" : "It stays"}, with the new end. ` : "",
    rest ? `Undo restores the earlier ${ends.size > 1 ? "ends" : `end: ${endInWords(first)}`}.` : "",
    lost
      ? `${rest ? " " : ""}Undo does not restore ${lost > 1 ? `${exact(lost)} staged starts` : "the staged start"}.`
      : "",
  ].join("");
}

/**
 * Whether the broker counts the producers of queues, so that there is a progress to show.
 *
 * @param {any} answer
 */
const isCounted = (answer) => answer.producers !== null && answer.draining !== null;

/**
 * Show the number of draining producers until it is 0 or the dialog is closed.
 *
 * @param {any} form
 * @param {any} sent
 * @param {any} answer
 * @param {any} following
 */
async function followDraining(form, sent, answer, following) {
  const { effects, ...aim } = sent;
  let left = answer.draining;
  for (let tries = 0; following.on && form.isConnected; tries += 1) {
    form.querySelector(".stopped-now").textContent = exact(answer.producers - left);
    form.querySelector(".draining-now").textContent = left
      ? `${exact(left)}: messages in flight can still arrive`
      : "0: no messages in flight";
    form.querySelector(".stopping .bar-fill").style.inlineSize =
      `${answer.producers ? 100 * (1 - left / answer.producers) : 100}%`;
    if (!left || tries === PROGRESS_REQUESTS) return;
    await new Promise((resume) => setTimeout(resume, pauseBeforeProgress(tries)));
    if (!following.on || !form.isConnected) return;
    try {
      left = Math.min(left, (await post("stop-producers/progress/", aim)).draining);
    } catch {
      return; // the last figures stay
    }
  }
}
