// A queue's depth against its capacity: a bar with the resume and stop levels marked, and the numbers.

import { h, setAttribute, setText } from "../core/elements.js";
import { amount, exactAmount, percent } from "../core/format.js";

/**
 * Return the unit whose depth is closest to its capacity; messages if there is no capacity.
 *
 * @param {any} queue
 */
export function criticalUnit(queue) {
  /** @param {string} unit */
  const use = (unit) => {
    const capacity = queue[`effective_capacity_${unit}`];
    return capacity ? queue[`depth_${unit}`] / capacity : -1;
  };
  return use("bytes") > use("messages") ? "bytes" : "messages";
}

export function depthElement() {
  const element = h(
    "div",
    { class: "depth" },
    h("span", { class: "depth-now" }),
    h("span", { class: "depth-of" }),
    h(
      "div",
      { class: "bar" },
      h("div", { class: "bar-fill" }),
      h("i", { class: "mark resume" }),
      h("i", { class: "mark stop" }),
    ),
  );
  return element;
}

/**
 * @param {any} element
 * @param {any} queue
 */
export function setDepth(element, queue) {
  const [now, of, bar] = element.children;
  const [level, resumeMark, stopMark] = bar.children;
  const unit = criticalUnit(queue);
  const depth = queue[`depth_${unit}`];
  const capacity = queue[`effective_capacity_${unit}`];
  const resume = queue[`effective_resume_${unit}`];
  const stop = queue[`effective_stop_${unit}`];
  const short = unit === "messages" ? " msg" : "";
  setText(now, `${amount(depth, unit)}${short}`);
  setText(of, capacity ? `of ${amount(capacity, unit)} · ${percent(depth, capacity)}` : "no limit");
  const both = `${exactAmount(queue.depth_messages, "messages")}, ${exactAmount(queue.depth_bytes, "bytes")}`;
  setAttribute(
    element,
    "title",
    capacity
      ? `${both}\nCapacity ${exactAmount(capacity, unit)}\nStops above ` +
          `${exactAmount(stop, unit)}\nResumes at ${exactAmount(resume, unit)}`
      : `${both}\nNo capacity set`,
  );
  bar.hidden = !capacity;
  element.classList.toggle("unlimited", !capacity);
  if (!capacity) return;
  /** @param {any} value */
  const share = (value) => `${Math.min(100, (value / capacity) * 100)}%`;
  level.style.inlineSize = share(depth);
  level.dataset.level =
    depth > stop ? "over" : depth > resume && queue.state?.startsWith("OVERFULL") ? "draining" : "fine";
  resumeMark.hidden = !resume || resume === stop;
  resumeMark.style.insetInlineStart = share(resume);
  stopMark.hidden = !stop || stop === capacity;
  stopMark.style.insetInlineStart = share(stop);
}
