// A bulk edit before it begins: the queues that are meant, the fields, what it would do; and the edits so far.

import { get, post } from "../core/api.js";
import { UNKNOWN, whenBack } from "../core/away.js";
import { watch } from "../core/connection.js";
import { byId, fill, find, h } from "../core/elements.js";
import { clock, count, exact, plural } from "../core/format.js";
import { settings } from "../core/settings.js";
import { field } from "../widgets/fields.js";
import { inRows, labelOf, settingChips } from "../widgets/policy_fields.js";
import { showPreview } from "../widgets/policy_preview.js";

const TYPING = 300; // ms, the least; a preview that took long is not asked for with every key
const apply = byId("apply");
const all = byId("all");
const problem = byId("problem");
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Kept in the audit trail, with each queue." },
);
const fields = inRows(settings.policy).map((declared) => {
  const f = field(declared, {
    inherits: true,
    label: labelOf(declared),
    placeholder: "inherited",
    hint: declared.description,
    changed: soon,
  });
  const tick = h("input", {
    type: "checkbox",
    name: `set-${declared.name}`,
    on: {
      change() {
        show();
        soon();
      },
    },
  });
  const show = () => {
    f.element.hidden = !tick.checked;
    if (tick.checked) f.input.focus();
  };
  find("label", f.element).classList.add("sr");
  f.element.hidden = true;
  return {
    f,
    tick,
    element: h(
      "div",
      { class: "bulk-field" },
      h("label", { class: "sure" }, tick, h("span", {}, labelOf(declared))),
      f.element,
    ),
  };
});
const picked = new Set(); // object names, while not all that match are meant
/** @type {any} */
let shown = null; // the queues on the page; null: not known
let total = 0;
/** @type {any} */
let previewed = null; // the edit that is shown, as JSON
/** @type {any} */
let asked = null;
let pause = 0;
let took = 0; // ms, the last preview

const filter = () => ({
  search: byId("search").value.trim(),
  pattern: byId("pattern").value.trim(),
  states: byId("state").value ? [byId("state").value] : [],
});
const selection = () => (all.checked ? filter() : { objects: [...picked].sort() });
const chosen = () => (all.checked ? total : picked.size);

/** {field: value} of the ticked ones; throws for what cannot be read. */
const attributes = () =>
  Object.fromEntries(fields.filter(({ tick }) => tick.checked).map(({ f }) => [f.declared.name, f.read()]));

function edit() {
  return { selection: selection(), attributes: attributes() };
}

/** @param {...any} content */
function tell(...content) {
  problem.hidden = content.length === 0;
  fill(problem, ...content);
}

// -- which queues ----------------------------------------------------------------------------------------------------

/** @type {any} */
let finding = null; // the question for the queues that is on its way: only the newest answer counts

async function findQueues() {
  finding?.abort();
  const mine = new AbortController();
  finding = mine;
  try {
    const told = await post("policies/bulk/preview/", { selection: filter() }, mine.signal);
    if (finding !== mine) return;
    byId("filter-wrong").hidden = true;
    total = told.count;
    shown = told.queues;
    list();
  } catch (error) {
    if (finding !== mine || error.name === "AbortError") return;
    byId("filter-wrong").hidden = false;
    fill(byId("filter-wrong"), error.message);
    total = 0;
    shown = null;
    list();
  }
}

function list() {
  byId("count").textContent = all.checked ? (shown ? count(total) : "") : `${count(picked.size)} picked`;
  byId("rest").hidden = !shown || total <= shown.length;
  if (!shown) {
    fill(byId("queues"), h("tr", {}, h("td", { colspan: "2", class: "muted" }, "Not known.")));
    return;
  }
  fill(
    byId("queues"),
    shown.length
      ? shown.map((/** @type {any} */ queue) => {
          const tick = h("input", { type: "checkbox", disabled: all.checked, "aria-label": `Choose ${queue.name}` });
          tick.checked = all.checked || picked.has(queue.object);
          tick.addEventListener("change", () => {
            picked[tick.checked ? "add" : "delete"](queue.object);
            byId("count").textContent = `${count(picked.size)} picked`;
            soon();
          });
          return h(
            "tr",
            {},
            h(
              "th",
              { scope: "row" },
              h(
                "label",
                { class: "sure" },
                tick,
                h("span", {}, queue.name, h("small", { class: "muted vh" }, queue.virtualhost)),
              ),
            ),
            h("td", { class: "wrap" }, settingChips(queue.set)),
          );
        })
      : h("tr", {}, h("td", { colspan: "2", class: "muted" }, "No queue matches.")),
  );
  byId("rest").textContent = `and ${plural(total - shown.length, "more queue")}: narrow the filter to see them`;
}

// -- what it would do -----------------------------------------------------------------------------------------------

function soon() {
  let same = false;
  try {
    same = JSON.stringify(edit()) === previewed;
  } catch {
    // what cannot be read is not what was shown
  }
  if (same) return;
  clearTimeout(pause);
  asked?.abort();
  apply.disabled = true;
  pause = setTimeout(preview, Math.min(2000, Math.max(TYPING, took)));
}

async function preview() {
  const box = byId("preview");
  tell();
  previewed = null;
  const ticked = fields.filter(({ tick }) => tick.checked);
  if (!ticked.map(({ f }) => f.check()).every(Boolean)) return;
  if (!ticked.length || !chosen()) {
    fill(
      box,
      h(
        "p",
        { class: "muted" },
        ticked.length
          ? "No queue is chosen."
          : "Tick a field: what it would do is shown here before anything is changed.",
      ),
    );
    return;
  }
  const wanted = edit();
  asked = new AbortController();
  try {
    const began = performance.now();
    const told = await post("policies/bulk/preview/", wanted, asked.signal);
    took = performance.now() - began;
    const effects = h("div", { class: "stack" });
    if (told.preview) showPreview(effects, told.preview);
    fill(box, effects);
    previewed = JSON.stringify(wanted);
  } catch (error) {
    if (error.name === "AbortError") return;
    for (const { f } of ticked) f.wrong(error.fields?.[f.declared.name] ?? "");
    fill(
      box,
      h("p", { class: "muted" }, error.status === 503 ? UNKNOWN : "Nothing to show: the edit would be refused."),
    );
    tell(h("p", {}, error.message));
  }
  apply.disabled = previewed === null;
}

byId("bulk").addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (apply.disabled || JSON.stringify(edit()) !== previewed) return;
  apply.disabled = true;
  try {
    /** @type {any} */
    const job = await post("policies/bulk/", { ...JSON.parse(previewed), reason: reason.input.value.trim() });
    location.assign(`/policies/bulk/${job.id}/${location.search}`);
  } catch (error) {
    apply.disabled = false;
    tell(h("p", {}, error.message));
  }
});

// -- the edits so far -----------------------------------------------------------------------------------------------

/** @param {any} job */
export const jobState = (job) => (job.stalled ? "stalled: resume it" : job.state);

async function jobs() {
  try {
    const told = await get("policies/bulk/");
    byId("jobs-empty").hidden = told.count > 0;
    fill(
      byId("jobs"),
      told.results.map((/** @type {any} */ job) =>
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h(
              "a",
              { href: `/policies/bulk/${job.id}/${location.search}` },
              job.undo_of ? `Undo of ${job.undo_of}` : `Edit ${job.id}`,
            ),
            h("small", { class: "muted vh" }, clock(Date.parse(job.created))),
          ),
          h(
            "td",
            { class: "wrap" },
            plural(job.total, "queue"),
            " ",
            job.undo_of
              ? ""
              : settingChips(
                  Object.fromEntries(
                    Object.entries(job.attributes).map(([name, value]) => [name, value ?? "inherited"]),
                  ),
                ),
          ),
          h("td", {}, job.user_name, job.reason ? h("small", { class: "muted vh" }, job.reason) : null),
          h(
            "td",
            {},
            jobState(job),
            job.counts.failed ? h("small", { class: "wrong vh" }, `${exact(job.counts.failed)} failed`) : null,
          ),
        ),
      ),
    );
  } catch (error) {
    byId("jobs-empty").hidden = false;
    fill(byId("jobs-empty"), h("p", { class: "wrong" }, error.message));
  }
}

// -- begin ----------------------------------------------------------------------------------------------------------

fill(byId("reason"), reason.element);
fill(
  byId("fields"),
  fields.map(({ element }) => element),
);
let typing = 0;
for (const id of ["search", "pattern", "state"]) {
  byId(id).addEventListener("input", () => {
    if (all.checked) {
      apply.disabled = true; // what was counted and previewed is not what is typed now
      byId("count").textContent = "…";
    }
    clearTimeout(typing);
    typing = setTimeout(async () => {
      await findQueues();
      soon();
    }, TYPING);
  });
}
all.addEventListener("change", () => {
  list();
  soon();
});
whenBack(async () => {
  await findQueues();
  soon(); // what could not be previewed while the broker was away
});
watch({ watch: "objects", object: "" });
findQueues();
jobs();
