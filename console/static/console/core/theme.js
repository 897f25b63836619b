// The button that changes the theme. The remembered one is applied before the first paint by early_theme.js;
// "headgate-theme" is dispatched when the colours of the page change.

import { setText } from "./elements.js";

const THEMES = ["system", "light", "dark"];

const theme = () => document.documentElement.dataset.theme ?? "system";
const following = (name) => THEMES[(THEMES.indexOf(name) + 1) % THEMES.length];

function label(button) {
  const now = theme();
  button.querySelector("use").setAttribute("href", `#i-${now}`);
  button.title = `Theme: ${now}. Change to ${following(now)}`;
  setText(document.getElementById("theme-text"), button.title);
}

/** Make the theme's button work. */
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
      // It applies to this page then.
    }
    label(button);
    dispatchEvent(new Event("headgate-theme"));
  });
  label(button);
}
