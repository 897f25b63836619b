// The form of an alert rule: conditions, scope, notification and receivers.

import { get, patch, post, remove } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, findAll, h } from "../core/elements.js";
import { settings } from "../core/settings.js";
import { previewSentences } from "../widgets/alert_preview.js";
import { openFormDialog, plainField, showWrong } from "../widgets/form_dialog.js";
import { completeHosts, hostField } from "../widgets/host_choice.js";

const path = settings.rule ? `alerts/rules/${settings.rule}/` : "alerts/rules/";
const TIMES = [
  [0, "at once"],
  [30, "30 s"],
  [60, "1 minute"],
  [120, "2 minutes"],
  [300, "5 minutes"],
  [900, "15 minutes"],
  [1800, "30 minutes"],
  [3600, "1 hour"],
  [14400, "4 hours"],
  [43200, "12 hours"],
  [86400, "1 day"],
  [259200, "3 days"],
  [604800, "7 days"],
];
/** The threshold that a condition has, by kind. */
const THRESHOLDS = { "depth-above": "depth", "depth-above-percent": "depth_percent", "oldest-message": "message_age" };
const NUMBERS = ["holds", "quiet", "depth", "depth_percent", "message_age"];
const PREVIEW_AFTER = 300; // ms after the last change of the form
let version = 0;

/**
 * Return the choices of a duration; an unusual current value is one of them.
 *
 * @param {any} value
 * @param {any} none
 */
const times = (value, none) => {
  const list = TIMES.map(([seconds, text]) => [seconds, seconds ? text : none]);
  return list.some(([seconds]) => seconds === value)
    ? list
    : [...list, [value, `${value} s`]].sort((a, b) => a[0] - b[0]);
};

const given = new URLSearchParams(location.search);
/** What a new rule about one queue has. */
const OF_QUEUE = { kinds: ["producers-blocked", "depth-above-percent", "consumers-lost"], holds: 300 };

/**
 * Return the values of a new rule: of a template (`?template=`), or about one queue (`?broker=`, `?virtualhost=`,
 * `?pattern=`).
 */
async function newRule() {
  const usual = {
    name: "",
    kinds: ["blocked-without-consumer", "underfull-yet-blocked", "near-limit", "broker-unreachable"],
    holds: 60,
    quiet: 900,
    depth: 10000,
    depth_percent: 80,
    message_age: 900,
    send_resolved: true,
    receivers: [],
    broker: "",
    virtualhost: "",
    pattern: "",
  };
  if (given.get("template")) {
    const templates = await get("alerts/templates/");
    return { ...usual, ...templates.find((/** @type {any} */ each) => each.id === given.get("template"))?.rule };
  }
  if (!given.get("pattern")) return usual;
  const scope = { broker: given.get("broker") ?? "", virtualhost: given.get("virtualhost") ?? "" };
  return { ...usual, ...OF_QUEUE, ...scope, pattern: given.get("pattern"), name: `Queue ${given.get("pattern")}` };
}

/**
 * @param {any} name
 * @param {any[]} items
 * @param {any} chosen
 */
function checks(name, items, chosen) {
  return items.map((/** @type {any} */ { value, label, note }) =>
    h(
      "label",
      { class: "sure check" },
      h("input", { type: "checkbox", name, value, checked: chosen.includes(value) }),
      h("span", {}, label, note ? h("small", { class: "muted" }, ` ${note}`) : null),
    ),
  );
}

/** @param {any} name */
const ticked = (name) => findAll(`[name=${name}]:checked`).map((input) => input.value);

/**
 * Show which objects meet the form's conditions now, after each change.
 *
 * @param {() => Record<string, any>} values
 */
function showPreview(values) {
  const place = byId("preview");
  let timer = 0;
  let newest = 0;
  async function update() {
    newest += 1;
    const mine = newest;
    const { name, send_resolved, receivers, ...conditions } = values();
    if (!conditions.kinds.length) return fill(place, "Select at least one condition or event.");
    try {
      const preview = await post("alerts/rules/preview/", conditions);
      if (mine === newest) fill(place, previewSentences(preview, conditions.holds));
    } catch (error) {
      if (mine === newest) fill(place, h("span", { class: "wrong" }, /** @type {Error} */ (error).message));
    }
    return undefined;
  }
  byId("rule").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(update, PREVIEW_AFTER);
  });
  update();
}

async function show() {
  const [kinds, receivers, rule] = await Promise.all([
    get("alerts/kinds/"),
    get("alerts/receivers/"),
    settings.rule ? get(path) : newRule(),
  ]);
  version = rule.version;
  const fields = [
    plainField("name", "Name", { value: rule.name, maxlength: 100, placeholder: "Orders are stuck" }),
    plainField("broker", "Broker", {
      value: rule.broker,
      choices: [["", "every broker"], ...settings.brokers.map((/** @type {any} */ each) => [each.slug, each.title])],
    }),
    hostField({ hosts: settings.hosts, helps: true, value: rule.virtualhost, broker: rule.broker }),
    plainField("pattern", "Queues", {
      helps: true,
      value: rule.pattern,
      placeholder: "orders.>",
      hint: "A pattern. Empty: all queues, and also stores and memory.",
    }),
    plainField("holds", "For at least (pending period)", {
      helps: true,
      value: rule.holds,
      choices: times(rule.holds, "none"),
      hint: "How long a condition must be true. Events are sent at once.",
    }),
    plainField("quiet", "Repeat interval", {
      helps: true,
      hint: "Minimum time between notifications about the same object.",
      value: rule.quiet,
      choices: times(rule.quiet, "none"),
    }),
    plainField("send_resolved", "Send resolved notification", {
      value: rule.send_resolved,
      choices: [
        ["true", "yes"],
        ["false", "no"],
      ],
    }),
    plainField("message_age", "Oldest message above", {
      value: rule.message_age,
      choices: times(rule.message_age, "").filter(([seconds]) => seconds > 0),
      hint: "Brokers that do not report the age of messages never meet it.",
    }),
    plainField("depth", "Depth above, messages", {
      helps: true,
      value: rule.depth,
      type: "number",
      min: 0,
      step: 1,
      hint: "0: any message.",
    }),
    plainField("depth_percent", "Depth above, % of the capacity", {
      helps: true,
      value: rule.depth_percent,
      type: "number",
      min: 1,
      max: 1000,
      step: 1,
      hint: "In messages or in bytes. Queues without a capacity never meet it.",
    }),
  ];
  const [, broker, host] = fields;
  const offerHosts = () => /** @type {any} */ (host).offer(broker.input.value);
  broker.input.addEventListener("change", offerHosts); // before the preview, which reads all fields
  completeHosts(settings.hosts, offerHosts);
  const thresholds = fields.slice(7);
  fill(byId("name"), fields[0].element);
  fill(
    byId("where"),
    fields.slice(1, 4).map((f) => f.element),
  );
  fill(
    byId("how"),
    fields.slice(4, 7).map((f) => f.element),
  );
  fill(
    byId("thresholds"),
    thresholds.map((f) => f.element),
  );
  /** @param {any} each */
  const item = (each) => ({ value: each.kind, label: each.title });
  fill(
    byId("conditions"),
    checks("kind", kinds.filter((/** @type {any} */ each) => !each.event).map(item), rule.kinds),
  );
  fill(byId("events"), checks("kind", kinds.filter((/** @type {any} */ each) => each.event).map(item), rule.kinds));
  byId("events-box").open = kinds.some((/** @type {any} */ each) => each.event && rule.kinds.includes(each.kind));
  const showThresholds = () => {
    const needed = ticked("kind").map((kind) => /** @type {Record<string, string>} */ (THRESHOLDS)[kind]);
    for (const field of thresholds) field.element.hidden = !needed.includes(field.name);
    byId("thresholds").hidden = thresholds.every((field) => field.element.hidden);
  };
  byId("conditions").addEventListener("change", showThresholds);
  showThresholds();
  /** @param {any} each */
  const notes = (each) => ({
    value: String(each.id),
    label: each.name,
    note: each.kind === "email" ? each.recipients.join(", ") : each.url,
  });
  fill(
    byId("receivers"),
    receivers.length
      ? checks("receiver", receivers.map(notes), rule.receivers.map(String))
      : h(
          "p",
          { class: "muted" },
          "No receivers yet. Create one on the page ",
          h("a", { href: "/alerts/" }, "Alerts"),
          ".",
        ),
  );
  byId("remove").hidden = !settings.rule;
  byId("save").disabled = false;
  const values = () => {
    /** @type {Record<string, any>} */
    const entered = Object.fromEntries(fields.map((f) => [f.name, f.input.value]));
    for (const name of NUMBERS) entered[name] = Number(entered[name]);
    return {
      ...entered,
      send_resolved: entered.send_resolved === "true",
      kinds: ticked("kind"),
      receivers: ticked("receiver").map(Number),
    };
  };
  showPreview(values);
  byId("rule").addEventListener("submit", async (/** @type {any} */ event) => {
    event.preventDefault();
    const body = values();
    byId("save").disabled = true;
    try {
      await (settings.rule ? patch(path, { ...body, version }) : post(path, body));
      location.assign("/alerts/");
    } catch (error) {
      byId("save").disabled = false;
      showWrong(error, fields, byId("problem"));
    }
  });
  byId("remove").addEventListener("click", () =>
    openFormDialog({
      title: `Remove ${rule.name}`,
      says: "Its notifications remain in the delivery log.",
      fields: [],
      action: "Remove",
      danger: true,
      async submit() {
        await remove(path);
        location.assign("/alerts/");
      },
    }),
  );
}

watch({ watch: "objects", object: "" });
show().catch((error) => {
  byId("problem").hidden = false;
  fill(byId("problem"), h("p", {}, error.message));
});
