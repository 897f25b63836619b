// The dialog that publishes a test message to a queue, and shows what became of it.

import { post } from "../core/api.js";
import { fill, h, icon } from "../core/elements.js";
import { plainField, showWrong } from "../widgets/form_dialog.js";
import { readDuration, readProperty } from "./filter.js";
import { textNode } from "./text_nodes.js";

/** What became of the message: [icon, words]. @type {Record<string, string[]>} */
const OUTCOMES = {
  accepted: ["normal", "Accepted"],
  parked: ["stop", "Not published: it would be parked"],
  rejected: ["stop", "Rejected"],
  discarded: ["stop", "Discarded"],
};

/**
 * Open the dialog. `published()` is called after each answer.
 *
 * @param {string} object name of the queue
 * @param {string} name
 * @param {() => void} published
 */
export function openPublishDialog(object, name, published) {
  const body = plainField("body", "Body", { rows: 5, maxlength: "1000000" });
  const kind = plainField("body_kind", "Body as", {
    choices: [
      ["text", "Text (AMQP value)"],
      ["data", "Data: UTF-8 bytes"],
      ["base64", "Data: bytes in Base64"],
    ],
  });
  const contentType = plainField("content_type", "Content type", { placeholder: "application/json", maxlength: "255" });
  const subject = plainField("subject", "Subject", { maxlength: "1000" });
  const correlation = plainField("correlation_id", "Correlation ID", { maxlength: "1000" });
  const reply = plainField("reply_to", "Reply to", { maxlength: "1000" });
  const priority = plainField("priority", "Priority", { value: "4", inputmode: "numeric", maxlength: "3" });
  const ttl = plainField("ttl", "Time to live", {
    placeholder: "10m",
    maxlength: "20",
    hint: "Empty: does not expire.",
  });
  const properties = plainField("application_properties", "Application properties", {
    rows: 2,
    placeholder: "NAME=VALUE",
    hint: "One a line.",
  });
  const reason = plainField("reason", "Reason", { maxlength: "1000", hint: "Recorded in the audit trail." });
  const durable = h("input", { type: "checkbox", name: "durable" });
  const fields = [body, kind, contentType, subject, correlation, reply, priority, ttl, properties, reason];
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const outcome = h("div", { class: "publish-outcome", role: "status", hidden: true });
  const submit = h("button", { type: "submit", class: "primary", data: { acts: "" } }, "Publish");
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "publish-title" }, "Publish a message to ", textNode(name, { most: 120 })),
    body.element,
    h(
      "div",
      { class: "publish-fields" },
      [kind, contentType, subject, correlation, reply, priority, ttl].map((f) => f.element),
    ),
    h("label", { class: "sure" }, durable, h("span", {}, "Durable")),
    properties.element,
    reason.element,
    problem,
    outcome,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Close"),
      submit,
    ),
  );
  const dialog = h("dialog", { class: "dialog wide-dialog", "aria-labelledby": "publish-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());

  /** Return the request, or null after showing errors. */
  function request() {
    /** @type {Record<string, string>} */
    const wrong = {};
    const ttlText = ttl.input.value.trim();
    if (ttlText && readDuration(ttlText) === null) wrong.ttl = `${ttlText} is not a duration such as 90s, 10m or 2h.`;
    if (!/^\d{1,3}$/.test(priority.input.value.trim()) || Number(priority.input.value) > 255)
      wrong.priority = "A whole number from 0 to 255.";
    const lines = properties.input.value.split("\n").filter((/** @type {string} */ line) => line.trim());
    const pairs = lines.map(readProperty);
    const odd = pairs.indexOf(null);
    if (odd >= 0) wrong.application_properties = `${lines[odd].slice(0, 60)} is not NAME=VALUE.`;
    const base64 = kind.input.value === "base64";
    const compact = body.input.value.replaceAll(/\s/g, "");
    if (base64 && !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(compact))
      wrong.body = "The body is not Base64.";
    const errors = Object.keys(wrong).length > 0;
    showWrong({ fields: wrong, message: "" }, fields, problem);
    if (errors) return null;
    const standard = Object.entries({
      subject: subject.input.value,
      correlation_id: correlation.input.value,
      reply_to: reply.input.value,
      content_type: contentType.input.value,
    }).filter(([, value]) => value);
    return {
      object,
      ...(base64 ? { body_base64: compact } : { body: body.input.value }),
      body_kind: base64 ? "data" : kind.input.value,
      durable: durable.checked,
      priority: Number(priority.input.value),
      ...(ttlText ? { ttl: ttlText } : {}),
      properties: Object.fromEntries(standard),
      application_properties: Object.fromEntries(/** @type {any} */ (pairs)),
      reason: reason.input.value.trim(),
    };
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    outcome.hidden = true;
    const message = request();
    if (!message) return;
    submit.disabled = true;
    try {
      const answer = await post("messages/publish/", message);
      const [shape, words] = OUTCOMES[answer.outcome] ?? ["info", answer.outcome];
      outcome.hidden = false;
      outcome.dataset.outcome = answer.outcome;
      fill(
        outcome,
        h(
          "p",
          {},
          icon(shape),
          " ",
          h("strong", {}, words),
          answer.id ? [" – ID ", textNode(String(answer.id))] : null,
        ),
        answer.sentence ? h("p", {}, textNode(answer.sentence, { most: 1000 })) : null,
      );
      submit.textContent = "Publish again";
      published();
    } catch (error) {
      showWrong(error, fields, problem);
    }
    submit.disabled = false;
  });
  document.body.append(dialog);
  dialog.showModal();
  body.input.focus();
  return dialog;
}
