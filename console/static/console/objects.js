// The object browser: the tree on the left, and the chosen object's attributes, operations and notifications on the
// right; all of it made from what the server declares.

import { ApiError, get, objectPath, patch, post } from "./api.js";
import { fill, h, icon, onNextFrame } from "./elements.js";
import { Feed, pastAndPresent } from "./events.js";
import { field, fieldGrid } from "./fields.js";
import { words } from "./format.js";
import { live, settings, toast, watch } from "./frame.js";
import { Model } from "./model.js";
import { objectUrl, parseName, shortName } from "./objectname.js";
import { Tree } from "./tree.js";
import { valueNode } from "./values.js";

const panel = document.getElementById("object");
const search = document.getElementById("search");
const found = document.getElementById("found");
const treeList = document.getElementById("tree");

let model = null;
let tree = null;
let shown = null; // the ObjectPanel on the page

const UNSEEN = new Set(["actor"]); // the server says on whose behalf a call is made

class ObjectPanel {
  #name;
  #type;
  #object = null;
  #rows = new Map();
  #editing = null;
  #tab;
  #bodies = {};
  #tabs = {};

  constructor(name, type, tab) {
    this.#name = name;
    this.#type = type;
    this.#bodies = {
      attributes: h("div", { class: "tab-body", role: "tabpanel" }, h("p", { class: "loading" }, "Asking the broker…")),
      operations: h("div", { class: "tab-body", role: "tabpanel" }, this.#operations()),
      notifications: h("div", { class: "tab-body", role: "tabpanel" }, this.#notifications()),
    };
    const counts = { attributes: type.attributes.length, operations: type.operations.length, notifications: type.notifications.length };
    const bar = h("div", { class: "tabs", role: "tablist" });
    for (const key of Object.keys(this.#bodies)) {
      this.#tabs[key] = h("button", { type: "button", role: "tab", id: `tab-${key}`, on: { click: () => this.open(key) } }, words(key), " ", h("small", { class: "muted" }, String(counts[key])));
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
    const own = objectUrl(name).startsWith("/objects/") ? null : h("a", { class: "button", href: objectUrl(name) }, "Open its page");
    fill(panel, h("header", { class: "card-head object-head" },
      h("div", {}, h("h2", {}, shortName(name)), h("p", { class: "muted object-name" }, name)), own),
      h("p", { class: "card-text muted" }, type.description), bar, ...Object.values(this.#bodies));
    this.open(this.#bodies[tab] ? tab : "attributes");
  }

  get name() {
    return this.#name;
  }

  open(tab) {
    this.#tab = tab;
    for (const [key, body] of Object.entries(this.#bodies)) {
      body.hidden = key !== tab;
      this.#tabs[key].setAttribute("aria-selected", String(key === tab));
      this.#tabs[key].tabIndex = key === tab ? 0 : -1;
    }
    remember(this.#name, tab);
  }

  /** A whole new truth of the object; null: it is gone. */
  arrived(object) {
    if (!object) {
      panel.classList.add("gone");
      if (!this.#object) fill(this.#bodies.attributes, h("div", { class: "empty" }, h("p", {}, h("strong", {}, "It is not there any more."))));
      return;
    }
    panel.classList.remove("gone");
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
    const writable = this.#type.attributes.some((a) => a.writable);
    const edit = h("button", { type: "button", class: "quiet", "aria-disabled": settings.mayOperate ? null : "true", on: { click: () => this.#edit() } }, icon("pencil"), "Edit");
    const body = h("tbody", {}, this.#type.attributes.map((declared) => {
      const cell = h("td", { class: "wrap value", "data-label": "Value" });
      this.#rows.set(declared.name, { cell, text: undefined });
      return h("tr", {}, h("th", { scope: "row" }, h("span", {}, words(declared.name)), declared.writable ? h("span", { class: "tag" }, "writable") : null),
        cell, h("td", { class: "muted small wrap", "data-label": "Meaning" }, declared.description));
    }));
    fill(this.#bodies.attributes, writable ? h("div", { class: "tab-actions" }, edit) : null, h("div", { class: "table-box" }, h("table", { class: "grid attributes-table" },
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Attribute"), h("th", { scope: "col" }, "Value"), h("th", { scope: "col" }, "Meaning"))), body)));
  }

  #edit() {
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
    if (!this.#type.operations.length) return h("div", { class: "empty" }, h("p", {}, "This type has no operations."));
    return this.#type.operations.map((operation) => this.#operation(operation));
  }

  #operation(operation) {
    const fields = operation.arguments.filter((a) => !UNSEEN.has(a.name)).map((a) => field({ ...a, nullable: false }, { hint: a.description }));
    const answer = h("div", { class: "operation-answer", "aria-live": "polite" });
    const acts = operation.effect !== "read";
    const destroys = operation.effect === "destroy";
    const sure = destroys ? h("label", { class: "sure" }, h("input", { type: "checkbox" }), h("span", {}, "I know that this cannot be undone")) : null;
    const button = h("button", { type: "submit", class: destroys ? "danger" : acts ? "primary" : "", "aria-disabled": acts && !settings.mayOperate ? "true" : null }, `Call ${operation.name}`);
    const form = h("form", { class: "operation", novalidate: true },
      h("h3", {}, h("code", {}, operation.name), h("span", { class: `tag effect-${operation.effect}` }, { read: "changes nothing", change: "can be undone", destroy: "cannot be undone" }[operation.effect] ?? operation.effect)),
      h("p", { class: "muted" }, operation.description), fields.map((f) => f.element), sure, h("div", { class: "form-actions start" }, button), answer);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!fields.map((f) => f.check()).every(Boolean)) return;
      if (destroys && !sure.firstChild.checked) {
        fill(answer, h("p", { class: "wrong" }, "Tick the box first: this cannot be undone."));
        sure.firstChild.focus();
        return;
      }
      const values = Object.fromEntries(fields.map((f) => [f.declared.name, f.read()]).filter(([, value]) => value !== undefined && value !== ""));
      button.disabled = true;
      fill(answer, h("p", { class: "loading" }, "Calling…"));
      try {
        const result = await post(`${objectPath(settings.broker, this.#name)}operations/${encodeURIComponent(operation.name)}/`, { arguments: values });
        fill(answer, this.#answer(operation, result.result ?? result.returns ?? result));
        if (sure) sure.firstChild.checked = false;
      } catch (error) {
        if (error instanceof ApiError) for (const f of fields) f.wrong(error.fields[f.declared.name] ?? "");
        fill(answer, h("p", { class: "wrong" }, error.message));
      } finally {
        button.disabled = false;
      }
    });
    return form;
  }

  #answer(operation, result) {
    if (!operation.returns?.length) return h("p", { class: "done" }, icon("running"), " Done.");
    return h("dl", { class: "facts" }, operation.returns.flatMap((declared) => [h("dt", { title: declared.description }, words(declared.name)), h("dd", {}, valueNode(declared, result?.[declared.name]))]));
  }

  // -- notifications

  #notifications() {
    if (!this.#type.notifications.length) return h("div", { class: "empty" }, h("p", {}, "Objects of this type send no notifications."));
    const list = h("ol", { class: "feed", tabindex: "0", "aria-label": "Notifications, newest first" });
    const below = h("input", { type: "checkbox" });
    const keep = (event) => event.object === this.#name || (below.checked && isBelow(event, this.#name));
    const note = h("span", { class: "muted" });
    let feed = new Feed(list, note, { keep });
    this.notified = (events, reset) => feed.add(events, reset);
    below.addEventListener("change", () => {
      feed = new Feed(list, note, { keep });
      feed.add(seen);
    });
    feed.add(seen);
    return [
      h("dl", { class: "facts kinds" }, this.#type.notifications.flatMap((n) => [h("dt", {}, h("code", {}, n.name), " ", h("span", { class: "muted" }, n.code)), h("dd", {}, n.description)])),
      h("div", { class: "tab-actions spread" }, h("label", { class: "sure" }, below, h("span", {}, "Those of objects beneath it too")), note),
      list,
    ];
  }
}

/** Whether the event's object is beneath `name`: everything is beneath a root, and below what its keys name. */
function isBelow(event, name) {
  const above = parseName(name);
  const object = parseName(event.object);
  if (!Object.keys(above.keys).length) return true;
  return object.keys[above.type.toLowerCase()] === Object.values(above.keys).at(-1) || event.attributes?.[above.type.toLowerCase()] === name;
}

class AttributesForm {
  #name;
  #version;
  #start;
  #fields;
  #reason;
  #problem = h("div", { class: "notice error", role: "alert", hidden: true });
  #save = h("button", { type: "submit", class: "primary" }, "Save");
  #done;

  constructor(name, type, object, done) {
    this.#name = name;
    this.#done = done;
    this.#version = object.version;
    this.#start = { ...object.attributes };
    this.#fields = type.attributes.filter((a) => a.writable).map((a) => field(a, { value: object.attributes[a.name], placeholder: a.nullable ? "not set" : "", hint: a.description }));
    this.#reason = field({ name: "reason", kind: "string", unit: "", choices: [] }, { hint: "Kept in the audit trail." });
    this.element = h("form", { class: "attributes-form", novalidate: true, on: { submit: (event) => this.#submit(event) } },
      fieldGrid(this.#fields), this.#reason.element, this.#problem,
      h("div", { class: "form-actions" }, h("button", { type: "button", class: "quiet", on: { click: () => done(null) } }, "Cancel"), this.#save));
  }

  focus() {
    this.#fields[0]?.input.focus();
  }

  arrived() {
    // What is typed stays; a conflict is told when it is saved.
  }

  async #submit(event) {
    event.preventDefault();
    if (!this.#fields.map((f) => f.check()).every(Boolean)) return;
    const changes = Object.fromEntries(this.#fields.map((f) => [f.declared.name, f.read()]).filter(([key, value]) => value !== undefined && JSON.stringify(value) !== JSON.stringify(this.#start[key] ?? null)));
    if (!Object.keys(changes).length) return this.#tell("Nothing is changed yet.");
    this.#save.disabled = true;
    try {
      const saved = await patch(objectPath(settings.broker, this.#name), { version: this.#version, attributes: changes, reason: this.#reason.input.value.trim() });
      toast(`${shortName(this.#name)} is changed.`);
      this.#done(saved);
    } catch (error) {
      this.#save.disabled = false;
      for (const f of this.#fields) f.wrong(error.fields?.[f.declared.name] ?? "");
      if (error.status === 409) await this.#conflict();
      else this.#tell(error.message);
    }
    return undefined;
  }

  async #conflict() {
    try {
      const now = await get(objectPath(settings.broker, this.#name));
      this.#version = now.version;
      const lines = this.#fields.filter((f) => JSON.stringify(now.attributes[f.declared.name]) !== JSON.stringify(this.#start[f.declared.name]))
        .map((f) => h("li", {}, h("strong", {}, words(f.declared.name)), " is now ", valueNode(f.declared, now.attributes[f.declared.name])));
      for (const f of this.#fields) {
        const untouched = JSON.stringify(f.read() ?? null) === JSON.stringify(this.#start[f.declared.name] ?? null);
        const there = now.attributes[f.declared.name];
        if (untouched) f.input.value = there ?? "";
      }
      this.#start = { ...now.attributes };
      this.#tell(h("p", {}, h("strong", {}, "Somebody changed it in the meantime.")), h("ul", {}, lines), h("p", {}, "What you typed is kept. Save again to put it on top of that, or cancel."));
    } catch (error) {
      this.#tell(error.message);
    }
  }

  #tell(...content) {
    this.#problem.hidden = false;
    fill(this.#problem, h("div", {}, ...content));
  }
}

// -- the page ---------------------------------------------------------------------------------------------------

const seen = []; // the newest events, for an object that is chosen later

function remember(name, tab) {
  const given = new URLSearchParams(location.search);
  given.set("object", name);
  if (tab === "attributes") given.delete("tab");
  else given.set("tab", tab);
  const url = `?${given}`;
  if (url === location.search) return;
  if (new URLSearchParams(location.search).get("object") === name || !location.search) history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

function choose(name, tab = "attributes") {
  const parsed = parseName(name);
  const type = parsed && model.types.get(parsed.type);
  if (!type) {
    fill(panel, h("div", { class: "empty" }, h("p", {}, h("strong", {}, "There is no such object.")), h("p", { class: "muted" }, name)));
    return;
  }
  shown = new ObjectPanel(name, type, tab);
  document.title = `${shortName(name)} · Headgate`;
  watch({ watch: "objects", object: name });
  tree.show(name);
  if (matchMedia("(max-width: 760px)").matches && document.activeElement?.closest(".tree-card")) panel.scrollIntoView();
}

let latest = null;
const render = onNextFrame(() => {
  const object = latest?.data?.object ?? null;
  if (latest && shown && (!object || object.name === shown.name)) shown.arrived(object);
});
live.addEventListener("snapshot", (event) => {
  if (!event.detail.connected && !event.detail.data.object) return; // the broker is away, which is not "gone"
  latest = event.detail;
  render();
});
pastAndPresent(live, (events, reset) => {
  if (reset) seen.length = 0;
  seen.push(...events);
  seen.splice(0, Math.max(0, seen.length - 1500));
  shown?.notified?.(events, reset);
});

let pause = 0;
let searching = null;
search.addEventListener("input", () => {
  clearTimeout(pause);
  searching?.abort();
  const text = search.value.trim();
  found.hidden = !text;
  treeList.hidden = Boolean(text);
  if (!text) return;
  pause = setTimeout(async () => {
    searching = new AbortController();
    try {
      await tree?.search(text, found, searching.signal);
    } catch (error) {
      if (error.name !== "AbortError") fill(found, h("p", { class: "wrong" }, error.message));
    }
  }, 200);
});

addEventListener("popstate", () => {
  const given = new URLSearchParams(location.search);
  if (given.get("object")) choose(given.get("object"), given.get("tab") ?? "attributes");
});

async function start() {
  try {
    model = await Model.load(settings.broker);
  } catch (error) {
    fill(treeList, h("li", { class: "node-note" }, h("p", { class: "wrong" }, error.message), h("button", { type: "button", on: { click: start } }, "Try again")));
    watch({ watch: "objects", object: "" });
    return;
  }
  tree = new Tree(treeList, model, settings.broker, choose);
  const given = new URLSearchParams(location.search);
  const root = `type=${model.roots()[0]?.name ?? "Broker"}`;
  choose(given.get("object") ?? root, given.get("tab") ?? "attributes");
  if (!given.get("object")) treeList.querySelector(".node")?.open();
}

start();
