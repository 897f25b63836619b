// What a page learns by polling: the newest answer is shown, and a part of the page is drawn only if it has changed.

import { byId, fill, h } from "./elements.js";
import { toast } from "./toast.js";

const EVERY = 3000; // ms; ten times as long while the page is hidden

/**
 * Draw a part of the page if its data differ from what was drawn last: a button keeps the focus meanwhile.
 *
 * @typedef {<Data>(part: string, data: Data, draw: (data: Data) => void) => void} DrawChanged
 */

/**
 * `show(answer, drawChanged)` shows what `read()` promises; what goes wrong stands in #problem until it goes well
 * again. Of the returned functions, `refresh()` reads at once; `change(act, message)` does something, says so, and
 * reads what came of it.
 *
 * @template Answer
 * @param {() => Promise<Answer>} read
 * @param {(answer: Answer, drawChanged: DrawChanged) => void} show
 */
export function poll(read, show) {
  /** @type {Map<string, string>} */
  const drawn = new Map();
  let timer = 0;
  let newest = 0;

  /** @type {DrawChanged} */
  function drawChanged(part, data, draw) {
    const text = JSON.stringify(data);
    if (drawn.get(part) === text) return;
    drawn.set(part, text);
    draw(data);
  }

  async function refresh() {
    clearTimeout(timer);
    newest += 1;
    const mine = newest;
    const problem = byId("problem");
    try {
      const answer = await read();
      if (mine !== newest) return; // a newer one is under way
      show(answer, drawChanged);
      problem.hidden = true;
    } catch (error) {
      if (mine !== newest) return;
      problem.hidden = false;
      fill(problem, h("p", {}, /** @type {Error} */ (error).message));
    }
    timer = setTimeout(refresh, document.visibilityState === "visible" ? EVERY : EVERY * 10);
  }

  /**
   * @param {() => Promise<unknown>} act
   * @param {string} message
   */
  async function change(act, message) {
    try {
      await act();
      toast(message);
    } catch (error) {
      toast(/** @type {Error} */ (error).message, "error");
    }
    refresh();
  }

  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
  return { refresh, change };
}
