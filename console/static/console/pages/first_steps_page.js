// The first steps: forms for a user and a queue, programs that use them, and marks for what the broker shows to have
// happened.

import { get, query } from "../core/api.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, fillOnce, find, h, setAttribute, setText } from "../core/elements.js";
import { exact, plural } from "../core/format.js";
import { formatName, queueUrl, timelineUrl, whyUrl } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { settings } from "../core/settings.js";
import { countFor } from "./client_programs.js";
import {
  CAPACITY,
  HOSTS,
  openCreateQueue,
  openCreateUser,
  openRenewPassword,
  resumeLevel,
} from "./first_steps_dialogs.js";
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

/** @param {any} queue */
const nameOf = (queue) => formatName("Queue", { virtualhost: queue.virtualhost, name: queue.name });

/** @param {any} queue */
const isOverfull = (queue) => Boolean(queue?.state.startsWith("OVERFULL"));
/** @param {any} queue */
const wasOverfull = (queue) => Boolean(queue?.overfull_count);

let planned = { name: "", ...countFor(CAPACITY) };

/**
 * What the programs do to the queue. `limit`: messages above which its producers are blocked, 0: none; before there is
 * a queue, that of the one to create. `resume`: at or below it they go on. `count`: messages to send. `fits`: the queue
 * takes them all.
 *
 * @param {any} queue undefined: there is none
 */
function planFor(queue) {
  const limit = queue ? queue.effective_stop_messages : CAPACITY;
  const resume = queue ? queue.effective_resume_messages : resumeLevel(CAPACITY);
  const name = queue ? nameOf(queue) : "";
  // A program that runs goes on with the number that it began with, whatever the capacity is raised to.
  if (name !== planned.name || !wasOverfull(queue)) planned = { name, ...countFor(limit) };
  return { ...planned, limit, resume };
}

// -- the steps ----------------------------------------------------------------------------------------------------

/** @typedef {Found & {queue: any, plan: ReturnType<typeof planFor>}} Facts */

const why = aside("", "", { class: "button" });
const whyLine = h("div", { class: "first-step-actions", hidden: true }, why);

/** @param {any} queue */
function showWhy(queue) {
  whyLine.hidden = !wasOverfull(queue);
  if (whyLine.hidden) return;
  const now = isOverfull(queue);
  setText(why, now ? "Why is it blocked?" : "Why it was blocked");
  why.classList.toggle("primary", now);
  setAttribute(why, "href", now ? whyUrl(nameOf(queue)) : timelineUrl(nameOf(queue)));
}

/**
 * @param {"User" | "Queue"} type
 * @param {string} text
 * @param {(made: any, changed: () => void) => void} open
 */
const creation = (type, text, open) =>
  h(
    "div",
    { class: "first-step-actions" },
    h(
      "button",
      {
        type: "button",
        class: "primary",
        ...unlessAllowed(type, "create", type === "Queue" ? made.host : undefined),
        on: { click: () => open(made, changed) },
      },
      text,
    ),
  );

/**
 * `says`: what to do, as text, or as a text that it depends on and the elements. `done`: null if the user may not see
 * it. `found`: what the broker shows, in the same form.
 *
 * @typedef {string | [string, () => any]} Shown
 * @type {{title: string, says: (facts: Facts) => Shown, body: () => any, done: (facts: Facts) => boolean | null,
 *   found: (facts: Facts) => Shown}[]}
 */
const STEPS = [
  {
    title: "Create a client user",
    says: () => "A user of the broker, not of this console, with permissions on a virtual host.",
    body: () => creation("User", "Create client user", openCreateUser),
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
    says: () => "Its capacity limits it: with more messages, its producers are blocked.",
    body: () => creation("Queue", "Create queue", openCreateQueue),
    done: ({ queues }) => queues.length > 0,
    found: ({ queue }) =>
      queue ? [nameOf(queue), () => aside(queueUrl(queue.virtualhost, queue.name), queue.name)] : "",
  },
  {
    title: "Run a program that sends",
    says({ queue, plan: { limit, count, fits } }) {
      const sends = `It sends ${plural(count, "message")}`;
      if (!fits) return `${sends}, more than the queue takes: the program is blocked in the middle, and waits.`;
      const size = limit ? `has a capacity of ${plural(limit, "message")}` : "has no capacity in messages";
      return [
        JSON.stringify([nameOf(queue), limit]),
        () => [
          `${sends}, and the queue ${queue.name} takes them all, since it ${size}: no producer is blocked. Set a `,
          `capacity of ${CAPACITY} on `,
          aside(queueUrl(queue.virtualhost, queue.name), "its page"),
          ", or create another queue in step 2.",
        ],
      ];
    },
    body: () => programs.sender(),
    done: ({ queue, connections }) => connections.length > 0 || (queue?.enqueued_messages ?? 0) > 0,
    found({ queue, connections: [client] }) {
      const sent = queue?.enqueued_messages ?? 0;
      return sent ? `${plural(sent, "message")} arrived` : client ? `${client.user} is connected` : "";
    },
  },
  {
    title: "Its producer is blocked",
    says: () =>
      "A queue is overfull when it has more messages than its capacity: one of 100 takes 101, by design. Its " +
      "producers get no more credit then, and wait. Nothing is lost.",
    body: () => whyLine,
    done: ({ queue }) => wasOverfull(queue),
    found({ queue, plan }) {
      if (!wasOverfull(queue)) return plan.fits ? "Not with this queue: it takes all messages of the program" : "";
      if (!queue.blocked_producers) return isOverfull(queue) ? "It is overfull" : "It was overfull";
      return `${exact(queue.blocked_producers)} blocked now, ${plural(queue.depth_messages, "message")} in the queue`;
    },
  },
  {
    title: "Release it",
    says: ({ plan: { limit, resume } }) =>
      "Run a program that receives, in a second terminal, or raise the queue's capacity on its page. " +
      (limit ? `At ${plural(resume, "message")} or fewer the producer goes on.` : ""),
    body: () => programs.receiver(),
    done: ({ queue }) => wasOverfull(queue) && !isOverfull(queue),
    found: ({ queue }) => (wasOverfull(queue) && !isOverfull(queue) ? "Released" : ""),
  },
];

/**
 * @param {HTMLElement} element
 * @param {Shown} shown
 */
function draw(element, shown) {
  if (typeof shown === "string") fillOnce(element, shown, () => shown);
  else fillOnce(element, shown[0], shown[1]);
}

const marks = STEPS.map((step, at) => {
  const mark = h("span", { class: "first-step-mark", "aria-hidden": "true" }, String(at + 1));
  const state = h("span", { class: "sr" });
  const found = h("span", { class: "first-step-found" });
  const says = h("p");
  const element = h(
    "li",
    { class: "first-step", data: { state: "open" } },
    mark,
    h("div", { class: "first-step-body" }, h("h2", {}, step.title, state, found), says, step.body()),
  );
  return { step, element, mark, state, found, says, number: String(at + 1) };
});

// -- what has happened --------------------------------------------------------------------------------------------

/** @type {Found} the newest answer to `read` */
let answer = { users: [], queues: [], connections: [] };
/** @type {any} the queue as the newest snapshot has it, which comes sooner; null: none, or no live data */
let snapshot = null;
let watched = "";

function show() {
  const queues = answer.queues.filter((each) => nameOf(each) !== (snapshot && nameOf(snapshot)));
  const found = { ...answer, queues: snapshot ? [snapshot, ...queues] : queues };
  const queue = queueOf(found);
  if (queue && !made.chosen) Object.assign(made, { queue: queue.name, host: queue.virtualhost });
  const [user] = answer.users ?? [];
  if (user && !made.password && answer.users?.every(({ name }) => name !== made.user)) made.user = user.name;
  const plan = planFor(queue);
  programs.show({
    count: plan.count,
    userExists: Boolean(answer.users?.some(({ name }) => name === made.user)),
  });
  showWhy(queue);
  for (const { step, element, mark, state, found: shown, says, number } of marks) {
    const facts = { ...found, queue, plan };
    const done = step.done(facts);
    for (const button of element.querySelectorAll(".first-step-actions button"))
      button.classList.toggle("primary", !done);
    element.dataset.state = done ? "done" : done === null ? "unknown" : "open";
    setText(mark, done ? "✓" : number);
    setText(state, done ? " (done)" : done === null ? " (not known)" : " (to do)");
    draw(says, step.says(facts));
    draw(shown, step.found(facts));
  }
  watchQueue();
}

function watchQueue() {
  const name = nameOf({ virtualhost: made.host, name: made.queue });
  if (name === watched) return;
  watched = name;
  snapshot = null;
  watch({ watch: "queue", object: name });
}

/** @param {any} queue */
function follow(queue) {
  snapshot = queue;
  show();
}

if (settings.amqp) {
  fill(byId("steps"), ...marks.map(({ element }) => element));
  live.addEventListener("snapshot", ({ detail }) => {
    if (detail.watch === "queue" && detail.connected) follow(detail.data.queue ?? null);
  });
  live.addEventListener("state", ({ detail }) => detail.state !== "live" && follow(null));
  live.addEventListener("broker", ({ detail }) => !detail.connected && follow(null));
  show();
  refresh = poll(read, (newest) => {
    answer = newest;
    show();
  }).refresh;
  refresh();
} else {
  fill(
    find(".lead"),
    "Users and queues of this broker are created with its own tools. Its queues are on the overview.",
  );
}
