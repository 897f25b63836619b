// The dialog that purges a queue: it says what will be deleted.

import { get, objectPath, post } from "../core/api.js";
import { fill, h } from "../core/elements.js";
import { bytes, duration, plural } from "../core/format.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { textNode, timeOf } from "./text_nodes.js";

/**
 * Open the dialog. `purged()` is called after the purge.
 *
 * @param {string} object name of the queue
 * @param {string} name
 * @param {() => void} purged
 */
export function openPurgeDialog(object, name, purged) {
  const path = objectPath(settings.broker, object);
  const box = h("div", { class: "preview", "aria-live": "polite" }, h("p", { class: "loading" }, "Loading…"));
  const reason = h("input", { type: "text", name: "reason", maxlength: "1000", autocomplete: "off" });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const submit = h("button", { type: "submit", class: "danger solid", disabled: true, data: { acts: "" } }, "Purge");
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "purge-title" }, "Purge queue ", textNode(name, { most: 120 })),
    box,
    h(
      "p",
      {},
      "Deletes every message that no consumer has acquired, whatever the filter of this page, and those that arrive " +
        "meanwhile. Deleted messages cannot be restored.",
    ),
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
  const dialog = h("dialog", { class: "dialog", "aria-labelledby": "purge-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (submit.disabled) return;
    submit.disabled = true;
    problem.hidden = true;
    try {
      const answer = await post(`${path}operations/purge/`, { arguments: { reason: reason.value.trim() } });
      const count = (answer.result ?? answer.returns ?? answer)?.messages;
      toast(typeof count === "number" ? `Purged ${plural(count, "message")}.` : "Purged.");
      dialog.close();
      purged();
    } catch (error) {
      submit.disabled = false;
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  reason.focus();
  (async () => {
    try {
      const answer = await get(path);
      const queue = answer.attributes ?? answer;
      const depth = queue.depth_messages;
      const oldest = timeOf(queue.oldest_message_at);
      fill(
        box,
        h(
          "p",
          {},
          h("strong", {}, depth === null || depth === undefined ? "Depth: not known" : plural(depth, "message")),
          queue.depth_bytes === undefined ? "" : `, ${bytes(queue.depth_bytes)} in the queue`,
        ),
        oldest === null
          ? null
          : h("p", { class: "muted" }, `The oldest arrived ${duration(serverNow() - oldest)} ago.`),
        queue.consumers
          ? h(
              "p",
              { class: "muted" },
              `${plural(queue.consumers, "consumer")} attached: messages that they have acquired stay.`,
            )
          : null,
      );
      if (depth) submit.textContent = `Purge ${plural(depth, "message")}`;
      submit.disabled = depth === 0;
    } catch (error) {
      fill(box, h("p", { class: "wrong" }, error.message));
    }
  })();
  return dialog;
}
