// The conditions page: active conditions, live, in pages, filtered by object, kind and severity.

import { atThatTime, drawing, UNKNOWN } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, h, setText } from "../core/elements.js";
import { count } from "../core/format.js";
import { settings } from "../core/settings.js";
import { Conditions } from "../widgets/conditions.js";
import { Pager, storedSize } from "../widgets/pager.js";

const NAMES = ["search", "kind", "severity"];
const list = new Conditions(byId("conditions"));
const empty = byId("conditions-empty");
const given = new URLSearchParams(location.search);
const pager = new Pager(byId("conditions-pager"), { what: "condition", size: storedSize(), turn: watchPage });
/** @type {any} */
let snapshot = null;

for (const name of NAMES) byId(name).value = given.get(name) ?? "";

function watchPage(page = 1) {
  const filter = Object.fromEntries(NAMES.map((name) => [name, byId(name).value.trim()]));
  const address = new URLSearchParams(
    Object.entries({ broker: given.get("broker") ?? "", ...filter, page: page > 1 ? String(page) : "" }).filter(
      ([, value]) => value,
    ),
  );
  history.replaceState(null, "", address.size ? `?${address}` : location.pathname);
  watch({ watch: "conditions", ...filter, page, page_size: pager.size });
}

/** @type {any} */
const render = drawing(() => {
  if (!snapshot) return;
  const { results, count: total, page, kinds } = snapshot.data;
  list.show(results);
  const unknown = !snapshot.connected && snapshot.as_of === null;
  setText(byId("conditions-count"), unknown ? "" : count(total));
  for (const option of byId("kind").options) {
    if (option.value)
      setText(
        option,
        unknown ? settings.kinds[option.value] : `${settings.kinds[option.value]} (${count(kinds[option.value] ?? 0)})`,
      );
  }
  pager.show(page, total);
  empty.hidden = total > 0;
  if (total) return;
  if (unknown)
    fill(empty, h("p", {}, h("strong", {}, UNKNOWN)), h("p", {}, "Conditions are listed when it reconnects."));
  else if (NAMES.some((name) => byId(name).value))
    fill(
      empty,
      h("p", {}, h("strong", {}, `No matching conditions${atThatTime()}.`)),
      h("p", {}, h("button", { type: "button", on: { click: clear } }, "Show all conditions")),
    );
  else
    fill(
      empty,
      h("p", {}, h("strong", {}, `No active conditions${atThatTime()}.`)),
      h("p", {}, atThatTime() ? "New conditions appear when it reconnects." : "New conditions appear within a second."),
    );
});

function clear() {
  for (const name of NAMES) byId(name).value = "";
  watchPage();
}

let pause = 0;
byId("filters").addEventListener("submit", (/** @type {any} */ event) => event.preventDefault());
byId("search").addEventListener("input", () => {
  clearTimeout(pause);
  pause = setTimeout(watchPage, 150);
});
for (const name of ["kind", "severity"]) byId(name).addEventListener("change", () => watchPage());
live.addEventListener("snapshot", (event) => {
  snapshot = event.detail;
  render();
});
watchPage(Math.max(1, Number.parseInt(given.get("page") ?? "1", 10) || 1));
