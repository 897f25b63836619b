// The button that changes the theme. early_theme.js applies the stored theme before the first paint. "headgate-theme"
// is dispatched when the colours of the page change.

import { byId, setText } from "./elements.js";

const THEMES = ["system", "light", "dark"];

const theme = () => document.documentElement.dataset.theme ?? "system";
/** @param {any} name */
const following = (name) => THEMES[(THEMES.indexOf(name) + 1) % THEMES.length];

/** @param {any} button */
function label(button) {
  const now = theme();
  button.querySelector("use").setAttribute("href", `#i-${now}`);
  button.title = `Theme: ${now}. Change to ${following(now)}`;
  setText(byId("theme-text"), button.title);
}

/**
 * Connect the theme button.
 *
 * @param {any} button
 */
export function setUpTheme(button) {
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
    dispatchEvent(new Event("headgate-theme")),
  );
  if (!button) return;
  button.addEventListener("click", () => {
    const next = following(theme());
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("headgate-theme", next);
    } catch {
      // Then it applies to this page only.
    }
    label(button);
    dispatchEvent(new Event("headgate-theme"));
  });
  label(button);
}
