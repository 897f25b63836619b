// What limits would do to a queue, in words: the levels that result, and whether an overfull queue resumes.

import { amount } from "../core/format.js";

/**
 * Say what limits would mean for an overfull queue: whether it resumes with its present depth.
 *
 * @param {any} answer
 * @param {any} queue
 */
export function consequence(answer, queue) {
  if (!queue.state?.includes("OVERFULL")) return "";
  const effective = answer.effective ?? answer;
  const above = ["messages", "bytes"].flatMap((unit) => {
    const depth = queue[`depth_${unit}`];
    const [capacity, resume] = ["capacity", "resume"].map(
      (name) => effective[`effective_${name}_${unit}`] ?? effective[`${name}_${unit}`],
    );
    return capacity && depth > resume ? [`${amount(depth, unit)}, resumes at ${amount(resume, unit)}`] : [];
  });
  return above.length
    ? ` The queue stays overfull: it has ${above.join("; ")}. To resume at once, its resume level must not be below ` +
        "its depth."
    : " The queue is not overfull any more then.";
}

/**
 * Describe the limits that a change would result in.
 *
 * @param {any} answer
 */
export function effectiveLimits(answer) {
  const effective = answer.effective ?? answer;
  const parts = [];
  for (const unit of ["messages", "bytes"]) {
    /** @param {any} name */
    const get = (name) => effective[`effective_${name}_${unit}`] ?? effective[`${name}_${unit}`];
    if (get("capacity"))
      parts.push(
        `capacity ${amount(get("capacity"), unit)}, stop above ${amount(get("stop"), unit)}, ` +
          `resume at ${amount(get("resume"), unit)}`,
      );
  }
  return parts.length
    ? `Effective limits: ${parts.join("; ")}.`
    : "Effective limits: none. The depth of the queue never blocks producers.";
}
