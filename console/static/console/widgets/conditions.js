// Conditions that the console has detected, with its observation and recommendation.

import { atThatTime, away } from "../core/away.js";
import { byId, fill, h, icon, reconcile, setAttribute, setText } from "../core/elements.js";
import { count, plural } from "../core/format.js";
import { objectUrl, parseName, shortName, whyUrl } from "../core/object_names.js";
import { setSince, sinceElement } from "../core/times.js";

/** Shows conditions in `list`. `about`: each has a link to its object. */
export class Conditions {
  #list;
  #about;

  /**
   * @param {HTMLElement} list
   * @param {any} [options]
   */
  constructor(list, { about = true } = {}) {
    this.#list = list;
    this.#about = about;
  }

  /** @param {any[]} conditions */
  show(conditions) {
    this.#list.hidden = conditions.length === 0;
    reconcile(
      this.#list,
      conditions,
      (condition) => `${condition.kind} ${condition.object} ${condition.broker ?? ""}`,
      (condition) => this.#item(condition),
      update,
    );
  }

  /** @param {any} condition */
  #item(condition) {
    const queue = parseName(condition.object)?.type === "Queue";
    return h(
      "li",
      { class: "condition" },
      icon(condition.severity === "trouble" ? "overfull" : "info"),
      h(
        "div",
        { class: "condition-body" },
        h(
          "p",
          { class: "condition-head" },
          h("strong", {}, condition.title),
          this.#about ? [" ", about(condition)] : null,
          h("span", { class: "muted" }, " for ", sinceElement()),
        ),
        h("p", { class: "condition-saw" }),
        h("p", { class: "condition-advice muted" }),
      ),
      queue && location.pathname !== "/why/"
        ? h(
            "a",
            {
              class: "button",
              href: whyUrl(condition.object, condition.broker),
              "aria-label": `Why ${shortName(condition.object)} is blocked`,
            },
            "Why?",
          )
        : null,
    );
  }
}

/**
 * Return a link to the object of a condition, with its broker where conditions of several are shown.
 *
 * @param {any} condition
 */
const about = ({ object, broker, broker_title: title }) =>
  h("span", {}, h("a", { href: objectUrl(object, broker) }, shortName(object)), title ? ` on ${title}` : "");

/**
 * @param {any} node
 * @param {any} condition
 */
function update(node, condition) {
  const [, body] = node.children;
  const [head, saw, advice] = body.children;
  setAttribute(node, "data-severity", condition.severity);
  setSince(head.querySelector("time"), condition.since);
  setText(saw, condition.saw);
  setText(advice, condition.advice);
}

/**
 * The text of the line if there are no conditions: producers can be blocked, and queues overfull, for less time than a
 * condition needs. undefined: nothing is blocked, or the page shows a past snapshot.
 *
 * @param {any} totals
 */
export function blockedBesides(totals) {
  const parts = [
    totals.blocked_producers ? `${plural(totals.blocked_producers, "producer")} blocked` : "",
    totals.overfull_queues ? `${plural(totals.overfull_queues, "queue")} overfull` : "",
    totals.stopped_queues ? `${plural(totals.stopped_queues, "queue")} stopped` : "",
  ].filter(Boolean);
  return parts.length && !away() ? `none yet; ${parts.join(", ")}` : undefined;
}

/**
 * The line of conditions above a page's content (templates/console/conditions_line.html): their number and the worst.
 * The list unfolds over the content: conditions appear and disappear without moving the page under the pointer.
 */
export class ConditionsLine {
  #about;
  #list;
  #conditions;
  /** @type {any} */
  #named = null;
  #card = byId("conditions-card");
  #count = byId("conditions-count");
  #worst = byId("conditions-worst");
  #unfold = byId("conditions-unfold");
  #all = byId("conditions-all");

  constructor({ about = true } = {}) {
    this.#about = about;
    this.#list = byId("conditions");
    this.#conditions = new Conditions(this.#list, { about });
    this.#unfold.addEventListener("click", () => this.#open(this.#list.hidden));
    document.addEventListener("pointerdown", (event) => {
      if (!this.#card.contains(event.target)) this.#open(false);
    });
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || this.#list.hidden) return;
      const within = this.#card.contains(document.activeElement);
      this.#open(false);
      if (within) this.#unfold.focus();
    });
  }

  /**
   * `conditions`: the worst first. `total`: the number of all conditions. `none`: the text if there are none.
   *
   * @param {any[]} conditions
   * @param {any} total
   * @param {any} [none]
   */
  show(
    conditions,
    total,
    none = away() ? (atThatTime() && `none${atThatTime()}`) || "not known" : "No active conditions",
  ) {
    const open = !this.#list.hidden;
    this.#conditions.show(conditions);
    setText(this.#count, total ? count(total) : none);
    this.#unfold.hidden = conditions.length === 0;
    this.#all.hidden = total === 0;
    this.#name(conditions[0]);
    this.#open(open);
  }

  /** @param {string} text */
  unknown(text) {
    this.show([], 0, text);
  }

  /**
   * Show the worst condition. Its observation changes each second: screen readers announce the name only.
   *
   * @param {any} worst
   */
  #name(worst) {
    const key = worst ? `${worst.severity} ${worst.kind} ${worst.object} ${worst.broker ?? ""}` : "";
    if (this.#named !== key) {
      this.#named = key;
      setAttribute(this.#worst, "data-severity", worst?.severity);
      fill(
        this.#worst.firstElementChild,
        worst
          ? [
              icon(worst.severity === "trouble" ? "overfull" : "info"),
              h("strong", {}, worst.title),
              ...(this.#about ? [" ", about(worst)] : []),
            ]
          : [],
      );
    }
    setText(this.#worst.lastElementChild, worst?.saw ?? "");
    setAttribute(this.#worst.lastElementChild, "title", worst?.saw);
  }

  /** @param {any} open */
  #open(open) {
    this.#list.hidden = !open || this.#unfold.hidden;
    setAttribute(this.#unfold, "aria-expanded", String(!this.#list.hidden));
    setText(this.#unfold, this.#list.hidden ? "Show" : "Hide");
  }
}
