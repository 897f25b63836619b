// Which queues the stops of a client, where they end at a depth, still wait for: read beside the page's own requests.

import { post } from "../core/api.js";
import { h, reconcile, setText } from "../core/elements.js";
import { plural } from "../core/format.js";
import { parseName, queueUrl, scopeInWords } from "../core/object_names.js";

const EVERY = 2000; // ms
const AT_ONCE = 5; // stops
const UNKNOWN = { queues_above: null, fullest: null };

/**
 * What the stop waits for, as text and the queues that are above its depth. `found`: its progress.
 *
 * @param {number} below
 * @param {{queues_above: number | null, fullest: {queue: string, percent: number}[] | null}} found
 * @returns {{text: string, above: {queue: string, percent: number}[], more: number}}
 */
export function waitsFor(below, { queues_above: count, fullest }) {
  if (count === null || count === undefined || !fullest)
    return { text: "Which queues it waits for is not known.", above: [], more: 0 };
  if (!fullest.length)
    return { text: "No queue with a capacity counts, so that no depth ends it.", above: [], more: 0 };
  if (!count) return { text: `No queue is above ${below}% any more.`, above: [], more: 0 };
  const above = fullest.filter(({ percent }) => percent > below);
  return { text: `Waits for ${plural(count, "queue")} above ${below}%: `, above, more: count - above.length };
}

/** @param {any} stop */
const aimOf = (stop) =>
  Object.fromEntries(
    [["scope", stop.object], ...["pattern", "user", "container_id", "link"].map((name) => [name, stop[name]])].filter(
      ([, value]) => value,
    ),
  );

export class DepthEnds {
  #element;
  #following = false;
  /** @type {any[]} */
  #ends = [];
  /** @type {Map<string, any>} */
  #found = new Map();

  /** @param {HTMLElement} element */
  constructor(element) {
    this.#element = element;
  }

  /** Show what these stops wait for, from now on; those without a depth are left out. @param {any[]} stops */
  show(stops) {
    this.#ends = stops.filter((stop) => stop.below && stop.object).slice(0, AT_ONCE);
    this.#draw();
    if (this.#ends.length && !this.#following) this.#follow();
  }

  /** Read until no stop ends at a depth: the page learns of a queue's depth from nothing else. */
  async #follow() {
    this.#following = true;
    while (this.#ends.length) {
      const ends = this.#ends;
      const answers = await Promise.all(
        ends.map((stop) => post("stop-producers/progress/", aimOf(stop)).catch(() => UNKNOWN)),
      );
      this.#found = new Map(answers.map((answer, index) => [ends[index].scope, answer]));
      this.#draw();
      const pause = document.visibilityState === "visible" ? EVERY : 10 * EVERY;
      await new Promise((resume) => setTimeout(resume, pause));
    }
    this.#found.clear();
    this.#following = false;
  }

  /** Update the lines: a link that is still there retains the focus. */
  #draw() {
    const known = this.#ends.filter((stop) => this.#found.has(stop.scope));
    this.#element.hidden = !known.length;
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    reconcile(
      this.#element,
      known,
      (stop) => stop.scope,
      () => h("p", {}, h("strong", {}), h("span", {}), h("span", {}), h("span", {})),
      (line, stop) => this.#update(line, stop),
    );
    if (focused !== document.activeElement && this.#element.contains(focused)) focused?.focus({ preventScroll: true });
  }

  /** @param {Element} line @param {any} stop */
  #update(line, stop) {
    const { text, above, more } = waitsFor(stop.below, this.#found.get(stop.scope));
    const [head, words, queues, rest] = /** @type {any} */ (line.children);
    setText(head, `Stop of ${scopeInWords(stop.scope)}, which ends at a depth of ${stop.below}%. `);
    setText(words, text);
    reconcile(
      queues,
      above.map((each, index) => ({ ...each, before: index ? ", " : "" })),
      ({ queue }) => queue,
      ({ queue }) => h("span", {}, h("span", {}), link(queue), h("span", {})),
      (node, { before, percent }) => {
        setText(node.firstChild, before);
        setText(node.lastChild, ` (${percent}%)`);
      },
    );
    setText(rest, more > 0 ? `, and ${plural(more, "more queue")}` : "");
  }
}

/** @param {string} queue */
function link(queue) {
  const { virtualhost = "", name = queue } = parseName(queue)?.keys ?? {};
  return h("a", { href: queueUrl(virtualhost, name) }, name);
}
