// The switcher of brokers in the header: a list of links to the same page of another broker, with a search among many.
// The template has the links; the states of the connections are read when the list opens.

import { get } from "../core/api.js";
import { byId, find, setText } from "../core/elements.js";
import { connectionWord } from "./broker_states.js";

export function setUpBrokerSwitcher() {
  const menu = byId("broker-choice");
  if (!menu) return;
  const search = byId("broker-search");
  const none = byId("broker-none");
  /** @type {HTMLElement[]} */
  const items = [...menu.querySelectorAll("li[data-broker]")];
  const shown = () => items.filter((item) => !item.hidden);
  /** @param {HTMLElement} item */
  const linkOf = (item) => /** @type {HTMLElement} */ (find("a", item));

  function filter() {
    const needle = (search?.value ?? "").trim().toLowerCase();
    for (const item of items) item.hidden = !(item.textContent ?? "").toLowerCase().includes(needle);
    if (none) none.hidden = shown().length > 0;
  }

  async function readStates() {
    try {
      const { brokers } = await get("fleet/");
      for (const row of brokers) {
        const item = items.find((each) => each.dataset.broker === row.slug);
        if (!item) continue;
        item.dataset.connection = row.state;
        const overfull = row.overfull_queues ? `, ${row.overfull_queues} overfull` : "";
        setText(find("small", item), connectionWord(row.state) + overfull);
      }
    } catch {
      // The states of the page's load stay.
    }
  }

  menu.addEventListener("toggle", () => {
    if (!menu.open) return;
    if (search) search.value = "";
    filter();
    readStates();
    const current = items.find((item) => linkOf(item).hasAttribute("aria-current")) ?? items[0];
    (search ?? linkOf(current)).focus();
    current?.scrollIntoView({ block: "nearest" });
  });
  search?.addEventListener("input", filter);
  menu.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const list = shown().map(linkOf);
    const at = list.indexOf(/** @type {HTMLElement} */ (document.activeElement));
    if (event.key === "ArrowDown") list[Math.min(at + 1, list.length - 1)]?.focus();
    else if (event.key === "ArrowUp" && at > 0) list[at - 1].focus();
    else if (event.key === "ArrowUp" && at === 0) (search ?? list[0]).focus();
    else if (event.key === "Enter" && event.target === search) list[0]?.click();
    else if (event.key === "Escape") {
      menu.open = false;
      find("summary", menu).focus();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  });
  addEventListener("click", (event) => {
    if (menu.open && !menu.contains(event.target)) menu.open = false;
  });
}
