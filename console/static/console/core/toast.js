// Short messages about the result of an action, above the page.

import { byId, findAll, h, icon } from "./elements.js";

const MOST = 4;
const SHOWN = 8000; // ms
const OFFERED = 60_000; // ms: time to see the effect of the action that it undoes

/**
 * Show the result of an action; an error stays until it is closed. `offer`: [label, function].
 *
 * @param {string} text
 * @param {string} [kind]
 * @param {any} [offer]
 */
export function toast(text, kind = "done", offer = null) {
  const toasts = byId("toasts");
  const close = () => element.remove();
  const take = () => {
    close();
    offer[1]();
  };
  const element = h(
    "div",
    { class: `toast ${kind}` },
    h("p", {}, text),
    offer ? h("button", { type: "button", data: { acts: "" }, on: { click: take } }, offer[0]) : null,
    h(
      "button",
      { type: "button", class: "quiet icon-only", "aria-label": "Close", on: { click: close } },
      icon("close"),
    ),
  );
  // In an open dialog, because elements outside are behind it.
  const dialog = findAll("dialog[open]").at(-1);
  if (toasts.parentElement !== (dialog ?? document.body)) (dialog ?? document.body).append(toasts);
  dialog?.addEventListener("close", () => document.body.append(toasts), { once: true });
  toasts.append(element);
  while (toasts.children.length > MOST) toasts.firstChild.remove();
  if (kind !== "error") setTimeout(close, offer ? OFFERED : SHOWN);
}
