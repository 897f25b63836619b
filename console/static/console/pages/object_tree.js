// The tree of managed objects: loaded on expansion, navigable with the arrow keys, searchable by name.

import { get, query } from "../core/api.js";
import { fill, h, icon } from "../core/elements.js";
import { count, middle, plural } from "../core/format.js";
import { shortName } from "../core/object_names.js";
import { unlessAllowed } from "../core/permissions.js";
import { stateElement } from "../widgets/states.js";
import { pluralOf } from "./managed_model.js";

const COUNT = 100;
const NAMED = 60; // characters of a name; the tooltip has the full name

export class Tree {
  #root;
  #model;
  #broker;
  #choose;
  #create;
  #chosen = "";

  /**
   * `choose(object name)` is called when an object is selected, `create(type, where)` when “New” is clicked.
   *
   * @param {any} root
   * @param {any} model
   * @param {any} broker
   * @param {(...given: any[]) => any} choose
   * @param {any} create
   */
  constructor(root, model, broker, choose, create) {
    this.#create = create;
    this.#root = root;
    this.#model = model;
    this.#broker = broker;
    this.#choose = choose;
    root.addEventListener("keydown", (/** @type {any} */ event) => this.#key(event));
    fill(
      root,
      model.roots().map((/** @type {any} */ type) => this.#objectNode(`type=${type.name}`, {}, 1)),
    );
    const first = root.querySelector(".node-row");
    first.tabIndex = 0;
  }

  #path() {
    return `brokers/${encodeURIComponent(this.#broker)}/objects/`;
  }

  /**
   * Expand the path to an object and select it.
   *
   * @param {any} name
   */
  async show(name) {
    this.#chosen = name;
    const way = this.#model.path(name);
    let within = this.#root;
    for (const [index, step] of way.entries()) {
      let node = this.#find(within, step);
      if (!node && index > 0) {
        for (const folder of within.querySelectorAll(":scope > ul > li[data-folder]")) {
          await folder.open?.();
          node = this.#find(folder, step);
          if (node) break;
        }
      }
      if (!node) break;
      if (index < way.length - 1) await node.open?.();
      within = node;
    }
    this.#mark();
    this.#root.querySelector('[aria-selected="true"] > .node-row')?.scrollIntoView({ block: "nearest" });
  }

  /**
   * Reload the expanded folders of an object's type: it was created or deleted.
   *
   * @param {any} name
   */
  async refresh(name) {
    const type = /^type=([^,]+)/.exec(name)?.[1] ?? "";
    for (const folder of this.#root.querySelectorAll(`li[data-folder="${CSS.escape(type)}"][aria-expanded="true"]`)) {
      folder.close();
      await folder.open();
    }
  }

  /**
   * @param {any} within
   * @param {any} name
   */
  #find(within, name) {
    return within.querySelector(`li[data-object="${CSS.escape(name)}"]`);
  }

  #mark() {
    for (const node of this.#root.querySelectorAll("[role=treeitem]")) {
      node.setAttribute("aria-selected", String(node.dataset.object === this.#chosen));
    }
  }

  /**
   * @param {any} level
   * @param {any} options
   */
  #node(level, { object = null, folder = null, opens = true, content, load }) {
    const row = h(
      "div",
      { class: "node-row", tabindex: "-1" },
      opens ? icon("chevron") : h("span", { class: "icon" }),
      ...content,
    );
    /** @type {any} */
    const node = h(
      "li",
      {
        role: "treeitem",
        class: "node",
        "aria-level": level,
        "aria-expanded": opens ? "false" : null,
        "aria-selected": "false",
        data: { ...(object ? { object } : {}), ...(folder ? { folder } : {}) },
      },
      row,
    );
    row.style.setProperty("--level", level);
    /** @type {any} */
    let children = null;
    node.open = async () => {
      if (!opens || node.getAttribute("aria-expanded") === "true") return;
      node.setAttribute("aria-expanded", "true");
      children = h("ul", { role: "group" }, h("li", { class: "loading node-note", role: "none" }, "…"));
      children.style.setProperty("--level", level + 1);
      node.append(children);
      try {
        fill(children, await load(children));
      } catch (error) {
        fill(children, h("li", { role: "none", class: "node-note wrong" }, error.message));
      }
      this.#mark();
    };
    node.close = () => {
      children?.remove();
      children = null;
      if (opens) node.setAttribute("aria-expanded", "false");
    };
    node.toggle = () => (node.getAttribute("aria-expanded") === "true" ? node.close() : node.open());
    row.addEventListener("click", (event) => {
      this.#focus(row);
      const onChevron = /** @type {Element} */ (event.target).closest(".icon") === row.firstChild;
      if (object && !onChevron) {
        this.#choose(object);
        node.open();
      } else node.toggle();
    });
    return node;
  }

  /**
   * @param {any} name
   * @param {any} attributes
   * @param {any} level
   */
  #objectNode(name, attributes, level) {
    const children = this.#model.children(name);
    const content = [h("span", { class: "node-name", title: shortName(name) }, middle(shortName(name), NAMED))];
    if (attributes.client) content.push(h("small", { class: "muted" }, attributes.client));
    if (attributes.state && !["NORMAL", "RUNNING"].includes(attributes.state))
      content.push(stateElement(attributes.state));
    return this.#node(level, {
      object: name,
      opens: children.length > 0,
      content,
      load: async () => children.map((/** @type {any} */ { type, where }) => this.#folder(type, where, level + 1)),
    });
  }

  /**
   * @param {any} type
   * @param {any} where
   * @param {any} level
   */
  #folder(type, where, level) {
    const total = h("small", { class: "muted" });
    const fresh = type.creatable
      ? h(
          "button",
          {
            type: "button",
            class: "quiet node-new",
            ...unlessAllowed(type.name, "create", type.name === "VirtualHost" ? null : undefined),
            title: `New ${type.name}`,
          },
          "New",
        )
      : null;
    fresh?.addEventListener("click", (event) => {
      event.stopPropagation();
      this.#create(type, where);
    });
    return this.#node(level, {
      folder: type.name,
      content: [h("span", { class: "node-name folder" }, pluralOf(type.name)), total, ...(fresh ? [fresh] : [])],
      load: (/** @type {any} */ list) => this.#load(type, where, level + 1, 0, list, total),
    });
  }

  /**
   * @param {any} type
   * @param {any} where
   * @param {any} level
   * @param {any} offset
   * @param {any} list
   * @param {any} total
   */
  async #load(type, where, level, offset, list, total) {
    const page = await get(this.#path() + query({ type: type.name, offset, count: COUNT, ...where }));
    total.textContent = count(page.total);
    const nodes = page.items.map((/** @type {any} */ item) => this.#objectNode(item.name, item.attributes, level));
    const left = page.total - offset - page.items.length;
    if (!page.total) nodes.push(h("li", { role: "none", class: "node-note muted" }, "none"));
    if (left > 0) {
      const more = h(
        "li",
        { role: "none", class: "node-note" },
        h(
          "button",
          {
            type: "button",
            class: "quiet",
            on: {
              click: async () => {
                more.remove();
                list.append(...(await this.#load(type, where, level, offset + COUNT, list, total)));
              },
            },
          },
          `Show more (${count(left)})`,
        ),
      );
      nodes.push(more);
    }
    for (const node of nodes) node.style.setProperty("--level", level);
    return nodes;
  }

  /**
   * List objects of all types whose name contains the text.
   *
   * @param {string} text
   * @param {any} into
   * @param {AbortSignal} signal
   */
  async search(text, into, signal) {
    const groups = await Promise.all(
      [...this.#model.types.values()]
        .filter((type) => type.keys.length)
        .map(async (type) => ({
          type,
          page: await get(this.#path() + query({ type: type.name, search: text, count: 20 }), signal),
        })),
    );
    const found = groups.filter(({ page }) => page.total > 0);
    fill(
      into,
      found.length
        ? found.map(({ type, page }) =>
            h(
              "section",
              {},
              h("h3", {}, `${pluralOf(type.name)} `, h("small", { class: "muted" }, count(page.total))),
              h(
                "ul",
                { class: "plain-list found" },
                page.items.map((/** @type {any} */ item) =>
                  h(
                    "li",
                    {},
                    h(
                      "button",
                      {
                        type: "button",
                        class: "quiet wide",
                        title: item.name,
                        on: { click: () => this.#choose(item.name) },
                      },
                      shortName(item.name),
                      " ",
                      h("small", { class: "muted" }, item.attributes.client ?? item.attributes.virtualhost ?? ""),
                    ),
                  ),
                ),
              ),
              page.total > page.items.length
                ? h(
                    "p",
                    { class: "muted small" },
                    `${plural(page.total - page.items.length, "more", "more")}: refine the search`,
                  )
                : null,
            ),
          )
        : h("div", { class: "empty" }, h("p", {}, `Nothing has “${text}” in its name.`)),
    );
  }

  /** @param {any} row */
  #focus(row) {
    this.#root.querySelector('.node-row[tabindex="0"]')?.setAttribute("tabindex", "-1");
    row.tabIndex = 0;
    row.focus();
  }

  /** @param {any} event */
  #key(event) {
    const row = event.target.closest(".node-row");
    if (!row || event.target !== row) return;
    const rows = [...this.#root.querySelectorAll(".node-row")];
    const node = row.parentElement;
    const at = rows.indexOf(row);
    const open = node.getAttribute("aria-expanded") === "true";
    /** @type {Record<string, any>} */
    const moves = {
      ArrowDown: () => rows[at + 1] && this.#focus(rows[at + 1]),
      ArrowUp: () => rows[at - 1] && this.#focus(rows[at - 1]),
      Home: () => this.#focus(rows[0]),
      End: () => this.#focus(rows.at(-1)),
      ArrowRight: () => (open ? rows[at + 1] && this.#focus(rows[at + 1]) : node.open()),
      ArrowLeft: () =>
        open
          ? node.close()
          : node.parentElement.closest(".node") && this.#focus(node.parentElement.closest(".node").firstChild),
      Enter: () => row.click(),
      " ": () => row.click(),
    };
    if (moves[event.key]) {
      event.preventDefault();
      moves[event.key]();
    }
  }
}
