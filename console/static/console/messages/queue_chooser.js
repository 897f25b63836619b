// A field that chooses one of the existing queues of a virtual host: a search, and the matching queues.

import { get, query } from "../core/api.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { fill, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { stateWord } from "../widgets/states.js";
import { safeLine } from "./safe_text.js";

const SHOWN = 50;

/**
 * Return {element, input, value(), wrong(text)}. `value()`: name of the chosen queue, or "". `changed()` is called when
 * another one is chosen. `except`: name of a queue that is not offered.
 *
 * @param {{virtualhost: string, except: string, label: string, changed: () => void}} options
 */
export function queueChooser({ virtualhost, except, label, changed }) {
  const search = h("input", {
    type: "search",
    id: "target-search",
    placeholder: "Filter by name",
    maxlength: "200",
    spellcheck: "false",
    autocomplete: "off",
    "aria-describedby": "target-note target-wrong",
  });
  const list = h("select", { size: "6", id: "target", "aria-label": `${label}: matching queues` });
  const note = h("small", { class: "hint", id: "target-note", role: "status" }, "Loading…");
  const problem = h("small", { class: "wrong", id: "target-wrong", role: "alert" });
  const element = h(
    "div",
    { class: "field queue-chooser" },
    h("label", { for: "target-search" }, label),
    search,
    list,
    note,
    problem,
  );
  const request = new DebouncedRequest(150);

  async function load() {
    try {
      const path = `queues/${query({ virtualhost, search: search.value.trim(), sort: "name", page_size: SHOWN })}`;
      const answer = await request.send((signal) => get(path, signal));
      const chosen = list.value;
      const queues = answer.results.filter((/** @type {any} */ queue) => queue.name !== except);
      fill(
        list,
        queues.map((/** @type {any} */ queue) => {
          const odd = queue.state && queue.state !== "NORMAL" ? ` – ${stateWord(queue.state)}` : "";
          return h("option", { value: queue.name }, `${safeLine(queue.name, 120)}${odd}`);
        }),
      );
      list.value = chosen;
      const more = answer.count - answer.results.length;
      note.textContent = !queues.length
        ? "No other queue of this virtual host matches."
        : more > 0
          ? `${plural(more, "more queue")}: filter by name.`
          : "";
      if (list.value !== chosen) changed(); // the chosen one is not in the list any more
    } catch (error) {
      if (error.name !== "AbortError") note.textContent = error.message;
    }
  }

  search.addEventListener("input", () => request.schedule(load));
  search.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") {
      event.preventDefault();
      list.focus();
      if (list.selectedIndex < 0 && list.options.length) {
        list.selectedIndex = 0;
        changed();
      }
    } else if (event.key === "Enter") event.preventDefault();
  });
  list.addEventListener("change", changed);
  load();
  return {
    element,
    input: search,
    value: () => list.value,
    wrong(/** @type {string} */ text) {
      problem.textContent = text;
    },
  };
}
