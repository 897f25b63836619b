// One message beside the list: its properties, annotations and body. Without the right to read bodies: what the list
// has.

import { get, query } from "../core/api.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { fill, h, icon } from "../core/elements.js";
import { bytes, exact, plural, words } from "../core/format.js";
import { objectUrl, ofBroker, shortName } from "../core/object_names.js";
import { may } from "../core/permissions.js";
import { renderings } from "./body.js";
import { safeLine } from "./safe_text.js";
import { namesOf, textNode, timeNode, valueNode } from "./text_nodes.js";

const READ = 65_536; // bytes of a body that are shown
const MOST = 2000; // characters of a value
/** @type {Record<string, string>} */
const VIEWS = { json: "JSON", text: "Text", hex: "Hex" };
const TIMES = new Set(["creation_time", "absolute_expiry_time"]);

/**
 * The path of a message in the API.
 *
 * @param {string} id
 */
const pathOf = (id) => `messages/${encodeURIComponent(id)}/`;

export class MessagePanel {
  #element;
  #object;
  #host;
  #closed;
  #actions;
  #reads;
  #request = new DebouncedRequest(0);
  /** @type {string | null} id of the message that is shown */
  shown = null;

  /**
   * `reads`: whether the broker offers to read bodies. `closed()` is called when the user closes it; `actions(message)`
   * returns buttons for the message.
   *
   * @param {HTMLElement} element
   * @param {{object: string, virtualhost: string, reads: boolean, closed: () => void, actions: (message: any) => any}}
   *   options
   */
  constructor(element, { object, virtualhost, reads, closed, actions }) {
    this.#reads = reads;
    this.#element = element;
    this.#object = object;
    this.#host = virtualhost;
    this.#closed = closed;
    this.#actions = actions;
  }

  /**
   * Show a message. `row`: what the list has of it; null: it is not on the page.
   *
   * @param {string} id
   * @param {any} row
   */
  async show(id, row) {
    this.shown = id;
    this.#element.hidden = false;
    const body = h("div", {}, h("p", { class: "loading" }, "Loading…"));
    this.#frame(id, row, body);
    const refused = this.#reads ? (may("read", this.#host) ? "" : NO_PERMISSION) : NOT_OFFERED;
    if (refused) {
      this.#request.cancel();
      fill(body, withoutBody(refused, row));
      return;
    }
    try {
      const path = `${pathOf(id)}${query({ object: this.#object, size: READ })}`;
      const read = await this.#request.send((signal) => get(path, signal));
      this.#frame(id, read.message ?? read, this.#body(id, read));
    } catch (error) {
      if (error.name === "AbortError") return;
      fill(
        body,
        this.#failure(error, () => this.show(id, row)),
      );
    }
  }

  hide() {
    this.#request.cancel();
    this.shown = null;
    this.#element.hidden = true;
    fill(this.#element);
  }

  /**
   * @param {string} id
   * @param {any} message
   * @param {HTMLElement} body
   */
  #frame(id, message, body) {
    const [title] = message ? namesOf(message) : [id];
    const close = h(
      "button",
      { type: "button", class: "quiet icon-only", "aria-label": "Close message", on: { click: this.#closed } },
      icon("close"),
    );
    fill(
      this.#element,
      h(
        "header",
        { class: "card-head" },
        h("h2", { id: "panel-title" }, "Message ", textNode(title, { most: 120 })),
        close,
      ),
      message ? h("div", { class: "panel-actions" }, this.#actions(message)) : null,
      h(
        "div",
        { class: "panel-scroll" },
        message ? facts(message) : null,
        h("h3", {}, "Body"),
        body,
        message ? sections(message) : null,
      ),
    );
  }

  /**
   * @param {string} id
   * @param {any} read
   */
  #body(id, read) {
    const kind = read.body_kind;
    if (kind === "none" || (read.body_bytes === 0 && kind !== "undecodable"))
      return h("p", { class: "muted" }, kind === "none" ? "The message has no body." : "The body is empty.");
    const whole = ofBroker(`/api/v1/${pathOf(id)}body/${query({ object: this.#object })}`);
    const { first, views, remark } = renderings(read);
    const pre = h("pre", { class: "body-text", tabindex: "0", role: "region", "aria-label": "Body" });
    const show = (/** @type {any} */ view) => {
      for (const button of buttons) button.setAttribute("aria-pressed", String(button.dataset.view === view));
      pre.dataset.view = view;
      fill(pre, textNode(/** @type {any} */ (views)[view], { most: Number.MAX_SAFE_INTEGER, lines: true }));
    };
    const buttons = Object.keys(VIEWS)
      .filter((view) => view in views)
      .map((view) =>
        h(
          "button",
          { type: "button", "aria-pressed": "false", data: { view }, on: { click: () => show(view) } },
          VIEWS[view],
        ),
      );
    show(first);
    return h(
      "div",
      { class: "body" },
      h(
        "div",
        { class: "body-head" },
        h("div", { class: "segmented", role: "group", "aria-label": "Body as" }, buttons),
        h("span", { class: "muted" }, `${KINDS[kind] ?? kind}, ${bytes(read.body_bytes)}`),
        h("a", { class: "button", href: whole, download: "" }, "Download"),
      ),
      kind === "undecodable" ? h("p", { class: "muted" }, "The message cannot be decoded: these are its bytes.") : null,
      remark ? h("p", { class: "muted" }, remark) : null,
      read.cut
        ? h(
            "p",
            { class: "muted" },
            `The first ${bytes(READ)} of ${plural(read.body_bytes, "byte")}. `,
            h("a", { href: whole, download: "" }, "Download the whole body"),
          )
        : null,
      pre,
    );
  }

  /**
   * @param {any} error
   * @param {() => void} again
   */
  #failure(error, again) {
    if (error.status === 404)
      return h("p", {}, "The message is no longer in this queue: it was consumed, moved, deleted, or it has expired.");
    return [
      h("p", { class: "wrong" }, error.message),
      h("button", { type: "button", on: { click: again } }, "Try again"),
    ];
  }
}

/** @type {Record<string, string>} */
const KINDS = {
  data: "data (bytes)",
  text: "text",
  value: "AMQP value",
  sequence: "AMQP sequence",
  undecodable: "not decodable",
};

const NO_PERMISSION =
  "Bodies and annotations require the role of message reader. An administrator can assign it on the Access page.";
const NOT_OFFERED = "This broker does not offer to read bodies.";

/**
 * @param {string} why
 * @param {any} row
 */
const withoutBody = (why, row) => [
  h("p", { class: "no-right" }, icon("lock"), ` ${why}`),
  row ? null : h("p", { class: "muted" }, "The message is not on this page of the list."),
];

/** @param {any} message */
function facts(message) {
  const state = [
    words(message.state ?? ""),
    ...(message.consumer ? [" by ", h("a", { href: objectUrl(message.consumer) }, shortName(message.consumer))] : []),
  ];
  /** @type {[string, any][]} */
  const lines = [
    ["ID", textNode(String(message.id))],
    ["Position", message.position === null || message.position === undefined ? "–" : exact(message.position)],
    ["Arrived", timeOrUnknown(message.at)],
    ["State", state],
    ["Size", `${bytes(message.size)} (${plural(message.size, "byte")})`],
    ["Redeliveries", exact(message.redeliveries)],
    ["Durable", message.durable ? "yes" : "no"],
    ["Priority", exact(message.priority)],
  ];
  if (message.expires !== null && message.expires !== undefined) lines.push(["Expires", timeNode(message.expires)]);
  if (message.due !== null && message.due !== undefined) lines.push(["Due", timeNode(message.due)]);
  const dead = message.dead_letter;
  if (dead) {
    lines.push(["Dead-lettered", textNode(words(String(dead.reason ?? "")))]);
    if (dead.queue) lines.push(["From queue", textNode(String(dead.queue))]);
    if (dead.failed_deliveries !== null && dead.failed_deliveries !== undefined)
      lines.push(["Failed deliveries", exact(dead.failed_deliveries)]);
    if (dead.description) lines.push(["Description", textNode(String(dead.description), { most: MOST })]);
  }
  return h(
    "dl",
    { class: "facts" },
    lines.flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]),
  );
}

/** @param {any} at */
const timeOrUnknown = (at) =>
  at === null || at === undefined ? h("span", { class: "muted" }, "not known") : timeNode(at);

/** @param {any} message */
function sections(message) {
  return [
    section("Properties", message.properties),
    section("Application properties", message.application_properties),
    section("Delivery annotations", message.delivery_annotations),
    section("Annotations", message.annotations),
    section("Footer", message.footer),
  ].flat();
}

/**
 * @param {string} title
 * @param {Record<string, any> | null | undefined} values undefined: not known
 */
function section(title, values) {
  const entries = Object.entries(values ?? {});
  if (!entries.length && title !== "Properties" && title !== "Application properties") return null;
  return [
    h("h3", {}, title),
    entries.length
      ? h(
          "dl",
          { class: "facts message-values" },
          entries.flatMap(([name, value]) => [
            h("dt", { title: safeLine(name) }, textNode(name, { most: 120 })),
            h("dd", {}, title === "Properties" && TIMES.has(name) ? timeNode(value) : valueNode(value, MOST)),
          ]),
        )
      : h("p", { class: "muted none" }, "none"),
  ];
}
