// Dialogs of the first steps: a client user with a generated password, a queue with a capacity, a new password.

import { objectPath, post } from "../core/api.js";
import { fill, find, h, setText } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { formatName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { copyButton } from "../widgets/copy_button.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";

/** @typedef {import("./first_steps_programs.js").Made} Made */

const OBJECTS = `brokers/${encodeURIComponent(settings.broker)}/objects/`;
/** Virtual hosts that the user sees. */
export const HOSTS = settings.hosts?.length ? settings.hosts : ["default"];
const RIGHTS = [
  ["publish", "Publish: send messages to its queues and exchanges"],
  ["consume", "Consume: receive messages from its queues"],
  ["manage", "Manage: change its queues and policies over AMQP"],
];
/** Small, so that a queue is full after a moment. */
export const CAPACITY = 100;
/** A new broker resumes at 80% of a capacity (`flow_resume_messages`). */
export const resumeLevel = (/** @type {number} */ capacity) => Math.floor(capacity * 0.8);

/** @param {string} capacity as it was entered */
function hintOf(capacity) {
  const limit = Number(capacity.trim().replaceAll(",", ""));
  if (!(limit > 0)) return "Empty: no limit, and its producers are never blocked.";
  return (
    `With more than ${plural(limit, "message")} its producers are blocked, until ${exact(resumeLevel(limit))} or ` +
    "fewer are left (80%, the default resume level). Empty: no limit."
  );
}

/**
 * @param {string} object
 * @param {Record<string, any>} attributes
 */
const create = (object, attributes) => post(OBJECTS, { object, attributes, reason: "first steps" });

/** @param {Made} made */
const hostField = (made) =>
  plainField("virtualhost", "Virtual host", {
    value: made.host,
    choices: HOSTS.map((/** @type {string} */ host) => [host, host]),
  });

/**
 * @param {Made} made that gets the user and its password
 * @param {() => void} changed called then
 */
export function openCreateUser(made, changed) {
  const name = plainField("name", "Name", { value: made.user });
  const host = hostField(made);
  const boxes = RIGHTS.map(([right, words]) => ({
    right,
    input: h("input", { type: "checkbox", checked: right !== "manage" }),
    words,
  }));
  const wrong = h("small", { class: "wrong", role: "alert" });
  const grants = {
    name: "grants",
    input: boxes[0].input,
    element: h(
      "fieldset",
      { class: "field" },
      h("legend", {}, "Permissions on the virtual host"),
      boxes.map(({ input, words }) => h("label", { class: "sure" }, input, h("span", {}, words))),
      wrong,
    ),
    wrong: (/** @type {string} */ text) => fill(wrong, text),
  };
  openFormDialog({
    title: "Create a client user",
    says: "Applications sign in with it. Its password is generated.",
    fields: [name, host, grants],
    action: "Create client user",
    async submit() {
      const user = name.input.value.trim();
      const rights = boxes.filter(({ input }) => input.checked).map(({ right }) => right);
      const answer = await create(formatName("User", { name: user }), {
        grants: rights.length ? [`${host.input.value}:${rights.join(",")}`] : [],
      });
      Object.assign(made, { user, host: host.input.value, password: answer.attributes.password });
      changed();
      return shownOnce(made);
    },
  });
}

/**
 * @param {Made} made that gets the queue
 * @param {() => void} changed called then
 */
export function openCreateQueue(made, changed) {
  const name = plainField("name", "Name", { value: made.queue });
  const host = hostField(made);
  const capacity = plainField("capacity_messages", "Capacity in messages", {
    value: CAPACITY,
    inputmode: "numeric",
    hint: hintOf(String(CAPACITY)),
  });
  const hint = find(".hint", capacity.element);
  capacity.input.addEventListener("input", () => setText(hint, hintOf(capacity.input.value)));
  openFormDialog({
    title: "Create a queue",
    fields: [name, host, capacity],
    action: "Create queue",
    async submit() {
      const limit = capacity.input.value.trim().replaceAll(",", "");
      const queue = name.input.value.trim();
      await create(formatName("Queue", { virtualhost: host.input.value, name: queue }), {
        durable: true,
        ...(limit ? { capacity_messages: Number(limit) } : {}),
      });
      Object.assign(made, { queue, host: host.input.value, chosen: true });
      changed();
    },
  });
}

/**
 * A new password, for a page that was opened after the user's creation. It ends the programs that have the old one.
 *
 * @param {Made} made that gets the password
 * @param {() => void} changed called then
 */
export function openRenewPassword(made, changed) {
  const user = made.user;
  openFormDialog({
    title: `New password of ${user}`,
    says: `Generates another password. Programs that are connected as ${user} are disconnected, and need it, too.`,
    fields: [],
    action: "Generate password",
    async submit() {
      const path = objectPath(settings.broker, formatName("User", { name: user }));
      const answer = await post(`${path}operations/renew-password/`, { arguments: { reason: "first steps" } });
      made.password = (answer.result ?? answer.returns ?? answer).password;
      changed();
      return shownOnce(made);
    },
  });
}

/** @param {Made} made whose password was just generated */
function shownOnce({ user, password }) {
  const code = h("code", { class: "secret shown-once", id: "first-password" }, password);
  return h(
    "div",
    { class: "stack" },
    h("p", {}, h("strong", {}, `Password of ${user}. `), "Copy it now: it is not shown again."),
    h("p", { class: "first-step-actions" }, code, copyButton(code, "the password")),
    h("p", {}, "The programs on this page have it until you leave the page."),
  );
}
