// A field for a scope: chosen from a list of what exists, with a search, never typed.

import { get, query } from "../core/api.js";
import { live } from "../core/connection.js";
import { fill, h, setAttribute, setText } from "../core/elements.js";
import { plural } from "../core/format.js";
import { isolated, parseName, scopeInWords } from "../core/object_names.js";

const TYPING = 250; // ms
const LISTED = 50; // queues

/**
 * A field as `plainField` makes it; `input` is the list, whose value is an object name. `scopes`: object names of the
 * broker and its virtual hosts; queues are searched for at `broker`. `value`: the chosen one, which stays in the list.
 *
 * @param {string} name
 * @param {string} label
 * @param {{value: string, scopes: string[], broker: string, hint?: string}} options
 */
export function scopeChooser(name, label, { value, scopes, broker, hint = "" }) {
  const id = `p-${name}-list`;
  const search = h("input", {
    type: "search",
    placeholder: "Search queues and virtual hosts",
    maxlength: "200",
    autocomplete: "off",
    spellcheck: "false",
    "aria-label": `Search the list of ${label.toLowerCase()}s`,
    "aria-controls": id,
  });
  const list = h("select", {
    id,
    name,
    size: "7",
    required: true,
    class: "scope-list",
    "aria-describedby": `${id}-wrong ${id}-hint`,
  });
  const problem = h("small", { class: "wrong", id: `${id}-wrong`, role: "alert" });
  const note = h("small", { class: "hint", role: "status" });
  let newest = 0;
  let pause = 0;
  let returns = 0; // of the broker, after its connection was lost
  let known = true;

  /** @param {string} scope */
  const option = (scope) =>
    h("option", { value: scope, selected: scope === list.value, title: inWords(scope) }, inWords(scope));

  /**
   * @param {any[]} queues
   * @param {number} total
   */
  function show(queues, total) {
    const chosen = list.value || value;
    const needle = search.value.trim().toLowerCase();
    const wide = scopes.filter((scope) => !needle || inWords(scope).toLowerCase().includes(needle));
    const names = [...wide, ...queues.map((queue) => queue.object)];
    if (chosen && !names.includes(chosen)) names.unshift(chosen);
    fill(list, names.map(option));
    list.value = chosen;
    const more = total - queues.length;
    setText(note, more > 0 ? `${plural(more, "more queue")}: search to list them` : "");
  }

  async function load() {
    newest += 1;
    const mine = newest;
    const before = returns;
    try {
      const given = { broker, search: search.value.trim(), sort: "name", page_size: LISTED };
      const found = await get(`queues/${query(given)}`);
      if (mine !== newest) return;
      known = true;
      show(found.results, found.count);
    } catch (error) {
      if (mine !== newest) return;
      if (before !== returns) return void load(); // it has returned since the request began
      known = false;
      show([], 0);
      setText(note, `The queues are not known: ${error.message}`);
    }
  }

  search.addEventListener("input", (event) => {
    event.stopPropagation(); // it changes nothing of the form
    clearTimeout(pause);
    pause = setTimeout(load, TYPING);
  });
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") event.preventDefault(); // it would submit the form
    if (event.key === "ArrowDown") list.focus();
  });
  live.addEventListener("broker", (/** @type {any} */ event) => {
    if (!event.detail.connected) return;
    returns += 1;
    if (!known) load();
  });
  show([], 0);
  load();
  return {
    name,
    element: h(
      "div",
      { class: "field" },
      h("label", { for: id }, label),
      search,
      list,
      note,
      h("small", { class: "hint", id: `${id}-hint` }, hint),
      problem,
    ),
    input: list,
    wrong(/** @type {string} */ text) {
      setText(problem, text);
      setAttribute(list, "aria-invalid", text ? "true" : null);
    },
  };
}

/** @param {string} scope */
function inWords(scope) {
  const name = parseName(scope);
  if (name?.type === "Broker") return "All queues of the broker";
  if (name?.type === "VirtualHost") return `All queues of virtual host ${isolated(name.keys.name)}`;
  if (name?.type === "Queue") return `${isolated(name.keys.name)} (${isolated(name.keys.virtualhost)})`;
  return scopeInWords(scope);
}
