// The overview of a broker without queues: forms that create a queue and a client user, and an example program that
// uses both.

import { post } from "../core/api.js";
import { atThatTime } from "../core/away.js";
import { fill, h } from "../core/elements.js";
import { formatName } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";

const HOST = "default";

/** Queue and user that were created on this page, for the example. */
const made = { queue: "orders", user: "app", password: "" };

/**
 * @param {any} object
 * @param {any} attributes
 */
const create = (object, attributes) =>
  post(`brokers/${encodeURIComponent(settings.broker)}/objects/`, { object, attributes, reason: "first steps" });

function createQueue() {
  const name = plainField("name", "Name", { value: made.queue });
  const capacity = plainField("capacity_messages", "Capacity in messages", {
    value: "10000",
    inputmode: "numeric",
    hint: "Above it, producers are blocked until consumers have drained the queue. Empty: no limit.",
  });
  const dialog = openFormDialog({
    title: "Create a queue",
    says: `In the virtual host ${HOST}.`,
    fields: [name, capacity],
    action: "Create queue",
    async submit() {
      const limit = capacity.input.value.trim().replaceAll(",", "");
      const queue = name.input.value.trim();
      await create(
        formatName("Queue", { virtualhost: HOST, name: queue }),
        limit ? { capacity_messages: Number(limit) } : {},
      );
      made.queue = queue;
      return h(
        "div",
        { class: "stack" },
        h("p", {}, h("strong", {}, `Created queue ${queue}. `), "An application also needs a user of the broker."),
        made.password
          ? example()
          : h(
              "p",
              {},
              h(
                "button",
                {
                  type: "button",
                  ...unlessAllowed("User", "create"),
                  on: {
                    click: () => {
                      dialog.close();
                      createUser();
                    },
                  },
                },
                "Create client user",
              ),
            ),
      );
    },
  });
}

function createUser() {
  const name = plainField("name", "Name", { value: made.user });
  openFormDialog({
    title: "Create a client user",
    says:
      "With a generated password, and permissions to publish to and consume from all queues " +
      `of the virtual host ${HOST}. You can change them under Objects, Users.`,
    fields: [name],
    action: "Create client user",
    async submit() {
      const user = name.input.value.trim();
      const answer = await create(formatName("User", { name: user }), { grants: [`${HOST}:publish,consume`] });
      made.user = user;
      made.password = answer.attributes.password;
      return h(
        "div",
        { class: "stack" },
        h("p", {}, h("strong", {}, `Password of ${user}. `), "Copy it now: it is not shown again."),
        h("p", {}, h("code", { class: "secret shown-once", id: "first-password" }, made.password)),
        example(),
      );
    },
  });
}

/** A program that sends one message to the created queue. */
function example() {
  const text = `from proton import Message
from proton.utils import BlockingConnection

connection = BlockingConnection(
    ${JSON.stringify(settings.amqp || "amqp://HOST:PORT")},
    user=${JSON.stringify(made.user)},
    password=${JSON.stringify(made.password || "PASSWORD")},
)
sender = connection.create_sender(${JSON.stringify(made.queue)})
sender.send(Message(body="hello"))
connection.close()`;
  return h(
    "div",
    { class: "first-example" },
    h("p", {}, "Example of a sender (Python, ", h("code", {}, "pip install python-qpid-proton"), "):"),
    h("pre", { class: "first-code", tabindex: "0" }, h("code", { id: "first-code" }, text)),
  );
}

/**
 * Fill the empty state. A button without permission shows the permission that it requires.
 *
 * @param {any} empty
 */
export function showFirstSteps(empty) {
  fill(
    empty,
    h("p", {}, h("strong", {}, atThatTime() ? `No queues${atThatTime()}` : "No queues yet")),
    h(
      "p",
      {},
      "An application connects to ",
      h("code", {}, settings.amqp || "the broker"),
      " with AMQP 1.0. It needs a queue, and a user of the broker with permissions on the " +
        "virtual host. Anonymous clients and automatic creation of queues are settings of the virtual host.",
    ),
    h(
      "p",
      { class: "first-actions" },
      h(
        "button",
        { type: "button", class: "primary", ...unlessAllowed("Queue", "create", HOST), on: { click: createQueue } },
        "Create queue",
      ),
      h(
        "button",
        { type: "button", ...unlessAllowed("User", "create"), on: { click: createUser } },
        "Create client user",
      ),
      h(
        "a",
        { href: `/objects/?object=${encodeURIComponent(formatName("VirtualHost", { name: HOST }))}` },
        "Settings of the virtual host",
      ),
    ),
    example(),
  );
}
