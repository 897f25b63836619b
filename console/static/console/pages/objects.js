// The object browser: the tree on the left; attributes, operations and events of the selected object on the right.
// Everything is built from the types that the server declares.

import { live, watch } from "../core/connection.js";
import { byId, fill, h, onNextFrame } from "../core/elements.js";
import { formatName, parseName, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { creation } from "../widgets/creation.js";
import { pastAndPresent } from "../widgets/event_feed.js";
import { Model } from "./managed_model.js";
import { ObjectPanel } from "./object_panel.js";
import { Tree } from "./object_tree.js";

const panel = byId("object");
const search = byId("search");
const found = byId("found");
const treeList = byId("tree");

/** @type {any} */
let model = null;
/** @type {any} */
let tree = null;
/** @type {any} */
let shown = null; // the ObjectPanel on the page

// -- the page ---------------------------------------------------------------------------------------------------

let loadedAt = Infinity; // number of the newest event when the tree was loaded
/** @type {any[]} */
const recent = []; // the newest events, for objects that are selected later

/**
 * @param {any} name
 * @param {any} tab
 */
function remember(name, tab) {
  const given = new URLSearchParams(location.search);
  given.set("object", name);
  if (tab === "attributes") given.delete("tab");
  else given.set("tab", tab);
  const url = `?${given}`;
  if (url === location.search) return;
  if (new URLSearchParams(location.search).get("object") === name || !location.search)
    history.replaceState(null, "", url);
  else history.pushState(null, "", url);
}

/**
 * @param {any} name
 * @param {string} [tab]
 */
function choose(name, tab = "attributes") {
  const parsed = parseName(name);
  if (parsed) name = formatName(parsed.type, parsed.keys); // the broker's form: quotes only where needed
  /** @type {any} */
  const type = parsed && model.types.get(parsed.type);
  if (!type) {
    fill(
      panel,
      h("div", { class: "empty" }, h("p", {}, h("strong", {}, "No such object.")), h("p", { class: "muted" }, name)),
    );
    return;
  }
  shown = new ObjectPanel(panel, name, type, tab, {
    recent,
    opened: remember,
    parent: model.path(name).at(-2),
  });
  document.title = `${shortName(name)} · Headgate`;
  watch({ watch: "objects", object: name });
  tree.show(name);
  if (matchMedia("(max-width: 760px)").matches && document.activeElement?.closest(".tree-card")) panel.scrollIntoView();
}

/** @type {any} */
let latest = null;
/** @type {any} */
const render = onNextFrame(() => {
  /** @type {any} */
  const object = latest?.data?.object ?? null;
  if (latest && shown && (!object || object.name === shown.name)) shown.arrived(object);
});
live.addEventListener("snapshot", (event) => {
  if (!event.detail.connected && !event.detail.data.object) {
    shown?.unknown(); // not the same as deleted
    return;
  }
  latest = event.detail;
  render();
});
pastAndPresent(live, (/** @type {any} */ events, /** @type {any} */ reset) => {
  if (loadedAt === Infinity) loadedAt = events.at(-1)?.number ?? 0;
  if (reset) recent.length = 0;
  recent.push(...events);
  recent.splice(0, Math.max(0, recent.length - 1500));
  shown?.notified?.(events, reset);
  // Objects with events of creation and deletion are added to and removed from the tree.
  const moved = events.filter(
    (/** @type {any} */ e) => (e.kind.endsWith("-created") || e.kind.endsWith("-deleted")) && e.number > loadedAt,
  );
  for (const name of new Map(moved.map((/** @type {any} */ e) => [parseName(e.object)?.type, e.object])).values())
    tree?.refresh(name);
});

let pause = 0;
/** @type {any} */
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

let starting = false;

async function start() {
  if (starting) return;
  starting = true;
  try {
    model = await Model.load(settings.broker);
  } catch (error) {
    starting = false;
    fill(
      treeList,
      h(
        "li",
        { class: "node-note" },
        h("p", { class: "wrong" }, error.message),
        h("button", { type: "button", on: { click: start } }, "Try again"),
      ),
    );
    watch({ watch: "objects", object: "" });
    return;
  }
  tree = new Tree(treeList, model, settings.broker, choose, (/** @type {any} */ type, /** @type {any} */ where) => {
    shown = null;
    fill(
      panel,
      creation(type, where, async (/** @type {any} */ name) => {
        await tree.refresh(name);
        choose(name);
      }),
    );
    panel.querySelector("input, select")?.focus();
  });
  const given = new URLSearchParams(location.search);
  const root = `type=${model.roots()[0]?.name ?? "Broker"}`;
  choose(given.get("object") ?? root, given.get("tab") ?? "attributes");
  if (!given.get("object")) treeList.querySelector(".node")?.open();
}

start();
// If the broker was disconnected when the page was opened: start when it connects.
live.addEventListener("broker", (event) => event.detail.connected && start());
