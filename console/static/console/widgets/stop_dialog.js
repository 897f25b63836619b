// The dialog that stops or starts producers: what it will touch, why, for how long, what came of it, and the way back.

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
    says: "Every producer of them is held back, also after a restart of the broker. Consumers go on.",
    placeholder: "Such as: consumers of orders are being redeployed",
  },
  start: {
    path: "start-producers/",
    title: "Start",
    doing: "Starting…",
    says:
      "The operator's stop is lifted. A queue that is overfull, or stopped by a stop of another " +
      "scope, still holds its producers.",
    placeholder: "Such as: consumers are back",
  },
};

/**
 * Ask for a reason and do it. `aim`: the object name of the broker, a virtual host, an exchange or a queue; or a map of
 * `scope` and perhaps `pattern` (fixed), `queues` (their names), `match` (a filter: search and states), `only` (lift
 * this very stop), and `label`, what it is about in words.
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
        "Kept in the audit trail",
        action === "stop" ? " and shown to everybody while the stop is in force." : ".",
      ),
    ),
    end.element,
    withPattern
      ? h(
          "details",
          { class: "more" },
          h("summary", {}, "Only some queues"),
          h(
            "label",
            { class: "field" },
            h("span", {}, "Pattern"),
            pattern,
            h("small", { class: "hint" }, "* stands for one word, > or # for any number of words at the end."),
          ),
          chosen ? h("label", { class: "field", hidden: true }, h("span", {}, "Saved selection"), chosen) : null,
        )
      : null,
    whole && (settings.brokers?.length ?? 0) > 1
      ? h(
          "label",
          { class: "sure" },
          everyBroker,
          h("span", {}, `On all ${settings.brokers.length} brokers, not only ${settings.brokerTitle}`),
        )
      : null,
    problem,
    h("div", { class: "dialog-actions" }, cancel, submit),
  );
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "stop-title", id: `${action}-dialog` }, form);
  document.body.append(dialog);
  dialog.addEventListener("close", () => dialog.remove());

  let queues = fixed.queues; // of a filter: those that the preview has told
  const body = () => ({
    ...fixed,
    ...(queues ? { queues } : {}),
    ...(withPattern && !chosen?.value ? { pattern: pattern.value.trim() } : {}),
    ...(everyBroker.checked ? { brokers: ["*"] } : {}),
  });

  /** @type {any} */
  let asked = null;
  /** @type {any} */
  const ask = async () => {
    asked?.abort();
    asked = new AbortController();
    try {
      const answer = await post(
        "stop-producers/preview/",
        match ? { ...fixed, match } : chosen?.value ? { ...fixed, selection: Number(chosen.value) } : body(),
        asked.signal,
      );
      if (answer.objects) queues = answer.objects;
      fill(preview, ...previewLines(action, answer));
    } catch (error) {
      if (error.name !== "AbortError") fill(preview, h("p", { class: "wrong" }, error.message));
    }
  };
  let pause = 0;
  pattern.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(ask, 250);
  });
  everyBroker.addEventListener("change", ask);
  if (chosen) offerSaved(chosen);
  chosen?.addEventListener("change", () => {
    // What the preview tells is what is stopped, whatever the selection finds later.
    queues = undefined;
    heading = chosen.value
      ? `${text.title} producers of ${chosen.selectedOptions[0].textContent}`
      : `${text.title} all producers`;
    fill(submit, icon(action), heading);
    fill(find("h2", form), heading);
    pattern.disabled = everyBroker.disabled = chosen.value !== "";
    if (chosen.value) everyBroker.checked = false;
    ask();
  });

  /**
   * @param {any} message
   * @param {any} [field]
   */
  const complain = (message, field = null) => {
    problem.hidden = false;
    fill(problem, h("p", {}, message));
    field?.setAttribute("aria-invalid", "true");
    field?.focus();
  };

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    if (!reason.value.trim()) {
      complain("Say why: whoever meets this later wants to know.", reason);
      return;
    }
    /** @type {any} */
    const ends = end.read();
    if (ends.wrong) {
      complain(ends.wrong, ends.field);
      return;
    }
    if ((match || chosen?.value) && !queues) {
      complain("Wait until the queues have been counted.");
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
      complain(error.message);
    }
  });

  dialog.showModal();
  reason.focus();
  ask();
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
    // Without them the dialog does all the rest.
  }
}

/** The optional end of a stop: after a time, at a depth, or whichever comes first. */
function endFields() {
  const timed = h("input", { type: "checkbox", id: "end-timed" });
  const minutes = h("input", {
    type: "number",
    id: "end-minutes",
    min: "1",
    max: "10080",
    step: "1",
    value: "30",
    "aria-label": "Minutes until they are started again",
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
    h("legend", {}, "Start them again by itself"),
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
      h("label", { class: "sure" }, deep, h("span", {}, "when every queue is down to")),
      below,
      h("span", {}, "% of its capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "Whichever comes first. The broker does it, whether this page is open or not. Neither: somebody must start them.",
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

/** A staged start, which halts and stops the producers again if that was too soon. */
function stageFields() {
  const box = h("input", { type: "checkbox", id: "stage" });
  const rate = h("input", {
    type: "number",
    id: "stage-rate",
    min: "1",
    step: "1",
    value: "10",
    "aria-label": "Messages a second at first",
  });
  const step = h("input", {
    type: "number",
    id: "stage-step",
    min: "1",
    max: "3600",
    step: "1",
    value: "10",
    "aria-label": "Seconds of a step",
  });
  const halt = h("input", {
    type: "number",
    id: "stage-halt",
    min: "1",
    max: "100",
    step: "1",
    value: "60",
    "aria-label": "Percent of the capacity at which it halts",
  });
  for (const number of [rate, step, halt]) number.addEventListener("input", () => (box.checked = true));
  const element = h(
    "fieldset",
    { class: "ends" },
    h("legend", {}, "Staged start"),
    h(
      "div",
      { class: "end-line" },
      h("label", { class: "sure" }, box, h("span", {}, "start them in stages: at first")),
      rate,
      h("span", {}, "messages/s into each queue, doubled every"),
      step,
      h("span", {}, "s;"),
    ),
    h(
      "div",
      { class: "end-line" },
      h("span", {}, "stop them again if a queue is above"),
      halt,
      h("span", {}, "% of its capacity"),
    ),
    h(
      "small",
      { class: "hint" },
      "After six steps the throttle is removed. The broker does it, whether this page is open or not.",
    ),
  );
  const read = () => {
    if (!box.checked) return {};
    for (const [field, most, name] of /** @type {[HTMLInputElement, number, string][]} */ ([
      [rate, 1_000_000, "Messages a second"],
      [step, 3600, "Seconds of a step"],
      [halt, 100, "The depth at which it halts"],
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
          ? `${plural(answer.already_stopped, "queue is", "queues are")} stopped already.`
          : `${plural(answer.already_stopped, "queue is", "queues are")} stopped now.`,
      ),
    );
  if (action === "stop" && answer.percent_used !== null && answer.percent_used !== undefined)
    lines.push(h("p", { class: "muted" }, `The fullest is at ${exact(answer.percent_used)} % of its capacity.`));
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
        answer.queues > 5 ? h("li", { class: "muted" }, `and ${exact(answer.queues - 5)} more`) : null,
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
    .map((/** @type {any} */ each) => h("p", { class: "wrong" }, `${each.title} was not reached: ${each.error}`));

/**
 * What came of it, followed as it happens, with one click to undo a stop of `what`, in words.
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
  const takeBack = () => {
    // Only what this very call brought about: stops of others stay.
    const mine = { ...sent, only: true, reason: `undo: ${why}` };
    if (sent.queues) mine.queues = answer.changed_queues;
    if (sent.brokers)
      mine.brokers = answer.brokers
        .filter((/** @type {any} */ each) => each.changed)
        .map((/** @type {any} */ each) => each.broker);
    return post("start-producers/", mine);
  };
  // The dialog is closed long before one sees what the stop did: its way back stays beside the banner for a while.
  dialog.addEventListener(
    "close",
    () =>
      over ||
      toast(`${what}: producers stopped.`, "done", [
        "Undo",
        async () => {
          try {
            // Another stop may have taken its place meanwhile: that one stays.
            const undone = sent.brokers || isStoppedFor(why) ? await takeBack() : {};
            toast(
              undone.changed ? `${what}: undone, the stop is lifted.` : `${what}: this stop is not in force any more.`,
            );
          } catch (error) {
            toast(`It was not undone: ${error.message}`, "error");
          }
        },
      ]),
  );
  undo.addEventListener("click", async () => {
    undo.disabled = true;
    try {
      const undone = await takeBack();
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
      form.lastElementChild.before(
        h("p", { class: "wrong undoing", role: "alert" }, `It was not undone: ${error.message}`),
      );
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
        ` of ${plural(answer.queues, "queue")} ${answer.producers === 1 ? "gets" : "get"} no more credit.`,
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
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "The same stop was in force before."));
  } else {
    const held = answer.stopped ?? 0;
    if (answer.rate && answer.changed)
      lines.push(
        h(
          "p",
          { class: "answer" },
          `${plural(answer.producers, "producer")} of ${plural(answer.queues, "queue")} ` +
            `${answer.producers === 1 ? "is" : "are"} being started in stages, at first ` +
            `${exact(answer.rate)} messages/s into each queue. The banner says how far it is.`,
        ),
      );
    else
      lines.push(
        h(
          "p",
          { class: "answer" },
          `The stop is lifted for ${plural(answer.producers, "producer")} on ${plural(answer.queues, "queue")}.`,
        ),
      );
    if (held)
      lines.push(
        h(
          "p",
          { class: "muted" },
          `${plural(held, "producer is", "producers are")} still held, by an overfull queue or another stop.`,
        ),
      );
    if (!answer.changed) lines.push(h("p", { class: "muted" }, "No such stop was in force."));
  }
  if (answer.missing)
    lines.push(h("p", { class: "muted" }, `${plural(answer.missing, "queue has", "queues have")} gone meanwhile.`));
  lines.push(...unanswered(answer));
  return lines;
}

/**
 * Say how many producers are still draining, until none is or the dialog is closed.
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
      ? `${exact(left)}: messages that were on their way may still arrive`
      : "0: nothing is on its way any more";
    form.querySelector(".stopping .bar-fill").style.inlineSize =
      `${answer.producers ? 100 * (1 - left / answer.producers) : 100}%`;
    if (!left || tries === 120) return;
    await new Promise((resume) => setTimeout(resume, 500));
    if (!following.on || !form.isConnected) return;
    try {
      left = Math.min(left, (await post("stop-producers/progress/", sent)).draining);
    } catch {
      return; // what was told last stands
    }
  }
}

/**
 * A stop in force -> what a dialog that lifts just that needs.
 *
 * @param {any} stop
 */
export const aimOf = (stop) => ({
  scope: stop.object,
  ...(stop.pattern ? { pattern: stop.pattern, label: `queues that match ${stop.pattern}` } : { pattern: "" }),
  only: true,
});

/**
 * Several stops of single queues as one aim.
 *
 * @param {any[]} stops
 */
export const aimOfQueues = (stops) => ({
  scope: "type=Broker",
  queues: stops.map((/** @type {any} */ stop) => stop.object),
  label: `${count(stops.length)} queues`,
  only: true,
});
