// Stores a click on a button before the page's modules have run, and repeats it afterwards: on a slow connection a page
// is visible for a while before its buttons work. Loaded as a classic script in <head>.
(() => {
  /** @type {any} */
  let early = null;
  /** @param {any} event */
  const keep = (event) => {
    const button = event.target.closest?.('button[type="button"]');
    if (!button) return;
    event.stopImmediatePropagation(); // some modules can have run already: nothing must act twice
    early = button;
  };
  document.addEventListener("click", keep, { capture: true });
  // Runs after the modules and their imports.
  document.addEventListener("DOMContentLoaded", () => {
    document.removeEventListener("click", keep, { capture: true });
    if (early?.isConnected) early.click();
  });
})();
