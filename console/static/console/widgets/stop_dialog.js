// The dialog that stops or starts producers: preview of the affected queues, reason, pattern or saved selection.

import { post } from "../core/api.js";
import { fill, find, h, icon } from "../core/elements.js";
import { count, exact, plural } from "../core/format.js";
import { parseName, scopeInWords, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { options, savedSelections } from "./saved_selections.js";
import { isStoppedFor } from "./stops_in_force.js";

/** @type {Record<string, any>} */
const WORDS = {
  stop: {
    path: "stop-producers/",
    title: "Stop",
    doing: "Stopping…",
    says: "All their producers stay stopped, also after a restart of the broker. Consumers are not affected.",
    placeholder: "e.g. consumers of orders are being redeployed",
  },
  start: {
    path: "start-producers/",
    title: "Start",
    doing: "Starting…",
    says:
      "Removes the operator's stop. Producers of a queue that is overfull, or in another stopped " +
      "scope, stay blocked.",
    placeholder: "e.g. consumers are running again",
  },
};

/**
 * Open the dialog. `aim`: the object name of the broker, a virtual host, an exchange or a queue; or a map of `scope`
 * and optionally `pattern` (fixed), `queues` (their names), `match` (a filter: search and states), `only` (remove
 * exactly this stop), and `label`, a text for the scope.
 *
 * @param {any} action
 * @param {any} aim
 */
export function openStopDialog(action, aim) {
  const text = WORDS[action];
  const { label, only, match, ...fixed } = typeof aim === "string" ? { scope: aim } : aim;
  const type = parseName(fixed.scope)?.type;
  const wide = type === "Broker" || type === "VirtualHost";
  const withPattern = wide && !fixed.queues && !match && fixed.pattern === undefined;
  const whole = type === "Broker" && withPattern;
  let heading = whole
    ? `${text.title} all producers`
    : `${text.title} producers of ${label ?? scopeInWords(fixed.scope)}`;

  const preview = h("div", { class: "preview", "aria-live": "polite" }, h("p", { class: "loading" }, "Counting…"));
  const reason = h("textarea", {
    id: "stop-reason",
    rows: "2",
    required: true,
    maxlength: "500",
    placeholder: text.placeholder,
  });
  const pattern = h("input", {
    type: "text",
    id: "stop-pattern",
    spellcheck: "false",
    maxlength: "255",
    placeholder: "orders.> or *.eu",
  });
  const chosen = whole ? h("select", { id: "stop-selection" }) : null;
  const everyBroker = h("input", { type: "checkbox", id: "stop-brokers" });
  const end = action === "stop" ? endFields() : stageFields();
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h(
    "button",
    { type: "submit", class: action === "stop" ? "danger solid" : "primary", data: { acts: "" } },
    icon(action),
    heading,
  );
  const cancel = h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel");
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "stop-title" }, heading),
    preview,
    h("p", { class: "muted" }, text.says),
    h(
      "label",
      { class: "field" },
      h("span", {}, "Reason ", h("em", {}, "required")),
      reason,
      h(
        "small",
        { class: "hint" },
        "Recorded in the audit trail",
        action === "stop" ? " and shown to all users during the stop." : ".",
      ),
    ),
    end.element,
    withPattern
      ? h(
          "details",
          { class: "more" },
          h("summary", {}, "Restrict to queues"),
          h(
            "label",
            { class: "field" },
            h("span", {}, "Pattern"),
            pattern,
            h("small", { class: "hint" }, "* matches one word; > or # at the end matches any number of words."),
          ),
          chosen ? h("label", { class: "field", hidden: true }, h("span", {}, "Saved selection"), chosen) : null,
        )
      : null,
    whole && (settings.brokers?.length ?? 0) > 1
      ? h("label", { class: "sure" }, everyBroker, h("span", {}, `On all ${settings.brokers.length} brokers`))
      : null,
    problem,
    h("div", { class: "dialog-actions" }, cancel, submit),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "stop-title", id: `${action}-dialog` }, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());

  let queues = fixed.queues; // for a filter: the queues of the preview
  const body = () => ({
    ...fixed,
    ...(queues ? { queues } : {}),
    ...(withPattern && !chosen?.value ? { pattern: pattern.value.trim() } : {}),
    ...(everyBroker.checked ? { brokers: ["*"] } : {}),
  });

  /** @type {any} */
  let request = null; // aborts the preview under way
  /** @type {any} */
  const loadPreview = async () => {
    request?.abort();
    request = new AbortController();
    try {
      const response = await post(
        "stop-producers/preview/",
        match ? { ...fixed, match } : chosen?.value ? { ...fixed, selection: Number(chosen.value) } : body(),
        request.signal,
      );
      if (response.objects) queues = response.objects;
      fill(preview, ...previewLines(action, response));
    } catch (error) {
      if (error.name !== "AbortError") fill(preview, h("p", { class: "wrong" }, error.message));
    }
  };
  let pause = 0;
  pattern.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(loadPreview, 250);
  });
  everyBroker.addEventListener("change", loadPreview);
  if (chosen) offerSaved(chosen);
  chosen?.addEventListener("change", () => {
    // The queues of the preview are stopped, even if the selection later matches others.
    queues = undefined;
    heading = chosen.value
      ? `${text.title} producers of ${chosen.selectedOptions[0].textContent}`
      : `${text.title} all producers`;
    fill(submit, icon(action), heading);
    fill(find("h2", form), heading);
    pattern.disabled = everyBroker.disabled = chosen.value !== "";
    if (chosen.value) everyBroker.checked = false;
    loadPreview();
  });

  /**
   * @param {any} message
   * @param {any} [field]
   */
  const showProblem = (message, field = null) => {
    problem.hidden = false;
    fill(problem, h("p", {}, message));
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    if (!reason.value.trim()) {
      showProblem("Enter a reason.", reason);
      return;
    }
    /** @type {any} */
    const ends = end.read();
    if (ends.wrong) {
      showProblem(ends.wrong, ends.field);
      return;
    }
    if ((match || chosen?.value) && !queues) {
      showProblem("The queues are still being counted.");
      return;
    }
    submit.disabled = true;
    fill(submit, text.doing);
    problem.hidden = true;
    const sent = body();
    try {
      const answer = await post(text.path, {
        ...sent,
        ...ends,
        ...(only ? { only: true } : {}),
        reason: reason.value.trim(),
      });
      showAnswer(
        dialog,
        form,
        action,
        sent,
        { ...answer, rate: ends.rate },
        reason.value.trim(),
        whole && !chosen?.value
          ? "All producers"
          : chosen?.value
            ? chosen.selectedOptions[0].textContent
            : (label ?? scopeInWords(fixed.scope)),
      );
    } catch (error) {
      submit.disabled = false;
      fill(submit, icon(action), heading);
      showProblem(error.message);
    }
  });

  dialog.showModal();
  reason.focus();
  loadPreview();
  return dialog;
}

/**
 * Fill the choice of saved selections, if there are any.
 *
 * @param {any} select
 */
async function offerSaved(select) {
  try {
    const saved = await savedSelections();
    fill(select, options(saved, "none: all queues"));
    select.parentElement.hidden = saved.length === 0;
  } catch {
    // The dialog works without them.
  }
}

/** The optional end of a stop: after a time, at a depth, or at the earlier of both. */
function endFields() {
  const timed = h("input", { type: "checkbox", id: "end-timed" });
  const minutes = h("input", {
    type: "number",
    id: "end-minutes",
    min: "1",
    max: "10080",
    step: "1",
    value: "30",
    "aria-label": "Minutes until producers are started again",
  });
  const deep = h("input", { type: "checkbox", id: "end-deep" });
  const below = h("input", {
    type: "number",
    id: "end-below",
    min: "1",
    max: "99",
    step: "1",
    value: "20",
    "aria-label": "Percent of the capacity",
  });
  for (const [box, number] of [
    [timed, minutes],
    [deep, below],
  ])
    number.addEventListener("input", () => (box.checked = true));
  const element = h(
    "fieldset",
    { class: "ends" },
    h("legend", {}, "Resume automatically"),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, timed, h("span", {}, "after")),
      minutes,
      h("span", {}, "minutes"),
    ),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, deep, h("span", {}, "when all queues are at or below")),
      below,
      h("span", {}, "% of its capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "Whichever comes first. The broker does this, whether or not a page is open. Neither: an operator starts them.",
    ),
  );
  const read = () => {
    const ends = {};
    if (timed.checked) {
      const value = Number(minutes.value);
      if (!Number.isFinite(value) || value <= 0) return { wrong: "Minutes must be a number above 0.", field: minutes };
      ends.for_ms = Math.round(value * 60_000);
    }
    if (deep.checked) {
      const value = Number(below.value);
      if (!Number.isInteger(value) || value < 1 || value > 99)
        return { wrong: "The depth is a whole percentage from 1 to 99.", field: below };
      ends.below = value;
    }
    return ends;
  };
  return { element, read };
}

/** The fields of a staged start, which stops the producers again above a depth. */
function stageFields() {
  const box = h("input", { type: "checkbox", id: "stage" });
  const rate = h("input", {
    type: "number",
    id: "stage-rate",
    min: "1",
    step: "1",
    value: "10",
    "aria-label": "Initial messages per second",
  });
  const step = h("input", {
    type: "number",
    id: "stage-step",
    min: "1",
    max: "3600",
    step: "1",
    value: "10",
    "aria-label": "Seconds per step",
  });
  const halt = h("input", {
    type: "number",
    id: "stage-halt",
    min: "1",
    max: "100",
    step: "1",
    value: "60",
    "aria-label": "Percent of the capacity at which the start halts",
  });
  for (const number of [rate, step, halt]) number.addEventListener("input", () => (box.checked = true));
  const element = h(
    "fieldset",
    { class: "ends" },
    h("legend", {}, "Staged start"),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, box, h("span", {}, "start in stages: initially")),
      rate,
      h("span", {}, "messages/s into each queue, doubled every"),
      step,
      h("span", {}, "s;"),
    ),
    h(
      "div",
      { class: "end-line" },
      h("span", {}, "stop again if a queue is above"),
      halt,
      h("span", {}, "% of its capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "After six steps the throttle is removed. The broker does this, whether or not a page is open.",
    ),
  );
  const read = () => {
    if (!box.checked) return {};
    for (const [field, most, name] of /** @type {[HTMLInputElement, number, string][]} */ ([
      [rate, 1_000_000, "Messages per second"],
      [step, 3600, "Seconds per step"],
      [halt, 100, "The depth"],
    ])) {
      const value = Number(field.value);
      if (!Number.isInteger(value) || value < 1 || value > most)
        return { wrong: `${name} must be a whole number from 1 to ${most.toLocaleString("en")}.`, field };
    }
    return { rate: Number(rate.value), step_ms: Number(step.value) * 1000, halt: Number(halt.value) };
  };
  return { element, read };
}

/**
 * @param {any} action
 * @param {any} answer
 */
function previewLines(action, answer) {
  const verb = action === "stop" ? "stops" : "starts";
  /** @type {HTMLElement[]} */
  const lines = [
    h(
      "p",
      { class: "preview-count" },
      `This ${verb} `,
      h("strong", {}, plural(answer.producers, "producer")),
      " of ",
      h("strong", {}, plural(answer.queues, "queue")),
      answer.brokers ? ` on ${plural(answer.brokers.length, "broker")}.` : ".",
    ),
  ];
  if (answer.already_stopped)
    lines.push(
      h(
        "p",
        { class: "muted" },
        action === "stop"
          ? `${plural(answer.already_stopped, "queue is", "queues are")} already stopped.`
          : `${plural(answer.already_stopped, "queue is", "queues are")} stopped now.`,
      ),
    );
  if (action === "stop" && answer.percent_used !== null && answer.percent_used !== undefined)
    lines.push(h("p", { class: "muted" }, `Highest depth: ${exact(answer.percent_used)}% of the capacity.`));
  if (answer.largest?.length) {
    lines.push(
      h(
        "ul",
        { class: "preview-largest" },
        answer.largest
          .slice(0, 5)
          .map((/** @type {any} */ queue) =>
            h(
              "li",
              {},
              h("span", {}, queue.name ?? shortName(queue.object ?? "")),
              h("span", { class: "muted" }, plural(queue.producers, "producer")),
            ),
          ),
        answer.queues > 5 ? h("li", { class: "muted" }, `${exact(answer.queues - 5)} more`) : null,
      ),
    );
  }
  lines.push(...unanswered(answer));
  return lines;
}

/** @param {any} answer */
const unanswered = (answer) =>
  (answer.brokers ?? [])
    .filter((/** @type {any} */ each) => each.error)
    .map((/** @type {any} */ each) => h("p", { class: "wrong" }, `${each.title} cannot be reached: ${each.error}`));

/**
 * Show the result in the dialog, with live progress and an undo button for a stop. `what`: the scope as text.
 *
 * @param {any} dialog
 * @param {any} form
 * @param {any} action
 * @param {any} sent
 * @param {any} answer
 * @param {any} why
 * @param {any} what
 */
function showAnswer(dialog, form, action, sent, answer, why, what) {
  const close = h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, "Close");
  const undo =
    action === "stop" && answer.changed
      ? h("button", { type: "button", class: "undo", data: { acts: "" } }, icon("start"), "Undo")
      : null;
  fill(
    form,
    h("h2", { id: "stop-title" }, action === "stop" ? "Producers stopped" : "Producers started"),
    ...answerLines(action, answer),
    h("div", { class: "dialog-actions" }, undo, close),
  );
  close.focus();
  const following = { on: action === "stop" };
  if (action === "stop") followDraining(form, sent, answer, following);
  if (!undo) return;
  let over = false;
  const revert = () => {
    // Only the stop of this call: other stops stay.
    const mine = { ...sent, only: true, reason: `undo: ${why}` };
    if (sent.queues) mine.queues = answer.changed_queues;
    if (sent.brokers)
      mine.brokers = answer.brokers
        .filter((/** @type {any} */ each) => each.changed)
        .map((/** @type {any} */ each) => each.broker);
    return post("start-producers/", mine);
  };
  // The effect of a stop shows after the dialog is closed: a toast offers undo for a while.
  dialog.addEventListener(
    "close",
    () =>
      over ||
      toast(`${what}: producers stopped.`, "done", [
        "Undo",
        async () => {
          try {
            // Another stop of the scope can have replaced this one: it stays.
            const undone = sent.brokers || isStoppedFor(why) ? await revert() : {};
            toast(undone.changed ? `${what}: stop undone.` : `${what}: this stop is no longer in force.`);
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
        h("h2", { id: "stop-title" }, "Undone"),
        ...answerLines("start", undone),
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

/**
 * @param {any} action
 * @param {any} answer
 */
function answerLines(action, answer) {
  const lines = [];
  if (action === "stop") {
    lines.push(
      h(
        "p",
        { class: "answer" },
        h("strong", {}, plural(answer.producers, "producer")),
        ` of ${plural(answer.queues, "queue")} ${answer.producers === 1 ? "receives" : "receive"} no more credit.`,
      ),
    );
    lines.push(h("div", { class: "bar stopping", "aria-hidden": "true" }, h("div", { class: "bar-fill" })));
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
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "This stop was already in force."));
  } else {
    const blocked = answer.stopped ?? 0;
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
    else
      lines.push(
        h(
          "p",
          { class: "answer" },
          `Removed the stop for ${plural(answer.producers, "producer")} of ${plural(answer.queues, "queue")}.`,
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
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "This stop was not in force."));
  }
  if (answer.missing)
    lines.push(h("p", { class: "muted" }, `${plural(answer.missing, "queue was", "queues were")} deleted meanwhile.`));
  lines.push(...unanswered(answer));
  return lines;
}

/**
 * Show the number of draining producers until it is 0 or the dialog is closed.
 *
 * @param {any} form
 * @param {any} sent
 * @param {any} answer
 * @param {any} following
 */
async function followDraining(form, sent, answer, following) {
  let left = answer.draining;
  for (let tries = 0; following.on && form.isConnected; tries += 1) {
    form.querySelector(".stopped-now").textContent = exact(answer.producers - left);
    form.querySelector(".draining-now").textContent = left
      ? `${exact(left)}: messages in flight can still arrive`
      : "0: no messages in flight";
    form.querySelector(".stopping .bar-fill").style.inlineSize =
      `${answer.producers ? 100 * (1 - left / answer.producers) : 100}%`;
    if (!left || tries === 120) return;
    await new Promise((resume) => setTimeout(resume, 500));
    if (!following.on || !form.isConnected) return;
    try {
      left = Math.min(left, (await post("stop-producers/progress/", sent)).draining);
    } catch {
      return; // the last figures stay
    }
  }
}

/**
 * Return the aim of a dialog that removes exactly this stop.
 *
 * @param {any} stop
 */
export const aimOf = (stop) => ({
  scope: stop.object,
  ...(stop.pattern ? { pattern: stop.pattern, label: `queues matching ${stop.pattern}` } : { pattern: "" }),
  only: true,
});

/**
 * Return the aim of a dialog that removes these stops of single queues.
 *
 * @param {any[]} stops
 */
export const aimOfQueues = (stops) => ({
  scope: "type=Broker",
  queues: stops.map((/** @type {any} */ stop) => stop.object),
  label: `${count(stops.length)} queues`,
  only: true,
});
