// Polling for pages without live updates: the newest response is shown; parts of the page are drawn if they changed.
// The absence of the broker or the console is on the banner of the frame: an error that says the same is hidden then.

import { away, whenAway } from "./away.js";
import { byId, fill, h } from "./elements.js";
import { toast } from "./toast.js";

/** HTTP statuses without a broker, a console or a session; 0: no response. */
const ON_BANNER = [0, 401, 404, 503];
const EVERY = 3000; // ms; ten times as long while the page is hidden

/**
 * Draw a part of the page if its data changed: unchanged buttons keep the focus.
 *
 * @typedef {<Data>(part: string, data: Data, draw: (data: Data) => void) => void} DrawChanged
 */

/**
 * Poll `read()` and pass its response to `show(response, drawChanged)`; #problem shows an error until the next success.
 * Of the returned functions, `refresh()` reads at once; `change(act, message)` acts, shows the message, and refreshes.
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

  /** @type {any} */
  let failure = null;

  function showFailure() {
    const problem = byId("problem");
    const isOnBanner = away() && ON_BANNER.includes(failure?.status);
    problem.hidden = !failure || isOnBanner;
    if (!problem.hidden) fill(problem, h("p", {}, failure.message));
  }

  async function refresh() {
    clearTimeout(timer);
    newest += 1;
    const mine = newest;
    try {
      const answer = await read();
      if (mine !== newest) return; // a newer request is pending
      show(answer, drawChanged);
      failure = null;
    } catch (error) {
      if (mine !== newest) return;
      failure = error;
    }
    showFailure();
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

  whenAway(showFailure);
  document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && refresh());
  return { refresh, change };
}
