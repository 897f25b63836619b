// Templates of alert rules on the alerts page: a preview of each, and a rule with one click.

import { get, post } from "../core/api.js";
import { byId, fill, h } from "../core/elements.js";
import { may, unless } from "../core/permissions.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { previewSentences } from "../widgets/alert_preview.js";

/** Conditions of a broker as a whole: not for operators of one virtual host. */
const OF_BROKER = ["broker-unreachable", "history-not-recording"];

/** The scope that the user may create rules for: everything, or one virtual host. */
function scope() {
  const hosts = settings.may?.operate;
  if (may("operate", null) || !hosts?.length) return {};
  return { broker: settings.broker, virtualhost: hosts[0] };
}

/**
 * Set up the templates, and return a function that shows which of them have a rule. `receivers`: returns the receivers.
 *
 * @param {{receivers: () => any[], refresh: () => void}} page
 */
export function setUpTemplates({ receivers, refresh }) {
  const box = byId("templates-box");
  /** @type {any[]} */
  let templates = [];
  /** @type {string[]} */
  let names = [];
  let loaded = false;

  /** @param {any} template */
  async function create(template) {
    const notified = receivers().filter((each) => each.enabled);
    try {
      await post("alerts/rules/", { ...template.rule, ...scope(), receivers: notified.map((each) => each.id) });
      const who = notified.map((each) => each.name).join(", ");
      toast(`Created the rule ${template.title}. ${who ? `Receivers: ${who}.` : "It has no receivers yet."}`);
    } catch (error) {
      toast(/** @type {Error} */ (error).message, "error");
    }
    refresh();
  }

  /** @param {any} template */
  async function preview(template) {
    const place = byId(`preview-${template.id}`);
    const { name, enabled, send_resolved, ...conditions } = template.rule;
    try {
      fill(
        place,
        previewSentences(await post("alerts/rules/preview/", { ...conditions, ...scope() }), conditions.holds),
      );
    } catch (error) {
      fill(place, h("span", { class: "wrong" }, /** @type {Error} */ (error).message));
    }
  }

  async function load() {
    if (loaded) return;
    loaded = true;
    try {
      const found = await get("alerts/templates/");
      const whole = !scope().virtualhost;
      templates = found.filter(
        (/** @type {any} */ each) =>
          whole || !each.rule.kinds.some((/** @type {string} */ kind) => OF_BROKER.includes(kind)),
      );
      draw();
      for (const each of templates) await preview(each); // one after the other: each reads all queues
    } catch (error) {
      loaded = false;
      fill(byId("templates"), h("li", { class: "wrong" }, /** @type {Error} */ (error).message));
    }
  }

  function draw() {
    for (const each of templates) {
      const done = names.includes(each.title);
      const known = document.getElementById(`template-${each.id}`);
      if (!known) {
        byId("templates").append(
          h(
            "li",
            { class: "template", id: `template-${each.id}` },
            h(
              "div",
              {},
              h("strong", {}, each.title),
              h("p", {}, each.text),
              h("p", { class: "muted small", id: `preview-${each.id}` }, "…"),
            ),
            h(
              "div",
              { class: "template-acts" },
              h(
                "button",
                {
                  type: "button",
                  ...unless("operate"),
                  on: { click: () => create(each) },
                  "aria-label": `Create the rule ${each.title}`,
                },
                "Create",
              ),
              h("a", { href: `/alerts/rules/new/?template=${each.id}`, class: "small" }, "Adjust…"),
              h("span", { class: "muted small" }, "Created"),
            ),
          ),
        );
      }
      const item = byId(`template-${each.id}`);
      const [button, adjust, created] = item.querySelector(".template-acts").children;
      button.hidden = adjust.hidden = done;
      created.hidden = !done;
    }
    const targets = receivers()
      .filter((each) => each.enabled)
      .map((each) => each.name);
    fill(
      byId("templates-receivers"),
      targets.length
        ? `A rule that you create here notifies ${targets.join(", ")}.`
        : "There are no receivers yet: alerts of a rule that you create here are shown on this page only.",
    );
  }

  box.addEventListener("toggle", () => box.open && load());

  /** @param {any[]} rules */
  return (rules) => {
    names = rules.map((rule) => rule.name);
    if (!rules.length && !box.dataset.shown) box.open = true;
    box.dataset.shown = "true";
    if (box.open) load();
    draw();
  };
}
