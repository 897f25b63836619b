// The alerts page: active alerts, rules, receivers, silences, allowed networks, the console's URL and the delivery log.

import { get, patch, post, query, remove } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, h, icon, reconcile, setText } from "../core/elements.js";
import { clock, duration, plural } from "../core/format.js";
import { objectUrl } from "../core/object_names.js";
import { unless } from "../core/permissions.js";
import { poll } from "../core/polling.js";
import { brokerTitle, settings } from "../core/settings.js";
import { clockElement, sinceElement, untilElement } from "../core/times.js";
import { toast } from "../core/toast.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";
import { completeHosts, hostField } from "../widgets/host_choice.js";
import { readConsoleUrl, setUpConsoleUrl } from "./alert_console_url.js";
import { setUpNotificationChoice } from "./alert_notifications.js";
import { setUpReceivers } from "./alert_receivers.js";
import { setUpTemplates } from "./alert_templates.js";

const LOG_PAGE = 30; // deliveries loaded at first
/** @param {string} text */
const ms = (text) => (text ? Date.parse(text) : null);
/**
 * @param {string} text
 * @param {any} click
 * @param {any} [more]
 */
const button = (text, click, more = {}) =>
  h("button", { type: "button", class: "quiet row-act", ...unless("operate"), ...more, on: { click } }, text);
const MINUTES = [
  [15, "15 minutes"],
  [60, "an hour"],
  [240, "4 hours"],
  [1440, "a day"],
  [10080, "a week"],
];
/** @type {Record<string, any>} */
const PHASES = {
  firing: ["overfull", "Firing"],
  resolved: ["normal", "Resolved"],
  event: ["info", "Event"],
  test: ["info", "Test"],
};
let titles = new Map();
/** @type {any[]} */
let rules = [];
/** @type {any[]} */
let receivers = [];
let shownLog = LOG_PAGE;
/** @type {() => void} */
let offerHosts = () => {}; // offers the virtual hosts in the form of a silence that is open

/**
 * Titles of alert kinds: "Blocked without consumers; Flapping; 2 more".
 *
 * @param {any[]} kinds
 */
function kindsInWords(kinds) {
  const named = kinds.map((/** @type {any} */ kind) => titles.get(kind) ?? kind);
  return named.length > 3 ? `${named.slice(0, 3).join("; ")}; ${named.length - 3} more` : named.join("; ");
}

/** @param {any} of */
const scopeInWords = (of) =>
  [
    of.broker && `broker ${brokerTitle(of.broker)}`,
    of.virtualhost && `virtual host ${of.virtualhost}`,
    of.pattern && `queues ${of.pattern}`,
  ]
    .filter(Boolean)
    .join(", ") || "everything";

/**
 * Format a round number of seconds: "5 min".
 *
 * @param {any} seconds
 */
const round = (seconds) => duration(seconds * 1000).replace(/ 0 (s|min|h)$/, "");

// -- active alerts --------------------------------------------------------------------------------------------------

/** @param {any[]} alerts */
function showFiring(alerts) {
  const list = byId("firing");
  list.hidden = !alerts.length;
  byId("firing-empty").hidden = alerts.length > 0;
  setText(
    byId("firing-count"),
    alerts.length ? String(alerts.filter((/** @type {any} */ a) => a.state === "firing").length) : "",
  );
  reconcile(
    list,
    alerts,
    (a) => `${a.rule} ${a.broker} ${a.kind} ${a.object}`,
    () => h("li", { class: "condition" }),
    (node, a) => {
      const text = JSON.stringify(a);
      if (node.dataset.shown === text) return;
      node.dataset.shown = text;
      node.dataset.severity = a.state === "firing" ? a.severity : "";
      fill(
        node,
        icon(a.state === "firing" && a.severity === "trouble" ? "overfull" : "info"),
        h(
          "div",
          { class: "condition-body" },
          h(
            "p",
            { class: "condition-head" },
            h("strong", {}, a.title),
            " ",
            h("a", { href: objectUrl(a.object) }, a.name),
            h("span", { class: "muted" }, " for ", sinceElement(ms(a.since))),
            h(
              "span",
              { class: "tag" },
              a.state === "pending"
                ? "pending"
                : a.silenced
                  ? "silenced"
                  : a.notified
                    ? `notified at ${clock(ms(a.notified))}`
                    : "notification due",
            ),
          ),
          h("p", { class: "condition-saw" }, a.saw),
          h(
            "p",
            { class: "muted" },
            `Rule ${a.rule_name}`,
            settings.brokers.length > 1 ? `, broker ${brokerTitle(a.broker)}` : "",
          ),
        ),
        button("Silence…", () => silence({ rule: a.rule }, `Silence the rule ${a.rule_name}`)),
      );
    },
  );
}

// -- rules ------------------------------------------------------------------------------------------------------------

function showRules() {
  byId("rules-empty").hidden = rules.length > 0;
  byId("rules-box").hidden = !rules.length;
  fill(
    byId("rules"),
    rules.map((rule) =>
      h(
        "tr",
        {},
        h(
          "th",
          { scope: "row" },
          h("a", { href: `/alerts/rules/${rule.id}/` }, rule.name),
          rule.enabled ? null : h("span", { class: "tag" }, "disabled"),
          rule.silenced_until
            ? h("small", { class: "muted vh" }, "silenced for another ", untilElement(ms(rule.silenced_until)))
            : null,
        ),
        h(
          "td",
          { class: "wrap" },
          kindsInWords(rule.kinds),
          h(
            "small",
            { class: "muted vh" },
            `Scope: ${scopeInWords(rule)}; ${rule.holds ? `pending for ${round(rule.holds)}` : "no pending period"}; ` +
              `repeat interval ${round(rule.quiet)}`,
          ),
        ),
        h(
          "td",
          { class: "wrap" },
          rule.receiver_names.join(", ") || h("span", { class: "wrong" }, "none: shown on this page only"),
        ),
        h(
          "td",
          { class: "acts" },
          button(rule.enabled ? "Disable" : "Enable", () =>
            change(
              () => patch(`alerts/rules/${rule.id}/`, { version: rule.version, enabled: !rule.enabled }),
              `${rule.name} is ${rule.enabled ? "disabled" : "enabled"}.`,
            ),
          ),
          button("Silence…", () => silence({ rule: rule.id }, `Silence the rule ${rule.name}`)),
        ),
      ),
    ),
  );
}

/**
 * @param {any} what
 * @param {string} title
 * @param {boolean} [scope]
 */
function silence(what, title, scope = false) {
  const hosts = scope ? hostField({ hosts: settings.hosts, broker: what.broker ?? "" }) : null;
  offerHosts = () => hosts?.offer(what.broker ?? "");
  const fields = [
    ...(hosts
      ? [
          hosts,
          plainField("pattern", "Queues", {
            placeholder: "orders.>",
            hint: "A pattern. Empty: all queues of the virtual host.",
          }),
        ]
      : []),
    plainField("minutes", "Duration", { choices: MINUTES, value: 60 }),
    plainField("reason", "Reason", { maxlength: 500, hint: "Shown with the silence and recorded in the audit trail." }),
  ];
  openFormDialog({
    title,
    says: "No notifications are sent during the silence. Alerts that are still active at its end are sent then.",
    fields,
    action: "Silence",
    async submit(/** @type {any} */ values) {
      await post("alerts/silences/", { ...what, ...values, minutes: Number(values.minutes) });
      toast("Silenced.");
      refresh();
    },
  });
}

/** @param {any[]} silences */
function showSilences(silences) {
  byId("silences-empty").hidden = silences.length > 0;
  fill(
    byId("silences"),
    silences.map((/** @type {any} */ each) =>
      h(
        "li",
        { class: "line" },
        h(
          "div",
          {},
          h("strong", {}, each.rule ? `Rule ${each.rule_name}` : scopeInWords(each)),
          " for another ",
          untilElement(ms(each.until)),
          h("small", { class: "muted vh" }, `${each.made_by}${each.reason ? `: ${each.reason}` : ""}`),
        ),
        button("End", () => change(() => remove(`alerts/silences/${each.id}/`), "The silence has ended.")),
      ),
    ),
  );
}

// -- allowed private networks -----------------------------------------------------------------------------------------

/** @param {any[]} networks */
function showNetworks(networks) {
  fill(
    byId("networks"),
    networks.length
      ? networks.map((/** @type {any} */ each) =>
          h(
            "li",
            { class: "line" },
            h(
              "div",
              {},
              h("code", {}, each.network),
              h("small", { class: "muted vh" }, `added by ${each.added_by}, ${clock(ms(each.added))}`),
            ),
            h(
              "button",
              {
                type: "button",
                class: "quiet row-act",
                ...unless("administer", null),
                on: {
                  click: () =>
                    change(
                      () => remove(`alerts/networks/${each.id}/`),
                      `Webhooks can no longer reach ${each.network}.`,
                    ),
                },
              },
              "Remove",
            ),
          ),
        )
      : h("li", { class: "line muted" }, "None: webhooks can reach public addresses only."),
  );
}

// -- delivery log -----------------------------------------------------------------------------------------------------

/** @param {any} delivery */
const outcome = (delivery) => {
  const last = delivery.attempts.at(-1);
  const tries = delivery.tries > 1 ? ` after ${plural(delivery.tries, "attempt")}` : "";
  if (delivery.state === "done") return `delivered${tries}`;
  if (delivery.state === "failed") return `failed${tries}: ${last?.outcome ?? ""}`;
  return last ? [`${last.outcome}; next attempt in `, untilElement(ms(delivery.due))] : "sending";
};

/** @param {any} page */
function showLog(page) {
  byId("log-empty").hidden = page.count > 0;
  byId("log-box").hidden = !page.count;
  byId("pager").hidden = page.count <= shownLog || shownLog >= 200;
  fill(
    byId("log"),
    page.results.map((/** @type {any} */ notification) => {
      const [sign, word] = PHASES[notification.phase];
      const names = notification.items.map((/** @type {any} */ each) => `${each.title}: ${each.name}`);
      return h(
        "tr",
        {},
        h("td", {}, clockElement(ms(notification.at))),
        h("td", {}, h("span", { class: `phase phase-${notification.phase}` }, icon(sign), word)),
        h(
          "td",
          { class: "wrap" },
          notification.phase === "test"
            ? "Test message"
            : h(
                "span",
                { title: names.join("\n") },
                names.slice(0, 2).join("; "),
                notification.count > 2 ? `; ${notification.count - 2} more` : "",
              ),
          notification.rule_name ? h("small", { class: "muted vh" }, `Rule ${notification.rule_name}`) : null,
        ),
        h(
          "td",
          { class: "wrap" },
          notification.deliveries.length
            ? notification.deliveries.map((/** @type {any} */ each) =>
                h(
                  "div",
                  {
                    class: `delivery delivery-${each.state}`,
                    title: each.attempts
                      .map((/** @type {any} */ a) => `${clock(ms(a.at))}: ${a.outcome} (${a.seconds} s)`)
                      .join("\n"),
                  },
                  h("strong", {}, each.receiver_name),
                  " ",
                  outcome(each),
                  each.state === "failed"
                    ? button("Retry", () =>
                        change(() => post(`alerts/deliveries/${each.id}/again/`, {}), "Retry queued."),
                      )
                    : null,
                ),
              )
            : h("span", { class: "muted" }, "no receivers"),
        ),
      );
    }),
  );
}

// -- loading ----------------------------------------------------------------------------------------------------------

const { refresh, change } = poll(
  () =>
    Promise.all([
      titles.size ? null : get("alerts/kinds/"),
      get("alerts/"),
      get("alerts/rules/"),
      get("alerts/receivers/"),
      get("alerts/silences/"),
      get("alerts/networks/"),
      readConsoleUrl(),
      get(`alerts/log/${query({ page_size: shownLog })}`),
    ]),
  ([kinds, firing, found, notified, silences, networks, consoleUrl, log], drawChanged) => {
    if (kinds) titles = new Map(kinds.map((/** @type {any} */ each) => [each.kind, each.title]));
    [rules, receivers] = [found, notified];
    showFiring(firing);
    drawChanged("rules", rules, showRules);
    drawChanged("receivers", receivers, showReceivers);
    drawChanged("templates", [rules, receivers], () => showTemplates(rules));
    drawChanged("silences", silences, showSilences);
    drawChanged("networks", networks, showNetworks);
    drawChanged("console-url", [consoleUrl, receivers.length > 0], () =>
      showConsoleUrl(consoleUrl, receivers.length > 0),
    );
    drawChanged("log", log, showLog);
  },
);

const showReceivers = setUpReceivers({ rules: () => rules, refresh });
const showTemplates = setUpTemplates({ receivers: () => receivers, refresh });
const showConsoleUrl = setUpConsoleUrl({ change, refresh });
setUpNotificationChoice();
byId("new-silence").addEventListener("click", () => silence({}, "Silence a scope", true));
byId("new-network").addEventListener("click", () =>
  openFormDialog({
    title: "Allow a private network",
    says:
      "By default, webhooks can reach public addresses only, so that they cannot call services of the " +
      "internal network.",
    fields: [plainField("network", "Network", { placeholder: "10.20.0.0/16" })],
    action: "Add",
    async submit(/** @type {any} */ values) {
      await post("alerts/networks/", values);
      refresh();
    },
  }),
);
byId("older").addEventListener("click", () => {
  shownLog = Math.min(200, shownLog * 2);
  refresh();
});
for (const [id, what, host] of /** @type {[string, string, (string | null)?][]} */ ([
  ["new-receiver", "operate", null],
  ["new-silence", "operate"],
  ["new-network", "administer", null],
])) {
  for (const [name, value] of Object.entries(unless(what, host)))
    name === "data" ? Object.assign(byId(id).dataset, value) : byId(id).setAttribute(name, value);
}
watch({ watch: "objects", object: "" });
completeHosts(settings.hosts, () => offerHosts());
refresh();
