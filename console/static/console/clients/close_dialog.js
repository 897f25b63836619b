// The dialog that closes a connection or a link: what returns to the queue and what is rolled back, and a reason.

import { objectPath, post } from "../core/api.js";
import { plural } from "../core/format.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";

/**
 * Open the dialog. `type`: of the object, as the broker declares it; `what`: the object in words.
 *
 * @param {{object: string, type: any, what: string, done: () => void}} about
 */
export async function openCloseDialog({ object, type, what, done }) {
  const path = `${objectPath(settings.broker, object)}operations/`;
  const close = type.operations.find((/** @type {any} */ each) => each.name === "close");
  let says = close.remark;
  if (type.operations.some((/** @type {any} */ each) => each.name === "preview-close")) {
    try {
      says = [consequences(await post(`${path}preview-close/`, { arguments: {} })), close.remark]
        .filter(Boolean)
        .join(" ");
    } catch (error) {
      toast(error.message, "error");
      return;
    }
  }
  openFormDialog({
    title: `Close ${what}`,
    says: says || "What this undoes is not known for this broker.",
    danger: true,
    action: "Close",
    fields: [
      plainField("reason", "Reason", {
        required: true,
        maxlength: "500",
        rows: 2,
        hint: "Recorded in the audit trail, and sent to the client.",
      }),
    ],
    async submit(/** @type {any} */ values) {
      const reason = values.reason.trim();
      if (!reason) throw Object.assign(new Error("Enter a reason."), { fields: { reason: "Enter a reason." } });
      await post(`${path}close/`, { arguments: { reason } });
      toast(`${what}: closed.`, "done");
      done();
    },
  });
}

/** @param {any} answer of preview-close */
function consequences(answer) {
  const links = [
    answer.producers ? plural(answer.producers, "producer") : "",
    answer.consumers ? plural(answer.consumers, "consumer") : "",
  ].filter(Boolean);
  const parts = [`Ends ${links.join(" and ") || "no link"}.`];
  if (answer.redelivered_messages)
    parts.push(
      `${plural(answer.redelivered_messages, "unacknowledged message returns", "unacknowledged messages return")} to ` +
        "the queue and will be redelivered, with one failed delivery more.",
    );
  if (answer.rolled_back_transactions)
    parts.push(
      `${plural(answer.rolled_back_transactions, "transaction is", "transactions are")} rolled back, with ` +
        `${plural(answer.rolled_back_messages, "published message")}.`,
    );
  if (answer.unsettled_messages)
    parts.push(
      `The client does not learn the outcome of ${plural(answer.unsettled_messages, "sent message")}, and may send ` +
        "again.",
    );
  if (!answer.redelivered_messages && !answer.rolled_back_transactions && !answer.unsettled_messages)
    parts.push("No message returns to a queue, and no transaction is rolled back.");
  parts.push("The client may open it again at once.");
  if (answer.producers) parts.push("To prevent that it sends, stop it.");
  return parts.join(" ");
}
