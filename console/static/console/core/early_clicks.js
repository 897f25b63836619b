// Keeps a click on a button that comes before the page's modules run, and gives it to them once they have: on a slow
// line a page is seen for a while before its buttons can do anything. Loaded as a classic script in <head>.
(() => {
  /** @type {any} */
  let early = null;
  /** @param {any} event */
  const keep = (event) => {
    const button = event.target.closest?.('button[type="button"]');
    if (!button) return;
    event.stopImmediatePropagation(); // some modules may be there already: what is done later must not be done twice
    early = button;
  };
  document.addEventListener("click", keep, { capture: true });
  // Comes after the modules, whatever they import.
  document.addEventListener("DOMContentLoaded", () => {
    document.removeEventListener("click", keep, { capture: true });
    if (early?.isConnected) early.click();
  });
})();
