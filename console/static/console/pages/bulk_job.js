// One bulk edit: how far it is, what came of each queue; interrupt, resume, undo.

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
const AGAIN = 700; // ms between looks at a job that runs
const path = `policies/bulk/${settings.job}/`;
let wanted = null; // state of the rows on the page; null until somebody or something chose one
let pause = 0;

const WORDS = { done: "changed", unchanged: "were so already", failed: "failed", waiting: "to do" };

/** @param {any} job */
function show(job) {
  const { counts } = job;
  const open = counts.waiting + counts.changing;
  const running = job.state === "running" && !job.stalled;
  byId("bar").max = job.total;
  byId("bar").value = job.total - open;
  byId("state").textContent = job.stalled
    ? "Whoever ran it has gone: resume it"
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
          "Each queue gets what it had before ",
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
  byId("resume").textContent = job.state === "done" ? "Try failed ones again" : "Resume";
  byId("undo").hidden = running || !counts.done;
  return running;
}

/** @param {any} job */
async function rows(job) {
  wanted ??= job.counts.failed || job.state === "running" ? "failed" : "done";
  for (const button of findAll(".segmented [data-state]"))
    button.setAttribute("aria-pressed", String(button.dataset.state === wanted));
  const told = await get(`${path}rows/${query({ state: wanted, page_size: SHOWN })}`);
  byId("rows-empty").hidden = told.count > 0;
  byId("rows-rest").hidden = told.count <= SHOWN;
  byId("rows-rest").textContent = `and ${plural(told.count - SHOWN, "more queue")}`;
  fill(
    byId("rows"),
    told.results.map((/** @type {any} */ row) => {
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

async function look() {
  clearTimeout(pause);
  try {
    const job = await get(path);
    if (show(job)) pause = setTimeout(look, AGAIN);
    await rows(job);
  } catch (error) {
    byId("problem").hidden = false;
    fill(byId("problem"), h("p", {}, error.message));
    pause = setTimeout(look, AGAIN * 5);
  }
}

/** @param {any} action */
async function steer(action) {
  try {
    await post(`${path}${action}/`, {});
  } catch (error) {
    toast(error.message, "error");
  }
  look();
}

byId("interrupt").addEventListener("click", () => steer("interrupt"));
byId("resume").addEventListener("click", () => steer("resume"));
byId("undo").addEventListener("click", () =>
  openChangeDialog({
    title: "Undo this bulk edit",
    action: "Undo",
    danger: true,
    ask: () => get(`${path}undo/`),
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
  look();
});
for (const element of findAll("time[data-local]")) {
  element.textContent = clock(Date.parse(element.dateTime));
  element.title = moment(Date.parse(element.dateTime));
}
watch({ watch: "objects", object: "" });
look();
