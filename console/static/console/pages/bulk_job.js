// One bulk edit: its progress and the result for each queue; interrupt, resume, undo.

import { get, post, query } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, find, findAll, h, icon } from "../core/elements.js";
import { clock, exact, moment, plural } from "../core/format.js";
import { parseName, queueUrl } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { fieldText, labelBeside, settingChips } from "../widgets/policy_fields.js";

const SHOWN = 100;
const POLL_EVERY = 700; // ms, while the job runs
const path = `policies/bulk/${settings.job}/`;
/** @type {any} */
let wanted = null; // state of the rows on the page; null until the first load or a click selects one
let pause = 0;

const WORDS = { done: "changed", unchanged: "already had these values", failed: "failed", waiting: "pending" };

/** @param {any} job */
function show(job) {
  const { counts } = job;
  const open = counts.waiting + counts.changing;
  const running = job.state === "running" && !job.stalled;
  byId("bar").max = job.total;
  byId("bar").value = job.total - open;
  byId("state").textContent = job.stalled
    ? "Stalled: its worker has ended. Resume the edit to continue."
    : job.state === "done"
      ? `Done at ${clock(Date.parse(job.finished))}`
      : running
        ? `Running: ${exact(job.total - open)} of ${exact(job.total)}`
        : "Interrupted";
  fill(
    byId("counts"),
    h(
      "ul",
      { class: "effects" },
      Object.entries(WORDS).map(([state, word]) => {
        const n = state === "waiting" ? open : counts[state];
        return n
          ? h(
              "li",
              { class: `effect ${state === "failed" ? "danger" : state === "done" ? "fine" : ""}` },
              icon(state === "failed" ? "overfull" : "normal"),
              h("span", {}, h("strong", {}, plural(n, "queue")), ` ${word}`),
            )
          : null;
      }),
    ),
  );
  fill(
    byId("sets"),
    job.undo_of
      ? h(
          "p",
          { class: "muted" },
          "Restores the values from before ",
          h("a", { href: `/policies/bulk/${job.undo_of}/` }, `bulk edit ${job.undo_of}`),
          ".",
        )
      : settingChips(
          Object.fromEntries(Object.entries(job.attributes).map(([name, value]) => [name, value ?? "inherited"])),
        ),
    job.undone_by.map((/** @type {any} */ number) =>
      h("p", {}, "Undone by ", h("a", { href: `/policies/bulk/${number}/` }, `bulk edit ${number}`), "."),
    ),
  );
  byId("problem").hidden = !job.error;
  fill(byId("problem"), h("p", {}, job.error));
  byId("interrupt").hidden = !running;
  byId("resume").hidden = running || (job.state === "done" && !counts.failed);
  byId("resume").textContent = job.state === "done" ? "Retry failed queues" : "Resume";
  byId("undo").hidden = running || !job.undoable;
  return running;
}

/** @param {any} job */
async function rows(job) {
  const state = wanted ?? (job.counts.failed || job.state === "running" ? "failed" : "done");
  wanted = state;
  for (const button of findAll(".segmented [data-state]"))
    button.setAttribute("aria-pressed", String(button.dataset.state === state));
  const page = await get(`${path}rows/${query({ state, page_size: SHOWN })}`);
  if (state !== wanted) return; // another one has been selected meanwhile
  byId("rows-empty").hidden = page.count > 0;
  byId("rows-rest").hidden = page.count <= SHOWN;
  byId("rows-rest").textContent = `${plural(page.count - SHOWN, "more queue")}`;
  fill(
    byId("rows"),
    page.results.map((/** @type {any} */ row) => {
      const { keys } = /** @type {any} */ (parseName(row.object));
      return h(
        "tr",
        {},
        h(
          "th",
          { scope: "row" },
          h("a", { href: queueUrl(keys.virtualhost, keys.name) }, keys.name),
          h("small", { class: "muted vh" }, keys.virtualhost),
        ),
        h(
          "td",
          { class: "wrap" },
          row.detail
            ? h("p", { class: "wrong" }, row.detail)
            : Object.entries(row.wanted).map(([name, value]) =>
                h(
                  "div",
                  { class: "change" },
                  h("span", { class: "muted" }, labelBeside(name, value, row.before?.[name])),
                  " ",
                  row.before ? [h("del", {}, fieldText(name, row.before[name])), " → "] : null,
                  h("ins", {}, fieldText(name, value)),
                ),
              ),
        ),
      );
    }),
  );
}

async function load() {
  clearTimeout(pause);
  try {
    const job = await get(path);
    if (show(job)) pause = setTimeout(load, POLL_EVERY);
    await rows(job);
  } catch (error) {
    byId("problem").hidden = false;
    fill(byId("problem"), h("p", {}, error.message));
    pause = setTimeout(load, POLL_EVERY * 5);
  }
}

/**
 * Say which queues an undo leaves as they are.
 *
 * @param {any} plan
 */
function leftInWords({ count, changed_since: left }) {
  if (!left) return [];
  const stay = `${plural(left, "queue has", "queues have")} been changed or deleted since the edit, and ${
    left === 1 ? "stays as it is" : "stay as they are"
  }.`;
  return count ? [stay] : [stay, "There is nothing to undo."];
}

/** @param {any} action */
async function control(action) {
  try {
    await post(`${path}${action}/`, {});
  } catch (error) {
    toast(error.message, "error");
  }
  load();
}

byId("interrupt").addEventListener("click", () => control("interrupt"));
byId("resume").addEventListener("click", () => control("resume"));
byId("undo").addEventListener("click", () =>
  openChangeDialog({
    title: "Undo this bulk edit",
    action: "Undo",
    danger: true,
    async load() {
      const plan = await get(`${path}undo/`);
      return { ...plan, notes: leftInWords(plan), nothing: !plan.count };
    },
    async apply(/** @type {any} */ reason) {
      const job = await post(`${path}undo/`, { reason });
      location.assign(`/policies/bulk/${job.id}/${location.search}`);
    },
  }),
);
find(".segmented").addEventListener("click", (/** @type {any} */ event) => {
  const { state } = event.target.closest("[data-state]")?.dataset ?? {};
  if (!state) return;
  wanted = state;
  load();
});
for (const element of findAll("time[data-local]")) {
  element.textContent = clock(Date.parse(element.dateTime));
  element.title = moment(Date.parse(element.dateTime));
}
watch({ watch: "objects", object: "" });
load();
