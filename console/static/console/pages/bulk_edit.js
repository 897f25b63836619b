// The form of a bulk edit: queues, fields and impact preview; and the list of recent bulk edits.

import { get, post } from "../core/api.js";
import { UNKNOWN, whenBack } from "../core/away.js";
import { watch } from "../core/connection.js";
import { byId, fill, find, h } from "../core/elements.js";
import { clock, count, exact, plural } from "../core/format.js";
import { settings } from "../core/settings.js";
import { field } from "../widgets/fields.js";
import { inRows, labelOf, settingChips } from "../widgets/policy_fields.js";
import { showPreview } from "../widgets/policy_preview.js";
import { readFactor } from "../widgets/relative_amount.js";

const TYPING = 300; // ms, minimum delay of a preview; a slow preview is not requested for each key
const apply = byId("apply");
const all = byId("all");
const problem = byId("problem");
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Recorded in the audit trail for each queue." },
);
const fields = inRows(settings.policy).map((declared) => {
  const f = field(declared, {
    inherits: true,
    label: labelOf(declared),
    placeholder: "inherited",
    hint: settings.relativeFields.includes(declared.name)
      ? `${declared.description} Or +50%, x2: of what is effective for each queue.`
      : declared.description,
    changed: soon,
  });
  const check = f.check;
  f.check = () => {
    if (factorOf(f) === null) return check();
    f.wrong(""); // a factor is no value of the field
    return true;
  };
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
const selected = new Set(); // object names, unless all matching queues are selected
/** @type {any} */
let shown = null; // the queues on the page; null: unknown
let total = 0;
/** @type {any} */
let previewed = null; // the previewed edit, as JSON
let digest = ""; // of the queues and values that were previewed
let changes = 0; // queues that the previewed edit changes
/** @type {any} */
let request = null; // aborts the preview under way
let pause = 0;
let took = 0; // ms, duration of the last preview

const filter = () => ({
  search: byId("search").value.trim(),
  pattern: byId("pattern").value.trim(),
  states: byId("state").value ? [byId("state").value] : [],
});
const selection = () => (all.checked ? filter() : { objects: [...selected].sort() });
const chosen = () => (all.checked ? total : selected.size);

/**
 * The factor that is entered in a field; null: a value, or nothing.
 *
 * @param {any} f
 */
const factorOf = (f) => (settings.relativeFields.includes(f.declared.name) ? readFactor(f.input.value) : null);

/** What the selected fields set, or multiply. Throws Error if a value cannot be parsed. */
function edit() {
  const chosenFields = fields.filter(({ tick }) => tick.checked).map(({ f }) => f);
  const [relative, absolute] = [
    chosenFields.filter((f) => factorOf(f) !== null),
    chosenFields.filter((f) => factorOf(f) === null),
  ];
  return {
    selection: selection(),
    attributes: Object.fromEntries(absolute.map((f) => [f.declared.name, f.read()])),
    factors: Object.fromEntries(relative.map((f) => [f.declared.name, factorOf(f)])),
  };
}

/** The number of queues on the button: what one click changes. */
function showButton() {
  const number = previewed === null ? chosen() : changes;
  apply.textContent = number ? `Apply to ${plural(number, "queue")}` : "Apply";
}

/** @param {...any} content */
function showProblem(...content) {
  problem.hidden = content.length === 0;
  fill(problem, ...content);
}

// -- queues ----------------------------------------------------------------------------------------------------------

/** @type {any} */
let finding = null; // the pending request for queues: older responses are dropped

async function findQueues() {
  finding?.abort();
  const mine = new AbortController();
  finding = mine;
  try {
    const found = await post("policies/bulk/preview/", { selection: filter() }, mine.signal);
    if (finding !== mine) return;
    byId("filter-wrong").hidden = true;
    total = found.count;
    shown = found.queues;
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

const selectedInWords = () => (selected.size ? `${count(selected.size)} selected` : "None selected");

function list() {
  showButton();
  byId("count").textContent = all.checked ? (shown ? count(total) : "") : selectedInWords();
  byId("rest").hidden = !shown || total <= shown.length;
  if (!shown) {
    fill(byId("queues"), h("tr", {}, h("td", { colspan: "2", class: "muted" }, "Not known.")));
    return;
  }
  fill(
    byId("queues"),
    shown.length
      ? shown.map((/** @type {any} */ queue) => {
          const tick = h("input", { type: "checkbox", disabled: all.checked, "aria-label": `Select ${queue.name}` });
          tick.checked = all.checked || selected.has(queue.object);
          tick.addEventListener("change", () => {
            selected[tick.checked ? "add" : "delete"](queue.object);
            byId("count").textContent = selectedInWords();
            showButton();
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
      : h("tr", {}, h("td", { colspan: "2", class: "muted" }, "No matching queues.")),
  );
  byId("rest").textContent = `${plural(total - shown.length, "more queue")}: narrow the filter to list them`;
}

// -- impact preview -------------------------------------------------------------------------------------------------

function soon() {
  let same = false;
  try {
    same = JSON.stringify(edit()) === previewed;
  } catch {
    // an invalid value differs from what was previewed
  }
  if (same) return;
  previewed = null;
  clearTimeout(pause);
  request?.abort();
  apply.disabled = true;
  showButton();
  pause = setTimeout(() => preview(), Math.min(2000, Math.max(TYPING, took)));
}

/** @param {string} [notice] why it is previewed again */
async function preview(notice) {
  const box = byId("preview");
  showProblem(...(notice ? [h("p", {}, notice)] : []));
  previewed = null;
  const chosenFields = fields.filter(({ tick }) => tick.checked);
  if (!chosenFields.map(({ f }) => f.check()).every(Boolean)) return;
  if (!chosenFields.length || !chosen()) {
    fill(
      box,
      h(
        "p",
        { class: "muted" },
        chosenFields.length ? "No queues selected." : "Select a field to preview the impact of the edit.",
      ),
    );
    return;
  }
  const wanted = edit();
  request = new AbortController();
  try {
    const began = performance.now();
    const result = await post("policies/bulk/preview/", wanted, request.signal);
    took = performance.now() - began;
    const effects = h("div", { class: "stack" });
    if (result.preview) showPreview(effects, result.preview);
    if (result.without)
      effects.append(
        h("p", { class: "muted" }, `${plural(result.without, "queue stays", "queues stay")} without a limit.`),
      );
    fill(box, effects);
    previewed = JSON.stringify(wanted);
    digest = result.digest;
    changes = result.count - result.without;
    if (all.checked && result.count !== total) {
      total = result.count; // the list is older than the preview
      findQueues();
    }
    showButton();
  } catch (error) {
    if (error.name === "AbortError") return;
    for (const { f } of chosenFields) f.wrong(error.fields?.[f.declared.name] ?? "");
    fill(box, h("p", { class: "muted" }, error.status === 503 ? UNKNOWN : "No preview: the edit is not valid."));
    showProblem(h("p", {}, error.message));
  }
  apply.disabled = previewed === null || !changes;
}

byId("bulk").addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (apply.disabled || JSON.stringify(edit()) !== previewed) return;
  apply.disabled = true;
  try {
    /** @type {any} */
    const job = await post("policies/bulk/", { ...JSON.parse(previewed), digest, reason: reason.input.value.trim() });
    location.assign(`/policies/bulk/${job.id}/${location.search}`);
  } catch (error) {
    if (error.status === 409) {
      await preview(error.message); // other queues are selected by now, or they would get other values
      return;
    }
    apply.disabled = false;
    showProblem(h("p", {}, error.message));
  }
});

// -- recent bulk edits ----------------------------------------------------------------------------------------------

/** @param {any} job */
export const jobState = (job) => (job.stalled ? "stalled: resume it" : job.state);

async function jobs() {
  try {
    const page = await get("policies/bulk/");
    byId("jobs-empty").hidden = page.count > 0;
    fill(
      byId("jobs"),
      page.results.map((/** @type {any} */ job) =>
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

// -- start ----------------------------------------------------------------------------------------------------------

fill(byId("reason"), reason.element);
fill(
  byId("fields"),
  fields.map(({ element }) => element),
);
let typing = 0;
for (const id of ["search", "pattern", "state"]) {
  byId(id).addEventListener("input", () => {
    if (all.checked) {
      apply.disabled = true; // count and preview are outdated
      byId("count").textContent = "…";
    }
    clearTimeout(typing);
    typing = setTimeout(async () => {
      await findQueues();
      soon();
    }, TYPING);
  });
}
/** Fill the form from the address: `queue=` selects queues, `clear=` lets fields inherit again. */
function fillFromAddress() {
  const given = new URLSearchParams(location.search);
  for (const object of given.getAll("queue")) selected.add(object);
  const cleared = given.getAll("clear");
  for (const { f, tick } of fields) {
    if (!cleared.includes(f.declared.name)) continue;
    tick.checked = true;
    f.element.hidden = false;
  }
}

all.addEventListener("change", () => {
  list();
  soon();
});
whenBack(async () => {
  await findQueues();
  soon(); // previews what failed while the broker was disconnected
});
watch({ watch: "objects", object: "" });
fillFromAddress();
findQueues().then(soon);
jobs();
