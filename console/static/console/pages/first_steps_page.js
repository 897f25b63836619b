// The first steps: forms for a user and a queue, programs that use them, and marks for what the broker shows to have
// happened.

import { get, objectPath, post, query } from "../core/api.js";
import { byId, fill, find, h } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { formatName, queueUrl, whyUrl } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";
import { LANGUAGES } from "./client_programs.js";

const OBJECTS = `brokers/${encodeURIComponent(settings.broker)}/objects/`;
const HOSTS = settings.hosts?.length ? settings.hosts : ["default"];
const RIGHTS = [
  ["publish", "Publish: send messages to its queues and exchanges"],
  ["consume", "Consume: receive messages from its queues"],
  ["manage", "Manage: change its queues and policies over AMQP"],
];
/** Small, so that a queue is full after a moment. */
const CAPACITY = "100";

/** What was created on this page, or is there, for the programs. */
const made = { host: HOSTS.includes("default") ? "default" : HOSTS[0], queue: "orders", user: "app", password: "" };
let language = LANGUAGES[0];
/** @type {"send" | "receive"} */
let action = "send";

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

/** @param {Found} found the queue that the steps are about: the one named here, else the one with most messages */
const queueOf = ({ queues }) =>
  queues.find((queue) => queue.name === made.queue && queue.virtualhost === made.host) ?? queues[0];

// -- creating -----------------------------------------------------------------------------------------------------

/**
 * @param {string} object
 * @param {Record<string, any>} attributes
 */
const create = (object, attributes) => post(OBJECTS, { object, attributes, reason: "first steps" });

const hostField = () =>
  plainField("virtualhost", "Virtual host", {
    value: made.host,
    choices: HOSTS.map((/** @type {string} */ host) => [host, host]),
  });

function createUser() {
  const name = plainField("name", "Name", { value: made.user });
  const host = hostField();
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
      showProgram();
      refresh();
      return shownOnce(user);
    },
  });
}

function createQueue() {
  const name = plainField("name", "Name", { value: made.queue });
  const host = hostField();
  const capacity = plainField("capacity_messages", "Capacity in messages", {
    value: CAPACITY,
    inputmode: "numeric",
    hint: "Above it, producers are blocked until consumers have drained the queue. Empty: no limit.",
  });
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
      Object.assign(made, { queue, host: host.input.value });
      showProgram();
      refresh();
    },
  });
}

/** A new password, for a page that was opened after the user's creation. It ends the programs that have the old one. */
function renewPassword() {
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
      showProgram();
      return shownOnce(user);
    },
  });
}

/** @param {string} user whose password was just generated */
const shownOnce = (user) =>
  h(
    "div",
    { class: "stack" },
    h("p", {}, h("strong", {}, `Password of ${user}. `), "Copy it now: it is not shown again."),
    h("p", {}, h("code", { class: "secret shown-once", id: "first-password" }, made.password)),
    h("p", {}, "The programs on this page have it until you leave the page."),
  );

/** A link that keeps this page, with the password in its programs. */
const aside = (/** @type {string} */ href, /** @type {any} */ text) =>
  h("a", { href, target: "_blank", title: "Opens in a new tab: this page keeps its programs" }, text);

// -- the program --------------------------------------------------------------------------------------------------

/** Where clients connect: a broker that the console reaches by loopback is at the console's own host for others. */
function address() {
  const found = new URL((settings.amqp || "amqp://127.0.0.1:5672").replace(/^amqp/, "http")); // amqp: has no parts
  const port = /:(\d+)$/.exec(settings.amqp)?.[1] ?? "5672";
  const loopback = ["127.0.0.1", "localhost", "[::1]"];
  const host = loopback.includes(found.hostname) ? location.hostname : found.hostname;
  return { host, port, tls: settings.amqp.startsWith("amqps:") };
}

const code = h("code", { id: "program-text" });
const needs = h("p", { class: "needs" });
const renew = h(
  "button",
  { type: "button", ...unlessAllowed("User", "create"), on: { click: renewPassword }, hidden: true },
  "New password…",
);
/** Whether the user that the programs name exists. */
let userExists = false;

function showProgram() {
  const to = {
    ...address(),
    user: made.user,
    password: made.password || "PASSWORD",
    queue: made.queue,
    virtualhost: made.host,
  };
  fill(code, language[action](to));
  renew.hidden = Boolean(made.password) || !userExists;
  fill(
    needs,
    "Save as ",
    h("code", {}, language.file),
    ". Needs ",
    h("code", {}, language.needs),
    ".",
    language.installation ? ` ${language.installation}` : null,
    made.password ? null : ` Replace PASSWORD by that of ${made.user}, which was shown once.`,
    !to.tls && language.name !== "Java (JMS)"
      ? " This client sends its password in the clear: the broker accepts that from its own machine only, and over " +
          "TLS from others and through published ports of a container."
      : null,
  );
}

function program() {
  const choice = plainField("language", "Language", { choices: LANGUAGES.map(({ name }) => [name, name]) });
  const does = plainField("action", "Program", {
    choices: [
      ["send", "Sends 200 messages"],
      ["receive", "Receives 200 messages"],
    ],
  });
  choice.input.addEventListener("change", () => {
    language = LANGUAGES.find(({ name }) => name === choice.input.value) ?? language;
    showProgram();
  });
  does.input.addEventListener("change", () => {
    action = does.input.value === "receive" ? "receive" : "send";
    showProgram();
  });
  const copy = h(
    "button",
    {
      type: "button",
      on: {
        async click() {
          try {
            await navigator.clipboard.writeText(code.textContent);
            toast("Copied.");
          } catch {
            getSelection()?.selectAllChildren(code); // without HTTPS: the browser's own copy works
            toast("Selected. Press Ctrl+C to copy.");
          }
        },
      },
    },
    "Copy",
  );
  return [
    h("div", { class: "program-head" }, choice.element, does.element, copy, renew, needs),
    h("pre", { class: "program", tabindex: "0", "aria-label": "Program" }, code),
  ];
}

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
          { type: "button", class: "primary", ...unlessAllowed("User", "create"), on: { click: createUser } },
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
            on: { click: createQueue },
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
    body: program,
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
  if (queue && !made.password && queue.name !== made.queue) {
    Object.assign(made, { queue: queue.name, host: queue.virtualhost });
    showProgram();
  }
  const [user] = answer.users ?? [];
  if (user && !made.password && answer.users?.every(({ name }) => name !== made.user)) {
    made.user = user.name;
    showProgram();
  }
  userExists = Boolean(answer.users?.some(({ name }) => name === made.user));
  renew.hidden = Boolean(made.password) || !userExists;
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

let refresh = () => {};
if (settings.amqp) {
  fill(byId("steps"), ...marks.map(({ element }) => element));
  showProgram();
  refresh = poll(read, (answer, drawChanged) => drawChanged("steps", answer, show)).refresh;
  refresh();
} else {
  fill(
    find(".lead"),
    "Users and queues of this broker are created with its own tools. Its queues are on the overview.",
  );
}
