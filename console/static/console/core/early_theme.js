// Applies the remembered theme before the first paint. Loaded as a classic script in <head>, so nothing flashes;
// theme.js has the button that changes it.
(() => {
  let theme = null;
  try {
    theme = localStorage.getItem("headgate-theme");
  } catch {
    // Storage may be forbidden: the system's theme it is.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
})();
