// The table of messages: one row each, with a tick box. The page decides what is listed.

import { byId, fill, find, findAll, h } from "../core/elements.js";
import { bytes, count, exact, exactAmount, words } from "../core/format.js";
import { objectUrl, shortName } from "../core/object_names.js";
import { sinceElement } from "../core/times.js";
import { safeLine } from "./safe_text.js";
import { namesOf, textNode, timeOf, valueNode } from "./text_nodes.js";

const MOST_PROPERTIES = 4;

export class MessageList {
  #rows = byId("messages");
  #all = byId("tick-all");
  #opened;
  #ticked = new Set();
  #tickedChanged;
  /** @type {any[]} the messages on the page */
  messages = [];

  /**
   * `urlOf(id)`: the address of the page with this message open; `opened(id)`: a row was opened; `ticked()`: the ticks
   * have changed.
   *
   * @param {{urlOf: (id: string) => string, opened: (id: string) => void, ticked: () => void}} options
   */
  constructor({ urlOf, opened, ticked }) {
    this.urlOf = urlOf;
    this.#opened = opened;
    this.#tickedChanged = ticked;
    this.#all.addEventListener("change", () => this.#tick(this.messages, this.#all.checked));
  }

  /** The ticked messages, in their order. */
  get ticked() {
    return this.messages.filter((message) => this.#ticked.has(message.id));
  }

  clearTicks() {
    this.#tick(this.messages, false);
  }

  /**
   * @param {any[]} messages
   * @param {boolean} on
   */
  #tick(messages, on) {
    for (const { id } of messages) {
      if (on) this.#ticked.add(id);
      else this.#ticked.delete(id);
    }
    for (const box of findAll("#messages input.pick")) box.checked = this.#ticked.has(box.value);
    this.#showAll();
    this.#tickedChanged();
  }

  #showAll() {
    const ticked = this.ticked.length;
    this.#all.checked = ticked > 0 && ticked === this.messages.length;
    this.#all.indeterminate = ticked > 0 && ticked < this.messages.length;
    this.#all.disabled = this.messages.length === 0;
  }

  /**
   * Show a page of messages. Messages that are not on it lose their ticks.
   *
   * @param {any[]} messages
   */
  show(messages) {
    this.messages = messages;
    const ids = new Set(messages.map(({ id }) => id));
    for (const id of this.#ticked) if (!ids.has(id)) this.#ticked.delete(id);
    fill(
      this.#rows,
      messages.map((message) => this.#row(message)),
    );
    this.#showAll();
    this.#tickedChanged();
  }

  /**
   * Mark the row of the open message; null: none.
   *
   * @param {string | null} id
   */
  mark(id) {
    for (const row of this.#rows.children) {
      if (row.dataset.id === id) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  /**
   * Give the focus to the row of a message.
   *
   * @param {string | null} id
   */
  focus(id) {
    const row = [...this.#rows.children].find((/** @type {any} */ each) => each.dataset.id === id);
    find("th a", row ?? this.#rows)?.focus();
  }

  /** @param {any} message */
  #row(message) {
    const { id } = message;
    const [title, small] = namesOf(message);
    const name = safeLine(title, 60);
    const box = h("input", {
      type: "checkbox",
      class: "pick",
      value: id,
      "aria-label": `Tick message ${name}`,
      checked: this.#ticked.has(id),
    });
    box.addEventListener("change", () => this.#tick([message], box.checked));
    const link = h("a", { href: this.urlOf(id) }, textNode(title, { most: 80 }));
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return; // in a tab of its own
      event.preventDefault();
      this.#opened(id);
    });
    const at = timeOf(message.at);
    /**
     * @param {string} label
     * @param {any} attributes
     * @param {...any} children
     */
    const cell = (label, attributes, ...children) => h("td", { "data-label": label, ...attributes }, ...children);
    return h(
      "tr",
      { data: { id } },
      cell("", { class: "c-pick" }, box),
      cell("Position", { class: "num" }, message.position === null ? "–" : count(message.position)),
      h(
        "th",
        { scope: "row", class: "c-message" },
        link,
        small ? h("small", { class: "muted vh" }, textNode(small, { most: 80 })) : null,
      ),
      cell("Age", { class: "num" }, at === null ? "–" : sinceElement(at)),
      cell("Size", { class: "num", title: exactAmount(message.size, "bytes") }, bytes(message.size)),
      cell("Redeliveries", { class: "num" }, exact(message.redeliveries)),
      cell("State", { class: "c-state" }, stateOf(message)),
      cell("Properties", { class: "wrap c-properties" }, properties(message)),
    );
  }
}

/** @param {any} message */
function stateOf(message) {
  const state = h("span", { class: "message-state", data: { state: message.state } }, words(message.state ?? ""));
  return [
    state,
    message.consumer
      ? h("small", { class: "vh" }, h("a", { href: objectUrl(message.consumer) }, shortName(message.consumer)))
      : null,
    message.dead_letter?.reason
      ? h("small", { class: "muted vh" }, textNode(words(String(message.dead_letter.reason)), { most: 60 }))
      : null,
  ];
}

/** @param {any} message */
function properties(message) {
  const entries = Object.entries(message.application_properties ?? {});
  const shown = entries.slice(0, MOST_PROPERTIES);
  return [
    ...shown.map(([name, value]) =>
      h(
        "span",
        { class: "pair" },
        h("span", { class: "muted" }, textNode(name, { most: 30 }), "="),
        valueNode(value, 40),
      ),
    ),
    entries.length > shown.length ? h("span", { class: "muted" }, `+${exact(entries.length - shown.length)}`) : null,
  ];
}
