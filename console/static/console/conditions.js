// Conditions that the console has raised by itself: what it saw, and what to do.

import { h, icon, reconcile, setAttribute, setText } from "./elements.js";
import { plural } from "./format.js";
import { objectUrl, parseName, shortName, whyUrl } from "./objectname.js";
import { setSince, sinceElement } from "./times.js";

/** Shows conditions in `list`. `about`: each names its object and leads there. */
export class Conditions {
  #list;
  #about;

  constructor(list, { about = true } = {}) {
    this.#list = list;
    this.#about = about;
  }

  show(conditions) {
    this.#list.hidden = conditions.length === 0;
    reconcile(this.#list, conditions, (condition) => `${condition.kind} ${condition.object}`, (condition) => this.#item(condition), update);
  }

  #item(condition) {
    const queue = parseName(condition.object)?.type === "Queue";
    return h("li", { class: "condition" }, icon(condition.severity === "trouble" ? "overfull" : "info"),
      h("div", { class: "condition-body" },
        h("p", { class: "condition-head" }, h("strong", {}, condition.title), this.#about ? [" ", h("a", { href: objectUrl(condition.object) }, shortName(condition.object))] : null,
          h("span", { class: "muted" }, " for ", sinceElement())),
        h("p", { class: "condition-saw" }), h("p", { class: "condition-advice muted" })),
      queue && location.pathname !== "/why/" ? h("a", { class: "button", href: whyUrl(condition.object), "aria-label": `Why ${shortName(condition.object)} is blocked` }, "Why?") : null);
  }
}

function update(node, condition) {
  const [, body] = node.children;
  const [head, saw, advice] = body.children;
  setAttribute(node, "data-severity", condition.severity);
  setSince(head.querySelector("time"), condition.since);
  setText(saw, condition.saw);
  setText(advice, condition.advice);
}

/** "3 conditions, the worst 2 here" */
export const countOf = (shown, total) => (total ? `${plural(total, "condition")}${total > shown ? `, the worst ${shown} here` : ""}` : "No active conditions");
