// The receivers of the alerts page: creation, changes, secrets and test messages.

import { get, patch, post, remove } from "../core/api.js";
import { byId, fill, h, setAttribute } from "../core/elements.js";
import { unless } from "../core/permissions.js";
import { toast } from "../core/toast.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";

const OUTCOME_EVERY = 400; // ms between two looks at the outcome of a test message
const OUTCOME_MOST = 20_000; // ms to wait for it: a receiver has 10 s to respond

/** Title and fields of each kind of receiver. */
/** @type {Record<string, [string, string[]]>} */
const KINDS = {
  slack: ["Slack", ["url"]],
  teams: ["Microsoft Teams", ["url"]],
  pagerduty: ["PagerDuty", ["routing_key", "region"]],
  email: ["E-mail", ["recipients"]],
  webhook: ["Webhook", ["url"]],
};
/** Where the URL comes from, and what is sent to it. */
/** @type {Record<string, string>} */
const URLS = {
  slack: "Of an incoming webhook. It is a secret: it is stored encrypted and not shown again.",
  teams:
    "Of the workflow “Send webhook alerts to a channel” in Teams. It is a secret: it is stored encrypted and not " +
    "shown again.",
  webhook: "Receives a signed POST with JSON. Redirects are not followed.",
};
/** @type {Record<string, string>} */
const PLACEHOLDERS = {
  slack: "https://hooks.slack.com/services/…",
  teams: "https://….logic.azure.com/workflows/…",
  webhook: "https://alerts.example.org/hook",
};

/** @param {string} kind */
const kindTitle = (kind) => KINDS[kind]?.[0] ?? kind;

/** @param {any} secret */
const secretMessage = (secret) =>
  h(
    "div",
    {},
    h("p", {}, "Secret for the signature of its requests. Copy it now: it is not shown again."),
    h("p", {}, h("code", { class: "secret" }, secret)),
    h(
      "p",
      { class: "muted" },
      "The header Headgate-Signature is t=TIME,v1=HMAC. HMAC is the HMAC-SHA-256 with this secret, " +
        "in hexadecimal, of TIME, a dot and the body.",
    ),
  );

/**
 * Send a test message, and return its outcome as a sentence: [whether it was delivered, the sentence].
 *
 * @param {any} receiver
 * @returns {Promise<[boolean, string]>}
 */
async function sendTest(receiver) {
  let delivery = await post(`alerts/receivers/${receiver.id}/test/`, {});
  const end = Date.now() + OUTCOME_MOST;
  while (delivery.state === "waiting" && Date.now() < end) {
    await new Promise((resolve) => setTimeout(resolve, OUTCOME_EVERY));
    delivery = await get(`alerts/deliveries/${delivery.id}/`);
  }
  const said = delivery.attempts.at(-1)?.outcome ?? "";
  if (delivery.state === "done") return [true, `Test message delivered to ${receiver.name}: ${said}.`];
  if (delivery.state === "failed") return [false, `The test message to ${receiver.name} failed: ${said}.`];
  return [false, `The test message to ${receiver.name} has not been sent yet. Check that a worker is running.`];
}

/**
 * Set up the receivers, and return a function that shows them. `rules`: returns the rules; `refresh`: of the page's
 * poll.
 *
 * @param {{rules: () => any[], refresh: () => void}} page
 */
export function setUpReceivers({ rules, refresh }) {
  /** @param {any} [receiver] */
  function edit(receiver = null) {
    const kind = plainField("kind", "Kind", {
      choices: Object.keys(KINDS).map((each) => [each, kindTitle(each)]),
      value: receiver?.kind ?? "slack",
    });
    const stored = receiver && receiver.kind !== "webhook" && receiver.kind !== "email";
    const optional = [
      plainField("url", "URL", {
        value: receiver?.kind === "webhook" ? receiver.url : "",
        placeholder: stored ? "unchanged" : "",
        hint: " ",
      }),
      plainField("routing_key", "Integration key", {
        placeholder: stored ? "unchanged" : "",
        hint:
          "Of an integration “Events API v2” of a PagerDuty service. It is a secret: it is stored encrypted and " +
          "not shown again. The alerts of a rule at a broker are one incident, which is resolved with the last one.",
      }),
      plainField("region", "Region of the account", {
        choices: [
          ["us", "United States"],
          ["eu", "European Union"],
        ],
        value: receiver?.region || "us",
      }),
      plainField("recipients", "Recipients", {
        value: (receiver?.recipients ?? []).join("\n"),
        rows: 3,
        hint: "One address per line.",
      }),
    ];
    const fields = [
      ...(receiver ? [] : [kind]),
      plainField("name", "Name", { value: receiver?.name ?? "", maxlength: 100 }),
      ...optional,
      plainField("enabled", "State", {
        choices: [
          ["true", "enabled"],
          ["false", "disabled: no notifications"],
        ],
        value: receiver?.enabled ?? true,
      }),
      plainField("test", "Test message", {
        choices: [
          ["true", "send one when it is saved"],
          ["false", "do not send one"],
        ],
      }),
    ];
    const show = () => {
      const chosen = kind.input.value;
      for (const field of optional) field.element.hidden = !KINDS[chosen]?.[1].includes(field.name);
      const url = optional[0];
      if (!url) return;
      const hint = url.element.querySelector(".hint");
      if (hint) hint.textContent = URLS[chosen] ?? "";
      if (!stored) setAttribute(url.input, "placeholder", PLACEHOLDERS[chosen] ?? "");
    };
    kind.input.addEventListener("change", show);
    show();
    openFormDialog({
      title: receiver ? `${kindTitle(receiver.kind)} receiver ${receiver.name}` : "New receiver",
      fields,
      action: "Save",
      async submit(/** @type {any} */ values) {
        const chosen = kind.input.value;
        /** @type {Record<string, any>} */
        const given = { name: values.name, enabled: values.enabled === "true" };
        for (const name of KINDS[chosen]?.[1] ?? []) given[name] = values[name];
        if ("recipients" in given) given.recipients = values.recipients.split(/[\s,]+/).filter(Boolean);
        const made = receiver
          ? await patch(`alerts/receivers/${receiver.id}/`, { ...given, version: receiver.version })
          : await post("alerts/receivers/", { ...given, kind: chosen });
        refresh();
        return saved(made, values.test === "true");
      },
    });
  }

  /**
   * What replaces the form after saving: the outcome of the test message or a warning, and the secret of a webhook;
   * null: nothing to say.
   *
   * @param {any} made
   * @param {boolean} test
   */
  function saved(made, test) {
    const secret = made.secret ? secretMessage(made.secret) : null;
    if (made.warning)
      return h(
        "div",
        {},
        h("p", { class: "wrong", role: "alert" }, `Saved, but deliveries would fail: ${made.warning}.`),
        secret,
      );
    if (!test) return secret;
    const outcome = h("p", { role: "status", class: "muted" }, "Saved. Sending a test message…");
    sendTest(made)
      .catch((error) => /** @type {[boolean, string]} */ ([false, `No test message was sent: ${error.message}`]))
      .then(([delivered, sentence]) => {
        outcome.className = delivered ? "" : "wrong";
        fill(outcome, `Saved. ${sentence}`);
        refresh();
      });
    return h("div", {}, outcome, secret);
  }

  /** @param {any} receiver */
  async function test(receiver) {
    toast(`Sending a test message to ${receiver.name}…`);
    try {
      const [delivered, sentence] = await sendTest(receiver);
      toast(sentence, delivered ? "done" : "error");
    } catch (error) {
      toast(/** @type {Error} */ (error).message, "error");
    }
    refresh();
  }

  /** @param {any} receiver */
  function newSecret(receiver) {
    openFormDialog({
      title: `New secret for ${receiver.name}`,
      says: "The current secret becomes invalid at once.",
      fields: [],
      action: "Generate",
      danger: true,
      submit: async () => secretMessage((await post(`alerts/receivers/${receiver.id}/secret/`, {})).secret),
    });
  }

  /** @param {any} receiver */
  function removeReceiver(receiver) {
    const used = rules()
      .filter((rule) => rule.receivers.includes(receiver.id))
      .map((rule) => rule.name);
    openFormDialog({
      title: `Remove ${receiver.name}`,
      says: used.length
        ? `Used by: ${used.join(", ")}. These rules remain, without this receiver.`
        : "No rule uses it.",
      fields: [],
      action: "Remove",
      danger: true,
      async submit() {
        await remove(`alerts/receivers/${receiver.id}/`);
        refresh();
      },
    });
  }

  /**
   * @param {string} text
   * @param {() => void} click
   */
  const button = (text, click) =>
    h("button", { type: "button", class: "quiet row-act", ...unless("operate", null), on: { click } }, text);

  /** @param {any} each */
  const about = (each) =>
    [kindTitle(each.kind), each.kind === "pagerduty" ? each.region.toUpperCase() : each.url, each.recipients.join(", ")]
      .filter(Boolean)
      .join(" · ");

  byId("new-receiver").addEventListener("click", () => edit());

  /** @param {any[]} receivers */
  return (receivers) => {
    byId("receivers-empty").hidden = receivers.length > 0;
    byId("receivers-box").hidden = !receivers.length;
    fill(
      byId("receivers"),
      receivers.map((each) =>
        h(
          "tr",
          {},
          h(
            "th",
            { scope: "row" },
            each.name,
            each.enabled ? null : h("span", { class: "tag" }, "disabled"),
            h("small", { class: "muted vh wrap" }, about(each)),
          ),
          h(
            "td",
            { class: "acts" },
            button("Test", () => test(each)),
            button("Edit", () => edit(each)),
            each.kind === "webhook" ? button("Secret…", () => newSecret(each)) : null,
            button("Remove", () => removeReceiver(each)),
          ),
        ),
      ),
    );
  };
}
