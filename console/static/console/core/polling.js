// What a page learns by polling: the newest answer is shown, and a part of the page is drawn only if it has changed.

import { fill, h } from "./elements.js";
import { toast } from "./toast.js";

const AGAIN = 3000; // ms; ten times as long while nobody looks
const byId = (id) => document.getElementById(id);

/**
 * `ask()` promises what `show(answer, ifNew)` shows; what goes wrong stands in #problem until it goes well again.
 * `look()` asks at once; `change(act, said)` does something, says so, and asks what came of it.
 */
export function asking(ask, show) {
  const drawn = new Map();
  let pause = 0;
  let asked = 0;

  /** Draw a part anew only if it has changed: a button keeps the focus meanwhile. */
  function ifNew(part, data, draw) {
    const text = JSON.stringify(data);
    if (drawn.get(part) === text) return;
    drawn.set(part, text);
    draw(data);
  }

  async function look() {
    clearTimeout(pause);
    const mine = ++asked;
    const problem = byId("problem");
    try {
      const answer = await ask();
      if (mine !== asked) return; // an older answer than that which is on its way
      show(answer, ifNew);
      problem.hidden = true;
    } catch (error) {
      if (mine !== asked) return;
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
    }
    pause = setTimeout(look, document.visibilityState === "visible" ? AGAIN : AGAIN * 10);
  }

  async function change(act, said) {
    try {
      await act();
      toast(said);
    } catch (error) {
      toast(error.message, "error");
    }
    look();
  }

  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && look());
  return { look, change };
}
