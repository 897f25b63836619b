// The message area of an edit form: errors, and changes by other users.

import { fill, h } from "../core/elements.js";

export class EditProblem {
  /** @param {HTMLElement} element an empty notice */
  constructor(element = h("div", { class: "notice error", role: "alert", hidden: true })) {
    this.element = element;
  }

  get shown() {
    return !this.element.hidden;
  }

  /**
   * Show text or elements; without content, hide the area.
   *
   * @param {...any} content
   */
  show(...content) {
    this.element.hidden = content.every((part) => !part);
    fill(this.element, h("div", {}, ...content));
  }

  /**
   * Report a change by another user.
   *
   * @param {any} sentence as `ChangedBy.sentence` returns it
   * @param {import("./edit_session.js").Difference[]} differences
   * @param {{label: (name: string) => string, value: (name: string, value: any) => any}} formats
   * @param {string} advice
   */
  conflict(sentence, differences, { label, value }, advice) {
    const lines = differences.map(({ name, before, now }) =>
      h("li", {}, h("strong", {}, label(name)), ": ", value(name, before), " → ", value(name, now)),
    );
    this.show(h("p", {}, sentence), lines.length ? h("ul", {}, lines) : null, h("p", {}, advice));
  }
}
