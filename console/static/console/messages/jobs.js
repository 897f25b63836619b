// Jobs that act on the messages of a queue: their progress, what blocks them, interrupt and resume.

import { get, post, query } from "../core/api.js";
import { byId, fillOnce, h, icon, reconcile } from "../core/elements.js";
import { bytes, exact, plural } from "../core/format.js";
import { hostOf, parseName, queueUrl } from "../core/object_names.js";
import { acting } from "../core/permissions.js";
import { serverNow } from "../core/server_clock.js";
import { clockElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { ACTIONS } from "./actions.js";
import { textNode, timeOf } from "./text_nodes.js";

const EVERY = 1000; // ms, while a job runs
const SELDOM = 10_000; // ms, after an error
/** @type {Record<string, string>} */
const STATES = {
  running: "Running",
  stalled: "Stalled: its worker has ended",
  interrupted: "Interrupted",
  done: "Done",
};
/** @param {any} job */
const stateOf = (job) => (job.state === "running" && job.stalled ? "stalled" : job.state);

/**
 * How far a job has searched the depth that its queue had when it began: a bar and percent, or that it is not known.
 *
 * @param {any} job
 */
function progressOf(job) {
  const known = job.percent !== null && job.percent !== undefined;
  const found = known && job.state !== "done" ? `${exact(job.searched)} of ${plural(job.depth, "message")}` : null;
  return [
    known ? h("progress", { max: 100, value: job.percent, "aria-hidden": "true" }) : null,
    `${known ? `${job.percent}%` : "–"} (${found ?? plural(job.searched, "message")} searched)`,
  ];
}

export class Jobs {
  #object;
  #ended;
  #element = byId("jobs");
  #timer = 0;
  #open = new Set();
  #dismissed = new Set();
  #opened = serverNow();

  /**
   * `ended()` is called when a job has ended.
   *
   * @param {string | null} object name of the queue; null: of all queues
   * @param {() => void} ended
   */
  constructor(object, ended) {
    this.#object = object;
    this.#ended = ended;
  }

  async refresh() {
    clearTimeout(this.#timer);
    let next = 0;
    try {
      const { results } = await get(`message-jobs/${query({ object: this.#object ?? "" })}`);
      this.#show(results);
      const open = new Set(
        results.filter((/** @type {any} */ job) => job.state === "running").map((/** @type {any} */ job) => job.id),
      );
      if ([...this.#open].some((id) => !open.has(id))) this.#ended();
      this.#open = open;
      next = open.size ? EVERY : 0;
    } catch (error) {
      if (this.#open.size) next = SELDOM;
      if (error.status !== 404) byId("jobs-problem").textContent = this.#open.size ? error.message : "";
    }
    if (next) this.#timer = setTimeout(() => this.refresh(), next);
  }

  /** Jobs that are not over, and those that ended while the page was open. @param {any[]} jobs */
  #show(jobs) {
    byId("jobs-problem").textContent = "";
    const shown = jobs.filter(
      (job) =>
        !this.#dismissed.has(job.id) &&
        (job.state !== "done" || this.#open.has(job.id) || (timeOf(job.finished) ?? 0) >= this.#opened),
    );
    this.#element.hidden = shown.length === 0;
    reconcile(
      this.#element,
      shown,
      (job) => job.id,
      () => h("li", { class: "job" }, h("div", { class: "job-text" }), h("div", { class: "job-acts" })),
      (line, job) => this.#update(line, job),
    );
  }

  /**
   * Update a line: its buttons only if they change, so that one retains the focus and no click is lost.
   *
   * @param {HTMLElement} line
   * @param {any} job
   */
  #update(line, job) {
    const state = stateOf(job);
    const [text, acts] = /** @type {any} */ (line.children);
    line.dataset.state = state;
    fillOnce(text, JSON.stringify(job), () => this.#text(job, state));
    const focused = acts.contains(document.activeElement);
    fillOnce(acts, JSON.stringify([state, job.unconfirmed > 0, job.object]), () => this.#acts(job, state));
    if (focused && !acts.contains(document.activeElement)) acts.querySelector("button")?.focus();
  }

  /** @param {any} job @param {string} state */
  #text(job, state) {
    const { verb } = ACTIONS[job.action] ?? { verb: job.action };
    const keys = parseName(job.object)?.keys ?? {};
    const started = timeOf(job.created);
    return [
      h(
        "p",
        {},
        h("strong", {}, `${STATES[state] ?? state}: ${verb.toLowerCase()}`),
        ` ${job.at_least ? "at least " : ""}${plural(job.messages, "message")}, ${bytes(job.bytes)}`,
        this.#object
          ? null
          : [" of ", h("a", { href: queueUrl(keys.virtualhost, keys.name) }, textNode(keys.name ?? ""))],
        job.to ? [" to ", h("a", { href: queueUrl(keys.virtualhost, job.to) }, textNode(job.to))] : null,
        h(
          "span",
          { class: "muted" },
          ` – ${job.user_name || "an unknown user"}`,
          started === null ? null : [", ", clockElement(started)],
          job.reason ? [": ", textNode(job.reason)] : null,
        ),
      ),
      h("p", { class: "muted job-progress" }, progressOf(job)),
      job.skipped ? h("p", { class: "muted" }, `Skipped: ${plural(job.skipped, "message")}`) : null,
      job.blocked && state !== "done"
        ? h("p", { class: "hot-line" }, icon("overfull"), " Waiting: ", textNode(job.blocked))
        : null,
      job.error ? h("p", { class: "wrong" }, textNode(job.error)) : null,
      job.unconfirmed && state === "interrupted"
        ? h(
            "p",
            { class: "wrong" },
            `Whether the last ${plural(job.unconfirmed, "message was", "messages were")} copied is not known.`,
          )
        : null,
    ];
  }

  /** @param {any} job @param {string} state */
  #acts(job, state) {
    const host = hostOf(job.object);
    const button = (/** @type {string} */ name, /** @type {string} */ text, /** @type {any} */ body = {}) =>
      h(
        "button",
        {
          type: "button",
          ...acting("operate", host),
          data: { acts: "" },
          on: { click: () => this.#control(job.id, name, body) },
        },
        text,
      );
    return [
      state === "running" ? button("interrupt", "Interrupt") : null,
      state === "interrupted" || state === "stalled"
        ? job.unconfirmed
          ? [
              button("resume", "Resume, repeat these", { unconfirmed: "repeat" }),
              button("resume", "Resume, skip these", { unconfirmed: "skip" }),
            ]
          : button("resume", "Resume")
        : null,
      state === "running"
        ? null
        : h(
            "button",
            {
              type: "button",
              class: "quiet icon-only",
              "aria-label": `Dismiss job ${job.id}`,
              on: {
                click: () => {
                  this.#dismissed.add(job.id);
                  this.refresh();
                },
              },
            },
            icon("close"),
          ),
    ].flat();
  }

  /**
   * @param {any} id
   * @param {string} action
   * @param {any} body
   */
  async #control(id, action, body) {
    try {
      await post(`message-jobs/${id}/${action}/`, body);
    } catch (error) {
      toast(error.message, "error");
    }
    this.#open.add(id);
    this.refresh();
  }
}
