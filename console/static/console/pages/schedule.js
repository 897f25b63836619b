// The form of a schedule: action, target, times and duration, with a preview of the next runs.

import { get, patch, post, remove } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, find, h } from "../core/elements.js";
import { isolated, parseName, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { zoneId } from "../core/zone.js";
import { field } from "../widgets/fields.js";
import { openFormDialog, plainField, showWrong } from "../widgets/form_dialog.js";
import { inRows, labelOf } from "../widgets/policy_fields.js";
import { inZone, weekdaysOf, whatInWords } from "../widgets/schedule_words.js";
import { scopeChooser } from "../widgets/scope_chooser.js";

const TYPING = 300; // ms
const path = settings.schedule ? `schedules/${settings.schedule}/` : "schedules/";
const LABELS = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const HERE = zoneId();
const EMPTY = {
  name: "",
  action: "stop",
  target: "",
  pattern: "",
  attributes: {},
  reason: "",
  zone: HERE,
  once: "",
  minute: "0",
  hour: "22",
  days: "*",
  months: "*",
  weekdays: "*",
  lasts: 480,
  paused: false,
};
let pause = 0;
let previews = 0; // requested so far

/** @param {any} of */
const simple = (of) =>
  /^\d+$/.test(of.hour) &&
  /^\d+$/.test(of.minute) &&
  of.days === "*" &&
  of.months === "*" &&
  weekdaysOf(of.weekdays) !== null;

/**
 * What a stop of this target does to producers at this broker: {effect, remark}; undefined if it holds them.
 *
 * @param {string} action
 * @param {string} target
 */
const effectOf = (action, target) => (action === "stop" ? settings.effects[parseName(target)?.type ?? ""] : undefined);

async function show() {
  const was = settings.schedule ? await get(path) : EMPTY;
  const mode = was.once ? "once" : simple(was) ? "weekly" : "cron";
  const at = `${was.hour.padStart(2, "0")}:${was.minute.padStart(2, "0")}`;
  const zones = [...new Set(["UTC", HERE, was.zone, ...(Intl.supportedValuesOf?.("timeZone") ?? [])])];
  /** @type {Record<string, any>} */
  const fields = {
    name: plainField("name", "Name", { value: was.name, maxlength: 100, placeholder: "Nightly batch" }),
    action: plainField("action", "Action", {
      value: was.action,
      choices: [
        ["stop", "Stop producers"],
        ["start", "Start producers"],
        ["policy", "Set policy fields"],
      ],
    }),
    target: scopeChooser("target", "Target", {
      value: was.target,
      scopes: settings.scopes,
      broker: settings.broker,
      hint: "What exists now. “Restrict to queues” narrows the broker or a virtual host down to some of its queues.",
    }),
    pattern: plainField("pattern", "Restrict to queues", {
      value: was.pattern,
      placeholder: "orders.>",
      hint: "A pattern, if the target is the broker or a virtual host.",
    }),
    reason: plainField("reason", "Reason", {
      value: was.reason,
      maxlength: 500,
      hint: "Shown to all users during the window.",
    }),
    mode: plainField("mode", "Repeat", {
      value: mode,
      choices: [
        ["weekly", "Weekly"],
        ["once", "Once"],
        ["cron", "Cron expression"],
      ],
    }),
    zone: plainField("zone", "Time zone", { value: was.zone, choices: zones.map((zone) => [zone, zone]) }),
    time: plainField("time", "At", { type: "time", value: mode === "weekly" ? at : "22:00" }),
    once: plainField("once", "On", { type: "datetime-local", value: was.once }),
    cron: plainField("cron", "Minute, hour, days, months, weekdays", {
      value: `${was.minute} ${was.hour} ${was.days} ${was.months} ${was.weekdays}`,
      hint: "E.g. 30 22 * * mon-fri. If days and weekdays are both set, either of them matches, as in cron.",
    }),
    hours: plainField("hours", "Duration, hours", {
      type: "number",
      min: 0,
      max: 744,
      value: Math.floor(was.lasts / 60),
      hint: "Reverts afterwards unless changed meanwhile. 0 = does not revert.",
    }),
    minutes: plainField("minutes", "and minutes", { type: "number", min: 0, max: 59, value: was.lasts % 60 }),
  };
  const chosen = weekdaysOf(was.weekdays) ?? new Set([0, 1, 2, 3, 4, 5, 6]);
  const days = [1, 2, 3, 4, 5, 6, 0].map((day) =>
    h(
      "label",
      { class: "chip" },
      h("input", { type: "checkbox", name: "day", value: day, checked: chosen.has(day) }),
      LABELS[day],
    ),
  );
  const weekdays = h("div", { class: "chips", role: "group", "aria-label": "Days of the week" }, days);
  const offered = settings.policy.filter(
    (/** @type {any} */ { name }) => settings.fields.includes(name) || name in was.attributes,
  );
  const policy = inRows(offered).map((declared) => {
    const set = declared.name in was.attributes;
    const f = field(declared, {
      label: labelOf(declared),
      value: was.attributes[declared.name] ?? null,
      placeholder: "inherited",
      changed: soon,
    });
    const tick = h("input", {
      type: "checkbox",
      name: `set-${declared.name}`,
      checked: set,
      on: {
        change() {
          f.element.hidden = !tick.checked;
          soon();
        },
      },
    });
    f.element.hidden = !set;
    find("label", f.element).classList.add("sr");
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

  function given() {
    /** @param {any} name */
    const value = (name) => fields[name].input.value.trim();
    const [hour, minute] = value("time")
      .split(":")
      .map((/** @type {any} */ part) => String(Number(part)));
    const picked = days
      .map((label) => find("input", label))
      .filter((input) => input.checked)
      .map((input) => input.value);
    const cron = value("cron").split(/\s+/);
    const when = /** @type {Record<string, any>} */ ({
      once: { once: value("once").slice(0, 16) },
      weekly: {
        once: "",
        minute: minute ?? "0",
        hour: hour ?? "0",
        days: "*",
        months: "*",
        weekdays: picked.length === 7 ? "*" : picked.join(",") || "none",
      },
      cron: {
        once: "",
        minute: cron[0] ?? "",
        hour: cron[1] ?? "",
        days: cron[2] ?? "*",
        months: cron[3] ?? "*",
        weekdays: cron[4] ?? "*",
      },
    })[value("mode")];
    const action = value("action");
    return {
      name: value("name"),
      broker: settings.broker,
      action,
      target: value("target"),
      pattern: action === "policy" ? "" : value("pattern"),
      effect: effectOf(action, value("target"))?.effect ?? "",
      reason: value("reason"),
      zone: value("zone"),
      ...when,
      attributes:
        action === "policy"
          ? Object.fromEntries(policy.filter(({ tick }) => tick.checked).map(({ f }) => [f.declared.name, f.read()]))
          : {},
      lasts: action === "start" ? 0 : Number(value("hours")) * 60 + Number(value("minutes")),
    };
  }

  function arrange() {
    const action = fields.action.input.value;
    const how = fields.mode.input.value;
    byId("policy-box").hidden = action !== "policy";
    fields.pattern.element.hidden = action === "policy";
    byId("lasts").hidden = action === "start";
    fields.time.element.hidden = weekdays.hidden = how !== "weekly";
    fields.once.element.hidden = how !== "once";
    fields.cron.element.hidden = how !== "cron";
  }

  async function preview() {
    const number = ++previews;
    try {
      const body = given();
      if (body.once === "" && fields.mode.input.value === "once")
        return void fill(byId("preview"), h("p", { class: "muted" }, "Enter a date and time."));
      const { upcoming } = await post("schedules/preview/", body);
      if (number !== previews) return undefined;
      fill(
        byId("preview"),
        h("p", {}, h("strong", {}, whatInWords(body))),
        body.effect ? h("p", { class: "wrong" }, effectOf(body.action, body.target)?.remark) : null,
        upcoming.length
          ? h(
              "ol",
              { class: "upcoming" },
              upcoming.map((/** @type {any} */ at) =>
                h(
                  "li",
                  {},
                  inZone(at, body.zone),
                  h("small", { class: "muted" }, body.zone === HERE ? "" : ` (${inZone(at, HERE)} local)`),
                ),
              ),
            )
          : h("p", { class: "wrong" }, "No runs: the time has passed, or the date does not exist."),
      );
    } catch (error) {
      if (number === previews) fill(byId("preview"), h("p", { class: "wrong" }, error.message));
    }
    return undefined;
  }

  function soon() {
    arrange();
    clearTimeout(pause);
    pause = setTimeout(preview, TYPING);
  }

  fill(
    byId("what"),
    ["name", "action", "target", "pattern", "reason"].map((name) => fields[name].element),
  );
  fill(
    byId("when"),
    ["mode", "zone", "time", "once", "cron"].map((name) => fields[name].element),
    weekdays,
  );
  fill(byId("lasts"), fields.hours.element, fields.minutes.element);
  fill(
    byId("fields"),
    policy.map((each) => each.element),
  );
  byId("remove").hidden = !settings.schedule;
  byId("save").disabled = false;
  byId("schedule").addEventListener("input", soon);
  byId("schedule").addEventListener("change", soon);
  byId("schedule").addEventListener("submit", async (/** @type {any} */ event) => {
    event.preventDefault();
    const { action, target, pattern, name } = given();
    const other = effectOf(action, target);
    if (other) {
      const all = pattern ? `queues ${pattern}` : "every queue";
      const covered = target === "type=Broker" ? all : isolated(shortName(target));
      openFormDialog({
        title: `Save ${name || "this schedule"}?`,
        says: `${other.remark} Each run does that to the producers of ${covered}.`,
        fields: [],
        action: `Save (${other.effect})`,
        danger: true,
        submit: async () => void save(),
      });
      return;
    }
    if (action !== "policy" && target === "type=Broker" && !pattern) {
      const verb = action === "stop" ? "stops" : "starts";
      openFormDialog({
        title: `Save ${name || "this schedule"} for the whole broker?`,
        says: `Each run ${verb} the producers of every queue of ${settings.brokerTitle}.`,
        fields: [],
        action: "Save",
        danger: action === "stop",
        submit: async () => void save(),
      });
      return;
    }
    await save();
  });
  async function save() {
    byId("save").disabled = true;
    try {
      const body = given();
      await (settings.schedule ? patch(path, { ...body, version: was.version }) : post(path, body));
      location.assign("/schedules/");
    } catch (error) {
      byId("save").disabled = false;
      const named = { ...Object.fromEntries(Object.values(fields).map((f) => [f.name, f])) };
      const when = fields.mode.input.value === "cron" ? "cron" : "time";
      const renamed = { lasts: "hours", minute: when, hour: when };
      for (const [from, to] of Object.entries(renamed)) {
        if (!error.body?.[from]) continue;
        error.body[to] = error.body[from];
        delete error.body[from];
      }
      showWrong(error, Object.values(named), byId("problem"));
    }
  }
  byId("remove").addEventListener("click", () =>
    openFormDialog({
      title: `Remove ${was.name}`,
      says: "Its runs remain in the run history.",
      fields: [],
      action: "Remove",
      danger: true,
      async submit() {
        await remove(path);
        location.assign("/schedules/");
      },
    }),
  );
  soon();
}

watch({ watch: "objects", object: "" });
show().catch((error) => {
  byId("problem").hidden = false;
  fill(byId("problem"), h("p", {}, error.message));
});
