// One managed object: its attributes, operations and events, built from its declared type.

import { ApiError, objectPath, post } from "../core/api.js";
import { UNKNOWN } from "../core/away.js";
import { fill, find, h, icon } from "../core/elements.js";
import { Ending } from "../core/endings.js";
import { words } from "../core/format.js";
import { hostOf, isolated, objectUrl, parseName, shortName, whyUrl } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { AttributesForm } from "../widgets/attributes_form.js";
import { deletion } from "../widgets/creation.js";
import { Feed } from "../widgets/event_feed.js";
import { field } from "../widgets/fields.js";
import { nameInFull, valueNode } from "../widgets/values.js";

const HIDDEN = new Set(["actor"]); // set by the server

/**
 * Fills `panel`. `recent`: past events; `opened(name, tab)` is called when a tab is opened; `parent`: the name of the
 * object above, if there is one.
 */
export class ObjectPanel {
  #panel;
  #name;
  #type;
  #recent;
  #opened;
  #parent;
  #ending;
  #gone = h("div", { class: "notice", hidden: true });
  /** @type {any} */
  #object = null;
  #rows = new Map();
  /** @type {any} */
  #editing = null;
  /** @type {any} */
  #tab;
  /** @type {any} */
  #bodies = {};
  /** @type {any} */
  #tabs = {};

  /**
   * @param {HTMLElement} panel
   * @param {any} name
   * @param {any} type
   * @param {any} tab
   * @param {any} options
   */
  constructor(panel, name, type, tab, { recent, opened, parent }) {
    this.#panel = panel;
    this.#name = name;
    this.#type = type;
    this.#recent = recent;
    this.#opened = opened;
    this.#parent = parent;
    this.#ending = new Ending(name, () => this.#gone.isConnected && !this.#gone.hidden && this.arrived(null));
    this.#bodies = {
      attributes: h("div", { class: "tab-body", role: "tabpanel" }, h("p", { class: "loading" }, "Loading…")),
      operations: h("div", { class: "tab-body", role: "tabpanel" }, this.#operations()),
      notifications: h("div", { class: "tab-body", role: "tabpanel" }, this.#notifications()),
    };
    /** @type {Record<string, any>} */
    const counts = {
      attributes: type.attributes.length,
      operations: type.operations.length,
      notifications: type.notifications.length,
    };
    const bar = h("div", { class: "tabs", role: "tablist" });
    for (const key of Object.keys(this.#bodies)) {
      this.#tabs[key] = h(
        "button",
        { type: "button", role: "tab", id: `tab-${key}`, on: { click: () => this.open(key) } },
        key === "notifications" ? "Events" : words(key),
        " ",
        h("small", { class: "muted" }, String(counts[key])),
      );
      this.#bodies[key].setAttribute("aria-labelledby", `tab-${key}`);
      bar.append(this.#tabs[key]);
    }
    bar.addEventListener("keydown", (event) => {
      const keys = Object.keys(this.#bodies);
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!step) return;
      const next = keys[(keys.indexOf(this.#tab) + step + keys.length) % keys.length];
      this.open(next);
      this.#tabs[next].focus();
    });
    const why = ["Queue", "Producer"].includes(type.name)
      ? h("a", { class: "button", href: whyUrl(name) }, "Why blocked?")
      : null;
    const own = objectUrl(name).startsWith("/objects/")
      ? null
      : h("a", { class: "button", href: objectUrl(name) }, "Open page");
    fill(
      this.#panel,
      h(
        "header",
        { class: "card-head object-head" },
        h("div", {}, h("h2", {}, shortName(name)), h("p", { class: "muted object-name" }, nameInFull(name))),
        why,
        own,
      ),
      this.#gone,
      h("p", { class: "card-text muted" }, type.description),
      bar,
      ...Object.values(this.#bodies),
    );
    this.open(this.#bodies[tab] ? tab : "attributes");
  }

  get name() {
    return this.#name;
  }

  /** @param {any} tab */
  open(tab) {
    this.#tab = tab;
    for (const [key, body] of Object.entries(this.#bodies)) {
      body.hidden = key !== tab;
      this.#tabs[key].setAttribute("aria-selected", String(key === tab));
      this.#tabs[key].tabIndex = key === tab ? 0 : -1;
    }
    this.#opened(this.#name, tab);
  }

  /** The broker does not answer: report that, unless attributes were loaded before. */
  unknown() {
    if (!this.#object) fill(this.#bodies.attributes, h("div", { class: "empty" }, h("p", {}, UNKNOWN)));
  }

  /**
   * Show the object as of a snapshot; null: it does not exist.
   *
   * @param {any} object
   */
  arrived(object) {
    if (!object) {
      this.#panel.classList.add("gone");
      this.#gone.hidden = false;
      const parent = this.#parent && [" ", h("a", { href: objectUrl(this.#parent) }, `Show ${inWords(this.#parent)}`)];
      fill(this.#gone, h("p", {}, h("strong", {}, "No such object."), ` ${this.#ending.text()}`, parent));
      if (!this.#object) fill(this.#bodies.attributes);
      return;
    }
    this.#ending.exists();
    this.#gone.hidden = true;
    this.#panel.classList.remove("gone");
    const first = this.#object === null;
    this.#object = object;
    if (this.#editing) {
      this.#editing.arrived(object);
      return;
    }
    if (first || !this.#rows.size) this.#drawAttributes();
    for (const declared of this.#type.attributes) {
      const row = this.#rows.get(declared.name);
      const value = object.attributes[declared.name];
      const text = JSON.stringify(value);
      if (!row || row.text === text) continue;
      row.text = text;
      fill(row.cell, valueNode(declared, value));
    }
  }

  // -- attributes

  #drawAttributes() {
    this.#rows = new Map();
    const writable = this.#type.attributes.some((/** @type {any} */ a) => a.writable);
    const edit = h(
      "button",
      {
        type: "button",
        class: "quiet",
        ...unlessAllowed(this.#type.name, "update", hostOf(this.#name)),
        on: { click: () => this.#edit() },
      },
      icon("pencil"),
      "Edit",
    );
    const body = h(
      "tbody",
      {},
      this.#type.attributes.map((/** @type {any} */ declared) => {
        const cell = h("td", { class: "wrap value", "data-label": "Value" });
        this.#rows.set(declared.name, { cell, text: undefined });
        return h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h("span", {}, words(declared.name)),
            declared.writable ? h("span", { class: "tag" }, "writable") : null,
          ),
          cell,
          h("td", { class: "muted small wrap", "data-label": "Meaning" }, declared.description),
        );
      }),
    );
    fill(
      this.#bodies.attributes,
      writable ? h("div", { class: "tab-actions" }, edit) : null,
      h(
        "div",
        { class: "table-box", tabindex: "0", role: "region", "aria-label": "Attributes" },
        h(
          "table",
          { class: "grid attributes-table stacked" },
          h(
            "thead",
            {},
            h(
              "tr",
              {},
              h("th", { scope: "col" }, "Attribute"),
              h("th", { scope: "col" }, "Value"),
              h("th", { scope: "col" }, "Meaning"),
            ),
          ),
          body,
        ),
      ),
    );
  }

  #edit() {
    /** @param {any} saved */
    const done = (saved) => {
      this.#editing = null;
      this.#rows = new Map();
      const object = saved ?? this.#object;
      this.#object = null;
      this.arrived(object);
    };
    this.#editing = new AttributesForm(this.#name, this.#type, this.#object, done);
    fill(this.#bodies.attributes, this.#editing.element);
    this.#editing.focus();
  }

  // -- operations

  #operations() {
    const forms = this.#type.operations.map((/** @type {any} */ operation) => this.#operation(operation));
    if (this.#type.deletable) forms.push(deletion(this.#name, () => this.#object?.version));
    return forms.length ? forms : h("div", { class: "empty" }, h("p", {}, "This type has no operations."));
  }

  /** @param {any} operation */
  #operation(operation) {
    const fields = operation.arguments
      .filter((/** @type {any} */ a) => !HIDDEN.has(a.name))
      .map((/** @type {any} */ a) => field({ ...a, nullable: false }, { hint: a.description }));
    const output = h("div", { class: "operation-answer", "aria-live": "polite" });
    const acts = operation.effect !== "read";
    const destructive = operation.effect === "destroy";
    const sure = destructive
      ? h(
          "label",
          { class: "sure" },
          h("input", { type: "checkbox" }),
          h("span", {}, "I understand that this cannot be undone"),
        )
      : null;
    const button = h(
      "button",
      {
        type: "submit",
        class: destructive ? "danger" : acts ? "primary" : "",
        ...(acts ? unlessAllowed(this.#type.name, "call", hostOf(this.#name)) : {}),
      },
      `Call ${operation.name}`,
    );
    const form = h(
      "form",
      { class: "operation", novalidate: true },
      h(
        "h3",
        {},
        h("code", {}, operation.name),
        h(
          "span",
          { class: `tag effect-${operation.effect}` },
          /** @type {Record<string, any>} */ ({
            read: "read-only",
            change: "can be undone",
            destroy: "cannot be undone",
          })[operation.effect] ?? operation.effect,
        ),
      ),
      h("p", { class: "muted" }, operation.description),
      fields.map((/** @type {any} */ f) => f.element),
      sure,
      h("div", { class: "form-actions start" }, button),
      output,
    );
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!fields.map((/** @type {any} */ f) => f.check()).every(Boolean)) return;
      if (destructive && !find("input", form).checked) {
        fill(output, h("p", { class: "wrong" }, "Confirm first: this cannot be undone."));
        find("input", form).focus();
        return;
      }
      const values = Object.fromEntries(
        fields
          .map((/** @type {any} */ f) => [f.declared.name, f.read()])
          .filter((/** @type {any} */ [, value]) => value !== undefined && value !== ""),
      );
      button.disabled = true;
      fill(output, h("p", { class: "loading" }, "Calling…"));
      try {
        const result = await post(
          `${objectPath(settings.broker, this.#name)}operations/${encodeURIComponent(operation.name)}/`,
          { arguments: values },
        );
        fill(output, this.#answer(operation, result.result ?? result.returns ?? result));
        if (sure) find("input", form).checked = false;
      } catch (error) {
        if (error instanceof ApiError) for (const f of fields) f.wrong(error.fields[f.declared.name] ?? "");
        fill(output, h("p", { class: "wrong" }, error.message));
      } finally {
        button.disabled = false;
      }
    });
    return form;
  }

  /**
   * @param {any} operation
   * @param {any} result
   */
  #answer(operation, result) {
    if (!operation.returns?.length) return h("p", { class: "done" }, icon("running"), " Done.");
    return h(
      "dl",
      { class: "facts" },
      operation.returns.flatMap((/** @type {any} */ declared) => [
        h("dt", { title: declared.description }, words(declared.name)),
        h("dd", {}, valueNode(declared, result?.[declared.name])),
      ]),
    );
  }

  // -- notifications

  #notifications() {
    if (!this.#type.notifications.length)
      return h("div", { class: "empty" }, h("p", {}, "Objects of this type have no events."));
    const list = h("ol", { class: "feed", tabindex: "0", "aria-label": "Events, newest first" });
    const children = h("input", { type: "checkbox" });
    /** @param {any} event */
    const keep = (event) => event.object === this.#name || (children.checked && isDescendant(event, this.#name));
    const note = h("span", { class: "muted" });
    const feed = new Feed(list, note, { keep });
    this.notified = (/** @type {any} */ events, /** @type {any} */ reset) => feed.add(events, reset);
    children.addEventListener("change", () => {
      feed.clear();
      feed.add(this.#recent);
    });
    feed.add(this.#recent);
    return [
      h(
        "dl",
        { class: "facts kinds" },
        this.#type.notifications.flatMap((/** @type {any} */ n) => [
          h("dt", {}, h("code", {}, n.name), " ", h("span", { class: "muted" }, n.code)),
          h("dd", {}, n.description),
        ]),
      ),
      h(
        "div",
        { class: "tab-actions spread" },
        h("label", { class: "sure" }, children, h("span", {}, "Include child objects")),
        note,
      ),
      list,
    ];
  }
}

/**
 * "type=VirtualHost,name=test" -> "virtual host test"
 *
 * @param {string} name
 */
function inWords(name) {
  const { type, keys } = /** @type {any} */ (parseName(name));
  const noun = type.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return [noun, ...Object.values(keys).slice(-1).map(isolated)].join(" ");
}

/**
 * Return whether the event's object is a descendant of `name`: of a root, or of an object in its keys or attributes.
 *
 * @param {any} event
 * @param {any} name
 */
function isDescendant(event, name) {
  const above = /** @type {any} */ (parseName(name));
  const object = /** @type {any} */ (parseName(event.object));
  if (!Object.keys(above.keys).length) return true;
  return (
    object.keys[above.type.toLowerCase()] === Object.values(above.keys).at(-1) ||
    event.attributes?.[above.type.toLowerCase()] === name
  );
}
