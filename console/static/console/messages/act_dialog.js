// The dialog of an action on messages: what it affects, the target, a reason, and the result.

import { post } from "../core/api.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { fill, h, icon } from "../core/elements.js";
import { bytes, plural } from "../core/format.js";
import { parseName, queueUrl } from "../core/object_names.js";
import { toast } from "../core/toast.js";
import { ACTIONS, buttonText, skippedByReason } from "./actions.js";
import { queueChooser } from "./queue_chooser.js";
import { textNode } from "./text_nodes.js";

/**
 * @typedef {{action: string, object: string, ids?: string[], match?: any, about: any,
 *   done: (answer: any) => void}} Act
 */

/**
 * Open the dialog. `ids`, or the `match` of a filter, say which messages; `about` says it in words.
 * `done(answer)` is called after the action, with the answer of the API.
 *
 * @param {Act} act
 */
export function openActDialog({ action, object, ids, match, about, done }) {
  const { verb, done: past, target, danger = false, path = action } = ACTIONS[action];
  const keys = /** @type {any} */ (parseName(object)).keys;
  const box = h("div", { class: "preview", "aria-live": "polite" });
  const reason = h("input", { type: "text", name: "reason", maxlength: "1000", autocomplete: "off" });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h(
    "button",
    { type: "submit", class: danger ? "danger solid" : "primary", disabled: true, data: { acts: "" } },
    verb,
  );
  const request = new DebouncedRequest(0);
  const isDeadLetter = action === "deadLetter";
  let shownTarget = ""; // the dead-letter queue, as the server has resolved it for the preview
  const targetLine = h("p", { hidden: true });
  const chooser = target
    ? queueChooser({ virtualhost: keys.virtualhost, except: keys.name, label: "Target queue", changed: preview })
    : null;
  const form = h(
    "form",
    { method: "dialog", novalidate: true, class: "act-form" },
    h("h2", { id: "act-title" }, `${verb}: `, about),
    targetLine,
    action === "retry" ? h("p", {}, "Each message returns to the queue from which it was dead-lettered.") : null,
    isDeadLetter
      ? h("p", { class: "muted" }, "They become dead letters with the reason “moved by operator”; Retry returns them.")
      : null,
    danger ? h("p", {}, "Deleted messages cannot be restored.") : null,
    chooser?.element,
    box,
    h(
      "label",
      { class: "field" },
      h("span", {}, "Reason"),
      reason,
      h("small", { class: "hint" }, "Recorded in the audit trail."),
    ),
    problem,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"),
      submit,
    ),
  );
  const dialog = h("dialog", { class: "dialog act-dialog", "aria-labelledby": "act-title" }, form);
  dialog.addEventListener("close", () => {
    request.cancel();
    dialog.remove();
  });

  const body = () => ({
    object,
    ...(ids ? { ids } : { match }),
    ...(chooser ? { to: chooser.value() } : isDeadLetter ? { dead_letter: true, to: shownTarget } : {}),
  });

  async function preview() {
    problem.hidden = true;
    shownTarget = "";
    chooser?.wrong("");
    submit.disabled = true;
    submit.textContent = buttonText(action, null);
    if (chooser && !chooser.value()) {
      request.cancel();
      fill(box, h("p", { class: "muted" }, "Choose the target queue to see what would be affected."));
      return;
    }
    fill(box, h("p", { class: "loading" }, "Loading…"));
    try {
      const found = await request.send((signal) => post(`messages/${path}/`, { ...body(), preview: true }, signal));
      if (isDeadLetter) {
        shownTarget = found.to;
        targetLine.hidden = false;
        fill(targetLine, "Target queue: ", queueLink(keys.virtualhost, shownTarget));
      }
      fill(box, previewLines(found));
      submit.textContent = buttonText(action, found.messages, found.complete !== false);
      submit.disabled = found.messages === 0 && found.complete !== false;
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(box, h("p", { class: "wrong" }, error.message));
      if (error.fields?.to) chooser?.wrong(error.fields.to);
    }
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    problem.hidden = true;
    try {
      const answer = await post(`messages/${path}/`, { ...body(), reason: reason.value.trim(), preview: false });
      done(answer);
      const left = skippedByReason(answer).length > 0 || Boolean(answer.blocked) || answer.complete === false;
      if (answer.job) {
        toast(`${verb}: the job has started. Its progress is shown below the list.`);
        dialog.close();
      } else if (!left) {
        toast(`${past} ${plural(answer.messages, "message")}.`);
        dialog.close();
      } else showResult(answer);
    } catch (error) {
      // The target is another one by now: it is shown first.
      if (isDeadLetter && error.status === 409) await preview();
      else submit.disabled = false;
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
    }
  });

  /** @param {any} answer */
  function showResult(answer) {
    fill(
      form,
      h("h2", { id: "act-title" }, `${past} ${plural(answer.messages, "message")}`),
      h("div", { class: "preview", role: "status" }, resultLines(answer)),
      h(
        "div",
        { class: "dialog-actions" },
        h("button", { type: "button", class: "primary", on: { click: () => dialog.close() } }, "Close"),
      ),
    );
    form.querySelector("button")?.focus();
  }

  document.body.append(dialog);
  dialog.showModal();
  (chooser?.input ?? reason).focus();
  preview();
  return dialog;
}

/**
 * The counts of a preview.
 *
 * @param {any} found
 */
function previewLines(found) {
  const counted = `${plural(found.messages, "message")}, ${bytes(found.bytes)}`;
  const cut = found.complete === false;
  return [
    h("p", {}, h("strong", {}, cut ? `At least ${counted}` : counted)),
    cut ? h("p", { class: "muted" }, "The preview counts a part of the queue; the action goes on to its end.") : null,
    ...leftLines(found),
  ];
}

/**
 * The counts of a result.
 *
 * @param {any} answer
 */
const resultLines = (answer) => [
  h("p", {}, h("strong", {}, `${plural(answer.messages, "message")}, ${bytes(answer.bytes)}`)),
  answer.complete === false && !answer.blocked
    ? h(
        "p",
        { class: "hot-line" },
        icon("overfull"),
        " Not all were handled: repeat the action for those that are left.",
      )
    : null,
  ...leftLines(answer),
];

/**
 * What is or was left out, and why.
 *
 * @param {any} found
 */
const leftLines = (found) => [
  ...skippedByReason(found).map(([why, count]) =>
    h("p", {}, `Skipped: ${plural(count, why ? "message" : "more message")}`, why ? [" – ", textNode(why)] : ""),
  ),
  found.blocked ? h("p", { class: "hot-line" }, icon("overfull"), " ", textNode(found.blocked)) : null,
];

/**
 * @param {string} virtualhost
 * @param {string} name
 */
const queueLink = (virtualhost, name) => h("a", { href: queueUrl(virtualhost, name) }, textNode(name));
