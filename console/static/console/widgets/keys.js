// The registry of keyboard shortcuts, which `?` lists. None acts while the focus is in a text field.

import { byId, findAll, h } from "../core/elements.js";

const ROWS = "main table tbody tr, main #entries > li, main #conditions > li";

/**
 * The shortcuts: `section` of the list, `keys` (the first is shown; "g o" is a sequence), `says` (its description),
 * `act`, and `when` it is available.
 *
 * @type {any[]}
 */
const REGISTRY = [];
const SECTIONS = ["Anywhere", "Go to", "In a list", "On this page"];
let begun = ""; // the first key of a sequence
let forget = 0;

/**
 * Register a shortcut: {section, keys: ["j", "ArrowDown"], says: "the next row", when: () => bool, act: () => void}.
 *
 * @param {any} key
 */
export function register(key) {
  REGISTRY.push({ section: "On this page", when: () => true, ...key });
}

/** @param {HTMLElement} element */
const visible = (element) => element && element.getClientRects().length > 0;
/** @param {any} selector */
const first = (selector) => findAll(selector).find(visible);

/**
 * Register a shortcut that clicks a button or link, if the page has it.
 *
 * @param {any} section
 * @param {any} keys
 * @param {any} says
 * @param {any} selector
 */
function presses(section, keys, says, selector) {
  register({ section, keys, says, when: () => Boolean(first(selector)), act: () => first(selector).click() });
}

// -- rows -------------------------------------------------------------------------------------------------------

const rows = () => findAll(ROWS).filter((row) => visible(row) && row.querySelector("a[href], button"));

/**
 * The element of a row that takes the focus: the link of its name, else its first control.
 *
 * @param {any} row
 */
const handle = (row) =>
  row.querySelector("th a[href]") ?? row.querySelector("a[href], button:not([disabled]), summary");

/** @param {any} step */
function move(step) {
  const all = rows();
  const at = all.findIndex((row) => row.contains(document.activeElement));
  const next = at === -1 ? (step > 0 ? 0 : all.length - 1) : Math.min(all.length - 1, Math.max(0, at + step));
  const target = handle(all[next]);
  target?.focus();
  target?.scrollIntoView({ block: "nearest" });
}

const inRow = () => rows().find((row) => row.contains(document.activeElement));

register({
  section: "In a list",
  keys: ["j", "ArrowDown"],
  says: "Next row",
  when: () => rows().length > 0,
  act: () => move(1),
});
register({
  section: "In a list",
  keys: ["k", "ArrowUp"],
  says: "Previous row",
  when: () => rows().length > 0,
  act: () => move(-1),
});
register({
  section: "In a list",
  keys: ["x"],
  says: "Select row",
  when: () => Boolean(first("input.pick")),
  act: () => inRow()?.querySelector("input.pick")?.click(),
});
register({
  section: "In a list",
  keys: ["s"],
  says: "Stop or start the producers of the row",
  when: () => Boolean(first(".row-act")),
  act: () => inRow()?.querySelector(".row-act")?.click(),
});
presses("In a list", ["["], "Previous page", '[data-key="["]:not(:disabled)');
presses("In a list", ["]"], "Next page", '[data-key="]"]:not(:disabled)');

// -- anywhere -----------------------------------------------------------------------------------------------------

register({
  section: "Anywhere",
  keys: ["/"],
  says: "Search",
  when: () => visible(byId("search")),
  act() {
    const search = byId("search");
    search.focus();
    search.select();
  },
});
register({ section: "Anywhere", keys: ["?"], says: "This list, and help", act: showKeys });
presses("Anywhere", ["t"], "Theme: system, light, dark", "#theme");
presses("On this page", ["S"], "Stop all producers", "#stop-all");
presses("On this page", ["A"], "Start all producers", "#start-all");
for (const [key, name] of [
  ["o", "Overview"],
  ["p", "Policies"],
  ["s", "Schedules"],
  ["l", "Alerts"],
  ["d", "Dead letters"],
  ["t", "Timeline"],
  ["h", "History"],
  ["b", "Objects"],
  ["a", "Audit"],
  ["i", "API"],
]) {
  const link = () => findAll(".nav a").find((a) => a.textContent.trim() === name);
  register({
    section: "Go to",
    keys: [`g ${key}`],
    says: name,
    when: () => Boolean(link()),
    act: () => link().click(),
  });
}

// -- listening, and the list ----------------------------------------------------------------------------------------

addEventListener("keydown", (event) => {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  // The focus is in a text field, or in an element that handles arrow keys itself.
  if (
    /** @type {any} */ (event.target).closest?.(
      'input:not([type="checkbox"]), textarea, select, dialog, [contenteditable], [role="tree"], [role="tablist"]',
    )
  )
    return;
  // Arrow keys scroll the page unless the focus is in a row.
  if (event.key.startsWith("Arrow") && !inRow()) return;
  const typed = begun ? `${begun} ${event.key}` : event.key;
  clearTimeout(forget);
  begun = "";
  /** @type {any} */
  const key = REGISTRY.find(({ keys, when }) => keys.includes(typed) && when());
  if (key) {
    event.preventDefault();
    key.act();
  } else if (REGISTRY.some(({ keys }) => keys.some((/** @type {any} */ each) => each.startsWith(`${typed} `)))) {
    begun = typed;
    forget = setTimeout(() => (begun = ""), 1500);
  }
});

/** @type {Record<string, string>} */
const SHOWN = { ArrowDown: "↓", ArrowUp: "↑" };
/** @param {any} keys */
const shown = (keys) =>
  keys.flatMap((/** @type {any} */ key, /** @type {any} */ at) => [
    at ? " or " : "",
    ...key
      .split(" ")
      .flatMap((/** @type {any} */ one, /** @type {any} */ n) => [n ? " then " : "", h("kbd", {}, SHOWN[one] ?? one)]),
  ]);

/** Open the dialog that lists the shortcuts of this page. */
export function showKeys() {
  if (byId("keys-dialog")) return;
  const close = h("button", { type: "submit", class: "primary" }, "Close");
  /** @type {any} */
  const dialog = h(
    "dialog",
    { class: "dialog", id: "keys-dialog", "aria-labelledby": "keys-title" },
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "keys-title" }, "Keyboard shortcuts"),
      SECTIONS.map((section) => ({ section, keys: REGISTRY.filter((key) => key.section === section && key.when()) }))
        .filter(({ keys }) => keys.length)
        .map(({ section, keys }) =>
          h(
            "section",
            {},
            h("h3", {}, section),
            h(
              "dl",
              { class: "keys" },
              keys.flatMap((/** @type {any} */ key) => [h("dt", {}, shown(key.keys)), h("dd", {}, key.says)]),
            ),
          ),
        ),
      h(
        "section",
        { class: "keys-help" },
        h("h3", {}, "Help"),
        h(
          "p",
          {},
          h("a", { href: "/help/" }, "Documentation"),
          h("a", { href: "/help/terms/" }, "Terms"),
          h("a", { href: "/first-steps/" }, "First steps"),
        ),
      ),
      h("div", { class: "dialog-actions" }, close),
    ),
  );
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  close.focus();
}
