// The URL of this console for links in notifications: shown, requested when receivers exist, entered and removed.

import { get, patch, remove } from "../core/api.js";
import { byId, fill, find, h, setText } from "../core/elements.js";
import { clock } from "../core/format.js";
import { may, unless } from "../core/permissions.js";
import { toast } from "../core/toast.js";
import { isLoopback, urlNotes } from "../widgets/console_url.js";
import { openFormDialog, plainField } from "../widgets/form_dialog.js";

const PATH = "alerts/console-url/";
export const readConsoleUrl = () => get(PATH);

/**
 * Return `show(found, needed)`, which draws the URL; `needed`: whether receivers exist, to which links would be sent.
 *
 * @param {{change: (act: () => Promise<any>, done: string) => Promise<void>, refresh: () => any}} page
 */
export function setUpConsoleUrl({ change, refresh }) {
  /** @type {import("../widgets/console_url.js").ConsoleUrl} */
  let now;

  function enter() {
    // Where this administrator sees the page is where its recipients most likely reach it.
    const value = now.entered || location.origin;
    const field = plainField("url", "Address", { value, type: "url", placeholder: "https://headgate.example.com" });
    const hint = find(".hint", field.element);
    const showHint = () =>
      setText(
        hint,
        isLoopback(field.input.value.trim())
          ? "Only programs on this machine reach this address: other recipients need another one."
          : "Scheme, host and port.",
      );
    field.input.addEventListener("input", showHint);
    showHint();
    openFormDialog({
      title: "Address of this console",
      says:
        "Notifications link to the pages of the console at this address. Enter the one at which recipients reach it. " +
        "It is used for links alone.",
      fields: [field],
      action: "Save",
      async submit(/** @type {any} */ values) {
        const saved = await patch(PATH, { url: values.url });
        toast(`Notifications link to ${saved.url}.`);
        refresh();
      },
    });
  }

  const button = (/** @type {string} */ text, /** @type {() => any} */ click) =>
    h("button", { type: "button", class: "quiet row-act", ...unless("administer", null), on: { click } }, text);
  byId("enter-url").addEventListener("click", enter);

  return (/** @type {import("../widgets/console_url.js").ConsoleUrl} */ found, /** @type {boolean} */ needed) => {
    now = found;
    const administers = may("administer", null);
    byId("no-links").hidden = found.source !== "none" || !needed || !may("operate", null);
    byId("enter-url").hidden = !administers;
    byId("no-links-who").hidden = administers;
    const { origin, warning } = urlNotes(found, found.changed ? clock(Date.parse(found.changed)) : "");
    fill(
      byId("console-url"),
      h(
        "div",
        {},
        found.url
          ? h("code", {}, found.url)
          : h("p", { class: "muted" }, "No address entered: notifications have no links to this console."),
        origin ? h("small", { class: "muted vh" }, origin) : null,
        warning ? h("small", { class: "wrong vh" }, warning) : null,
      ),
      found.source === "environment" ? null : button(found.entered ? "Change…" : "Enter…", enter),
      found.entered
        ? button("Remove", () => change(() => remove(PATH), "The entered address of the console is removed."))
        : null,
    );
  };
}
