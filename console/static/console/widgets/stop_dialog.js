// The dialog that stops or starts producers, on one broker or several: preview, confirmation of the effects, reason,
// pattern or saved selection.

import { post } from "../core/api.js";
import { fill, find, h, icon } from "../core/elements.js";
import { plural } from "../core/format.js";
import { clientInWords, parseName, scopeInWords } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { withHelp } from "./field_help.js";
import { options, savedSelections } from "./saved_selections.js";
import { brokerFields } from "./stop_brokers.js";
import { effectFields } from "./stop_effects.js";
import { endFields, stageFields } from "./stop_fields.js";
import { previewLines, previewOf } from "./stop_preview.js";
import { showResult } from "./stop_result.js";
import { stopAcross } from "./stop_results.js";

/** @type {Record<string, any>} */
const WORDS = {
  stop: {
    path: "stop-producers/",
    title: "Stop",
    doing: "Stopping…",
    says: "All their producers stay stopped, also after a restart of the broker. Consumers are not affected.",
    saysOfClient:
      "Only these producers are stopped, and those that the client attaches later, also after a restart of the " +
      "broker. Other clients of the queues are not affected.",
    placeholder: "e.g. consumers of orders are being redeployed",
  },
  start: {
    path: "start-producers/",
    title: "Start",
    doing: "Starting…",
    says:
      "Removes the operator's stop. Producers of a queue that is overfull, or in another stopped " +
      "scope, stay blocked.",
    saysOfClient:
      "Removes the operator's stop of the client. Its producers stay blocked where a queue is overfull or stopped.",
    placeholder: "e.g. consumers are running again",
  },
};

const NO_FIELDS = { element: null, read: () => ({}), limit: () => {} };

/**
 * Open the dialog. `aim`: the object name of the broker, a virtual host, an exchange or a queue; or a map of `scope`
 * and optionally `pattern` (fixed), `user`, `container_id`, `link` (of the clients), `queues` (their names), `match` (a
 * filter: search and states), `only` (remove
 * exactly this stop), `label`, a text for the scope, and `brokers`: the slugs of the brokers that are selected at
 * first, or ["*"] for all, if the scope is the broker.
 *
 * @param {any} action
 * @param {any} aim
 */
export function openStopDialog(action, aim) {
  const text = WORDS[action];
  const { label, only, match, brokers, ...fixed } = typeof aim === "string" ? { scope: aim } : aim;
  const type = parseName(fixed.scope)?.type;
  const wide = type === "Broker" || type === "VirtualHost";
  const ofClient = clientInWords(fixed) !== "";
  const withPattern = wide && !ofClient && !fixed.queues && !match && fixed.pattern === undefined;
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
  const everyBroker = h("input", { type: "checkbox", id: "stop-brokers", checked: Boolean(brokers) });
  const choice = brokerFields(action, brokers ?? ["*"], () => {
    const selected = choice.selected();
    fill(preview, ...previewLines(action, previewOf(selected)));
    effects.show(action === "stop" ? selected : []);
  });
  const effects = effectFields();
  const end = action === "stop" ? endFields() : ofClient ? NO_FIELDS : stageFields();
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
    choice.element,
    h("p", { class: "muted" }, ofClient ? text.saysOfClient : text.says),
    effects.element,
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
            "div",
            { class: "field" },
            withHelp(h("label", { for: pattern.id }, "Pattern"), "pattern"),
            pattern,
            h("small", { class: "hint" }, "* matches one word; > or # at the end matches any number of words."),
          ),
          chosen ? h("label", { class: "field", hidden: true }, h("span", {}, "Saved selection"), chosen) : null,
        )
      : null,
    whole && !brokers && (settings.brokers?.length ?? 0) > 1
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
  });
  choice.element.hidden = !everyBroker.checked;

  /** @type {any} */
  let request = null; // aborts the preview under way
  /** @type {any} */
  const loadPreview = async () => {
    request?.abort();
    request = new AbortController();
    try {
      const response = await post(
        "stop-producers/preview/",
        {
          action,
          ...(match ? { ...fixed, match } : chosen?.value ? { ...fixed, selection: Number(chosen.value) } : body()),
          ...(everyBroker.checked ? { brokers: ["*"] } : {}),
        },
        request.signal,
      );
      if (response.objects) queues = response.objects;
      end.limit(response.brokers ?? [response]);
      if (response.brokers) {
        choice.show(response.brokers);
        return;
      }
      fill(preview, ...previewLines(action, response));
      effects.show(action === "stop" && !response.cannot ? [response] : []);
    } catch (error) {
      if (error.name !== "AbortError") fill(preview, h("p", { class: "wrong" }, error.message));
    }
  };
  let pause = 0;
  pattern.addEventListener("input", () => {
    clearTimeout(pause);
    pause = setTimeout(loadPreview, 250);
  });
  everyBroker.addEventListener("change", () => {
    choice.element.hidden = !everyBroker.checked;
    loadPreview();
  });
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
    choice.element.hidden = !everyBroker.checked;
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
    const confirmed = effects.read();
    if ("wrong" in confirmed) {
      showProblem(confirmed.wrong, confirmed.field);
      return;
    }
    const selected = choice.selected();
    if (everyBroker.checked && !selected.length) {
      showProblem("Select at least one broker.");
      return;
    }
    submit.disabled = true;
    fill(submit, text.doing);
    problem.hidden = true;
    const sent = {
      ...body(),
      ...(action === "stop" && confirmed.effects.length ? { effects: confirmed.effects } : {}),
    };
    if (everyBroker.checked) {
      stopAcross(dialog, form, action, selected, {
        ...sent,
        ...ends,
        ...(only ? { only: true } : {}),
        reason: reason.value.trim(),
      });
      return;
    }
    try {
      const answer = await post(text.path, {
        ...sent,
        ...ends,
        ...(only ? { only: true } : {}),
        reason: reason.value.trim(),
      });
      showResult(dialog, form, {
        action,
        sent,
        answer: { ...answer, rate: ends.rate, effects: sent.effects },
        reason: reason.value.trim(),
        scope: chosen?.value
          ? chosen.selectedOptions[0].textContent
          : whole
            ? "All producers"
            : (label ?? scopeInWords(fixed.scope)),
      });
    } catch (error) {
      submit.disabled = false;
      fill(submit, icon(action), heading);
      showProblem(error.message);
      if (error.status === 409) loadPreview(); // the broker does something else than it did when the dialog was opened
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

/**
 * Return the aim of a dialog that removes exactly this stop.
 *
 * @param {any} stop
 */
export const aimOf = (stop) => ({
  scope: stop.object,
  ...clientsOf(stop),
  ...(stop.pattern ? { pattern: stop.pattern, label: `queues matching ${stop.pattern}` } : { pattern: "" }),
  ...(clientInWords(stop) ? { label: scopeInWords(stop.scope) } : {}),
  only: true,
});

/**
 * Return what restricts a stop to clients, without what does not.
 *
 * @param {any} stop
 */
const clientsOf = (stop) =>
  Object.fromEntries(["user", "container_id", "link"].filter((name) => stop[name]).map((name) => [name, stop[name]]));

/**
 * Return the aim of a dialog that removes these stops of single queues.
 *
 * @param {any[]} stops
 */
export const aimOfQueues = (stops) => ({
  scope: "type=Broker",
  queues: stops.map((/** @type {any} */ stop) => stop.object),
  label: plural(stops.length, "queue"),
  only: true,
});
