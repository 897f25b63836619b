// The schedules page: next runs and run history.

import { get, post, query } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, h, icon } from "../core/elements.js";
import { plural } from "../core/format.js";
import { isolated, shortName } from "../core/object_names.js";
import { may, unless } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { clockElement, untilElement } from "../core/times.js";
import { ACTIONS, inZone, whatInWords, whenInWords } from "../widgets/schedule_words.js";

/** @param {string} text */
const ms = (text) => (text ? Date.parse(text) : null);
/**
 * @param {string} text
 * @param {any} click
 */
const button = (text, click) =>
  h(
    "button",
    { type: "button", class: "quiet row-act", ...(may("edit") ? unless("edit") : unless("operate")), on: { click } },
    text,
  );
/** @type {Record<string, any>} */
const STATES = {
  beginning: ["info", "due"],
  open: ["running", "active"],
  ending: ["info", "revert due"],
  done: ["normal", "done"],
  failed: ["overfull", "failed"],
  missed: ["overfull", "missed"],
};
let shown = 30;

/** @param {any[]} schedules */
function showSchedules(schedules) {
  byId("schedules-empty").hidden = schedules.length > 0;
  byId("schedules-box").hidden = !schedules.length;
  /** @param {any} each */
  const order = (each) => (each.upcoming.length ? Date.parse(each.upcoming[0]) : Infinity);
  fill(
    byId("schedules"),
    schedules
      .sort((/** @type {any} */ a, /** @type {any} */ b) => order(a) - order(b))
      .map((/** @type {any} */ each) => {
        const next = each.upcoming[0];
        return h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            h("a", { href: `/schedules/${each.id}/` }, each.name),
            h(
              "small",
              { class: "muted vh" },
              `owner: ${each.user_name}${each.token ? `, API token ${each.token}` : ""}`,
            ),
          ),
          h(
            "td",
            { class: "wrap" },
            whatInWords(each),
            each.reason ? h("small", { class: "muted vh" }, each.reason) : null,
          ),
          h("td", { class: "wrap" }, whenInWords(each), h("small", { class: "muted vh" }, each.zone)),
          h(
            "td",
            {},
            each.open_run ? h("span", { class: "tag first" }, "active") : null,
            each.paused
              ? h("span", { class: "tag first" }, "paused")
              : next
                ? [
                    h("span", { title: inZone(next, each.zone) }, "in ", untilElement(ms(next))),
                    h("small", { class: "muted vh" }, inZone(next, each.zone)),
                  ]
                : h("span", { class: "muted" }, "no more runs"),
            each.cannot_run ? h("div", { class: "wrong" }, icon("overfull"), `cannot run: ${each.cannot_run}`) : null,
          ),
          h(
            "td",
            { class: "acts" },
            button(each.paused ? "Resume" : "Pause", () =>
              change(
                () => post(`schedules/${each.id}/${each.paused ? "go-on" : "pause"}/`, {}),
                `${each.name} is ${each.paused ? "resumed" : "paused"}.`,
              ),
            ),
            each.open_run
              ? button("End now", () =>
                  change(() => post(`schedules/runs/${each.open_run}/end/`, {}), `Ended the run of ${each.name}.`),
                )
              : null,
          ),
        );
      }),
  );
}

/** @param {any} page */
function showRuns(page) {
  byId("runs-empty").hidden = page.count > 0;
  byId("runs-box").hidden = !page.count;
  byId("pager").hidden = page.count <= shown || shown >= 200;
  fill(
    byId("runs"),
    page.results.map((/** @type {any} */ run) => {
      const [sign, word] = STATES[run.state];
      return h(
        "tr",
        {},
        h(
          "td",
          {},
          clockElement(ms(run.due)),
          run.ends ? h("small", { class: "muted vh" }, "to ", clockElement(ms(run.ends))) : null,
        ),
        h("td", {}, h("span", { class: `phase run-${run.state}` }, icon(sign), word)),
        h(
          "td",
          { class: "wrap" },
          run.schedule ? h("a", { href: `/schedules/${run.schedule}/` }, run.schedule_name) : run.schedule_name,
          h(
            "small",
            { class: "muted vh" },
            `${ACTIONS[run.action]}: ${isolated(shortName(run.target))}` +
              `${run.pattern ? ` ${isolated(run.pattern)}` : ""}, owner ${run.user_name}`,
          ),
        ),
        h(
          "td",
          { class: "wrap" },
          run.begin_said || "…",
          run.end_said ? h("div", {}, h("span", { class: "muted" }, "At end: "), run.end_said) : null,
          run.tries > 1 && !run.finished
            ? h("small", { class: "muted vh" }, `${plural(run.tries, "attempt")} so far`)
            : null,
          run.state === "failed" && run.ends && run.end_said
            ? button("Revert now", () => change(() => post(`schedules/runs/${run.id}/end/`, {}), "Revert attempted."))
            : null,
        ),
      );
    }),
  );
}

const { refresh, change } = poll(
  () => Promise.all([get("schedules/"), get(`schedules/runs/${query({ page_size: shown })}`)]),
  ([schedules, runs], drawChanged) => {
    drawChanged("schedules", schedules, showSchedules);
    drawChanged("runs", runs, showRuns);
  },
);

byId("older").addEventListener("click", () => {
  shown = Math.min(200, shown * 2);
  refresh();
});
watch({ watch: "objects", object: "" });
refresh();
