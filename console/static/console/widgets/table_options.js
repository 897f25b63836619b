// The menu of a table of queues: its columns and groups, the height of its rows and the width of the names, in the
// preferences.

import { byId, fill, find, h } from "../core/elements.js";
import { preferences, savePreferences } from "../core/preferences.js";

/** @type {Record<string, string>} */
const COLUMNS = {
  depth: "Depth",
  blocked: "Blocked",
  consumers: "Consumers",
  rate_in: "In /s",
  rate_out: "Out /s",
  unacknowledged: "Unacknowledged",
  duration: "Duration",
};
const CHOICES = [
  { name: "density", label: "Rows", of: { comfortable: "comfortable", compact: "compact" } },
  {
    name: "name_width",
    label: "Names",
    of: { auto: "as wide as there is room", 300: "300 px", 450: "450 px", 600: "600 px" },
  },
];
const GROUPS = [
  { name: "group_by", label: "Group by", of: { none: "none", virtualhost: "virtual host", prefix: "prefix" } },
  { name: "groups", label: "Groups", of: { collapsed: "collapsed", expanded: "expanded" } },
];

/**
 * Set up the menu #table-options of a table, and keep the table as the preferences say. `regroup()`: of a table that
 * can be grouped, called after a change of the groups.
 *
 * @param {HTMLElement} table
 * @param {(() => void) | null} [regroup]
 */
export function setUpTableOptions(table, regroup = null) {
  const menu = byId("table-options");
  const hidden = new Set(preferences.hidden_columns);
  const show = () => {
    table.dataset.density = preferences.density;
    table.dataset.names = preferences.name_width;
    table.dataset.hide = preferences.hidden_columns.join(" ");
    if (regroup) table.dataset.group = preferences.group_by;
  };
  const columns = Object.entries(COLUMNS).map(([name, label]) => {
    const box = h("input", { type: "checkbox", value: name, checked: !hidden.has(name) });
    box.addEventListener("change", () => {
      if (box.checked) hidden.delete(name);
      else hidden.add(name);
      savePreferences({ hidden_columns: [...hidden] });
      show();
    });
    return h("label", { class: "option" }, box, h("span", {}, label));
  });
  const choices = [...(regroup ? GROUPS : []), ...CHOICES].map(({ name, label, of }) => {
    const options = Object.entries(of).map(([value, text]) =>
      h("option", { value, selected: preferences[name] === value }, text),
    );
    const select = h("select", { name }, options);
    select.addEventListener("change", () => {
      savePreferences({ [name]: select.value });
      show();
      if (GROUPS.some((each) => each.name === name)) regroup?.();
    });
    return h("label", { class: "field" }, h("span", {}, label), select);
  });
  fill(
    find(".menu-body", menu),
    h("fieldset", { class: "options" }, h("legend", {}, "Columns"), columns),
    choices,
    h("p", { class: "hint" }, "Saved for you, on this console."),
  );
  addEventListener("click", (event) => {
    if (menu.open && !menu.contains(/** @type {Node} */ (event.target))) menu.open = false;
  });
  menu.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Escape" || !menu.open) return;
    menu.open = false;
    find("summary", menu).focus();
  });
  show();
}
