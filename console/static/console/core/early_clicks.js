// Stores what a user does before the page's modules have run, and repeats it afterwards: on a slow connection a page is
// visible for a while before its buttons and fields work. Loaded as a classic script in <head>.
(() => {
  /** @type {any[]} the last button that was clicked and the last form that was submitted, in the order of the user */
  let acts = [];
  const act = (/** @type {any} */ element) => {
    acts = [...acts.filter((one) => one.tagName !== element.tagName), element];
  };
  /** @type {Map<any, {value: string, checked: boolean, kinds: Set<string>}>} fields that were changed, and how */
  const entered = new Map();

  /** @param {any} event */
  const click = (event) => {
    const early = event.target.closest?.('button[type="button"]');
    // The browser itself opens what a button with `popovertarget` is for: a second click would close it.
    if (!early || early.hasAttribute("popovertarget")) return;
    event.stopImmediatePropagation(); // some modules can have run already: nothing must act twice
    act(early);
  };
  /** A form for a module has no address: the browser would load this page again, without what was entered.
   * @param {any} event */
  const submit = (event) => {
    const early = event.target;
    if (early.hasAttribute("action") || early.hasAttribute("method")) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    act(early);
  };
  /** @param {any} event */
  const enter = ({ target, type }) => {
    const { value, checked } = target;
    entered.set(target, { value, checked, kinds: new Set([...(entered.get(target)?.kinds ?? []), type]) });
  };
  const LISTENERS = Object.entries({ click, submit, input: enter, change: enter });
  for (const [kind, listener] of LISTENERS) document.addEventListener(kind, listener, { capture: true });

  // Runs after the modules and their imports, which have set the fields to what the address says.
  document.addEventListener("DOMContentLoaded", () => {
    for (const [kind, listener] of LISTENERS) document.removeEventListener(kind, listener, { capture: true });
    for (const [field, { value, checked, kinds }] of entered) {
      if (!field.isConnected) continue;
      if (field.checked !== checked) field.checked = checked;
      if (field.type !== "file" && field.value !== value) field.value = value;
      for (const kind of kinds) field.dispatchEvent(new Event(kind, { bubbles: true }));
    }
    for (const one of acts) {
      if (one.isConnected) one.tagName === "FORM" ? one.requestSubmit() : one.click();
    }
  });
})();
