// The first steps: forms for a user and a queue, programs that use them, and marks for what the broker shows to have
// happened.

import { get, query } from "../core/api.js";
import { byId, fill, find, h } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { formatName, queueUrl, whyUrl } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { settings } from "../core/settings.js";
import { CAPACITY, HOSTS, openCreateQueue, openCreateUser, openRenewPassword } from "./first_steps_dialogs.js";
import { aside, Programs } from "./first_steps_programs.js";

const OBJECTS = `brokers/${encodeURIComponent(settings.broker)}/objects/`;

/** @type {import("./first_steps_programs.js").Made} */
const made = {
  host: HOSTS.includes("default") ? "default" : HOSTS[0],
  queue: "orders",
  chosen: false,
  user: "app",
  password: "",
};
let refresh = () => {};

/** Show what was just created. */
function changed() {
  programs.show();
  refresh();
}

const programs = new Programs(
  made,
  h(
    "button",
    {
      type: "button",
      ...unlessAllowed("User", "create"),
      on: { click: () => openRenewPassword(made, changed) },
      hidden: true,
    },
    "New password…",
  ),
);

// -- what the broker shows ------------------------------------------------------------------------------------------

/**
 * The objects of a type, the first of them; null if the user may not see them.
 *
 * @param {string} type
 * @param {Record<string, any>} [where]
 * @returns {Promise<any[] | null>}
 */
async function list(type, where = {}) {
  try {
    return (await get(`${OBJECTS}${query({ type, count: 50, ...where })}`)).items;
  } catch (error) {
    if (error.status === 403) return null;
    throw error;
  }
}

async function read() {
  const [users, queues, connections] = await Promise.all([
    list("User"),
    list("Queue", { sort: "-enqueued_messages" }),
    list("Connection"),
  ]);
  return {
    users: users?.map((user) => user.attributes).filter((user) => user.name !== "console") ?? null,
    queues: queues?.map((queue) => queue.attributes) ?? [],
    connections: (connections ?? []).map((each) => each.attributes).filter((each) => each.user !== "console"),
  };
}

/** @typedef {Awaited<ReturnType<typeof read>>} Found */

/** @param {Found} found the queue that the steps are about: the one created here, else the one with most messages */
const queueOf = ({ queues }) =>
  queues.find((queue) => queue.name === made.queue && queue.virtualhost === made.host) ??
  (made.chosen ? undefined : queues[0]);

// -- the steps ----------------------------------------------------------------------------------------------------

/**
 * `done`: null if the user may not see it. `found`: what the broker shows, as text.
 *
 * @type {{title: string, says: string, body?: () => any, done: (found: Found) => boolean | null,
 *   found: (found: Found) => any}[]}
 */
const STEPS = [
  {
    title: "Create a client user",
    says: "A user of the broker, not of this console, with permissions on a virtual host.",
    body: () =>
      h(
        "div",
        { class: "first-step-actions" },
        h(
          "button",
          {
            type: "button",
            class: "primary",
            ...unlessAllowed("User", "create"),
            on: { click: () => openCreateUser(made, changed) },
          },
          "Create client user",
        ),
      ),
    done: ({ users }) => (users ? users.length > 0 : null),
    found: ({ users }) =>
      users === null
        ? "Only administrators see users"
        : users
            .map((user) => user.name)
            .slice(0, 3)
            .join(", "),
  },
  {
    title: "Create a queue",
    says: "With a capacity: above it, its producers are blocked.",
    body: () =>
      h(
        "div",
        { class: "first-step-actions" },
        h(
          "button",
          {
            type: "button",
            class: "primary",
            ...unlessAllowed("Queue", "create", made.host),
            on: { click: () => openCreateQueue(made, changed) },
          },
          "Create queue",
        ),
      ),
    done: ({ queues }) => queues.length > 0,
    found: (found) => {
      const queue = queueOf(found);
      return queue && aside(queueUrl(queue.virtualhost, queue.name), queue.name);
    },
  },
  {
    title: "Run a program that sends",
    says: "The queue has no room for all of its messages: it stops in the middle.",
    body: () => programs.sender(),
    done: (found) => found.connections.length > 0 || (queueOf(found)?.enqueued_messages ?? 0) > 0,
    found: (found) => {
      const sent = queueOf(found)?.enqueued_messages ?? 0;
      const who = found.connections[0];
      return sent ? `${plural(sent, "message")} arrived` : who ? `${who.user} is connected` : "";
    },
  },
  {
    title: "See its producer blocked",
    says:
      "When the queue is overfull, its producers get no more credit, and nothing is lost. The queue's page shows " +
      "which producer is blocked, why, since when, and what would release it.",
    done: (found) => (queueOf(found)?.overfull_count ?? 0) > 0,
    found: (found) => {
      const queue = queueOf(found);
      if (!queue?.overfull_count) return "";
      if (!queue.blocked_producers) return "It was overfull";
      const depth = plural(queue.depth_messages, "message");
      const words = `${exact(queue.blocked_producers)} blocked now, ${depth} in the queue`;
      return aside(whyUrl(formatName("Queue", { virtualhost: queue.virtualhost, name: queue.name })), words);
    },
  },
  {
    title: "Release it",
    says:
      "Run the program that receives, in a second terminal, or raise the queue's capacity on its page. " +
      "Below the resume level the producer goes on.",
    body: () => programs.receiver(),
    done: (found) => {
      const queue = queueOf(found);
      return Boolean(queue?.overfull_count) && !queue.state.startsWith("OVERFULL");
    },
    found: (found) => {
      const queue = queueOf(found);
      return queue?.overfull_count && !queue.state.startsWith("OVERFULL") ? "Released" : "";
    },
  },
];

const marks = STEPS.map((step, at) => {
  const mark = h("span", { class: "first-step-mark", "aria-hidden": "true" }, String(at + 1));
  const state = h("span", { class: "sr" });
  const found = h("span", { class: "first-step-found" });
  const element = h(
    "li",
    { class: "first-step", data: { state: "open" } },
    mark,
    h("div", { class: "first-step-body" }, h("h2", {}, step.title, state, found), h("p", {}, step.says), step.body?.()),
  );
  return { step, element, mark, state, found, number: String(at + 1) };
});

/** @param {Found} answer */
function show(answer) {
  const queue = queueOf(answer);
  if (queue && !made.chosen) Object.assign(made, { queue: queue.name, host: queue.virtualhost });
  const [user] = answer.users ?? [];
  if (user && !made.password && answer.users?.every(({ name }) => name !== made.user)) made.user = user.name;
  programs.show({ userExists: Boolean(answer.users?.some(({ name }) => name === made.user)) });
  for (const { step, element, mark, state, found, number } of marks) {
    const done = step.done(answer);
    for (const button of element.querySelectorAll(".first-step-actions button"))
      button.classList.toggle("primary", !done);
    element.dataset.state = done ? "done" : done === null ? "unknown" : "open";
    fill(mark, done ? "✓" : number);
    fill(state, done ? " (done)" : done === null ? " (not known)" : " (to do)");
    fill(found, step.found(answer));
  }
}

if (settings.amqp) {
  fill(byId("steps"), ...marks.map(({ element }) => element));
  programs.show({ count: 2 * CAPACITY });
  refresh = poll(read, (answer, drawChanged) => drawChanged("steps", answer, show)).refresh;
  refresh();
} else {
  fill(
    find(".lead"),
    "Users and queues of this broker are created with its own tools. Its queues are on the overview.",
  );
}
