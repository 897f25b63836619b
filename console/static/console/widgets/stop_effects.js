// What a stop does to producers on the brokers that it is for, in their sentences. An effect other than hold has to be
// confirmed before the stop.

import { fill, h } from "../core/elements.js";

const NAMED = 6; // brokers of an effect

/** @type {Record<string, string>} */
const WORDS = { hold: "Hold", trickle: "Trickle", reject: "Reject", cut: "Cut" };

/**
 * The effect as a word.
 *
 * @param {string} effect
 */
export const effectWord = (effect) => WORDS[effect] ?? effect;

/**
 * The effects of a stop. `show(entries)`: previews of the brokers that it is for; `read()` returns the confirmed
 * effects as {effects}, or {wrong, field} if one is not confirmed.
 */
export function effectFields() {
  const element = h("div", { class: "effects" });
  const confirmed = new Set(); // effects with their sentences
  /** @type {Map<string, any>} */
  let boxes = new Map();
  /** @param {any[]} entries */
  const show = (entries) => {
    boxes = new Map();
    fill(
      element,
      grouped(entries).map(([effect, sentences]) => {
        const text = [...sentences].map(([sentence, titles]) => line(sentence, titles, entries.length > 1));
        if (effect === "hold") return h("p", { class: "muted" }, ...text);
        const key = JSON.stringify([effect, [...sentences.keys()]]);
        const box = h("input", { type: "checkbox", required: true, checked: confirmed.has(key) });
        box.addEventListener("change", () => (box.checked ? confirmed.add(key) : confirmed.delete(key)));
        boxes.set(effect, box);
        return h(
          "label",
          { class: "sure effect-sure" },
          box,
          h("span", {}, h("strong", {}, `${effectWord(effect)}: `), ...text),
        );
      }),
    );
  };
  const read = () => {
    for (const [effect, box] of boxes)
      if (!box.checked)
        return { wrong: `Confirm the effect ${effect}: there a stop does not hold producers.`, field: box };
    return { effects: [...boxes.keys()] };
  };
  return { element, show, read };
}

/**
 * Return [[effect, sentence -> titles of brokers], …]; not those that hold producers and have nothing to say of it.
 *
 * @param {any[]} entries
 * @returns {[string, Map<string, string[]>][]}
 */
function grouped(entries) {
  /** @type {Map<string, Map<string, string[]>>} */
  const found = new Map();
  for (const { effect, remark, title } of entries) {
    if (!effect || (effect === "hold" && !remark)) continue;
    const sentences = found.get(effect) ?? new Map();
    found.set(effect, sentences);
    const sentence = remark || "On this broker a stop does not hold producers.";
    sentences.set(sentence, [...(sentences.get(sentence) ?? []), title]);
  }
  return [...found].sort(([one], [other]) => Number(one === "hold") - Number(other === "hold"));
}

/** @param {string[]} titles */
const listed = (titles) =>
  titles.length > NAMED ? `${titles.slice(0, NAMED).join(", ")} and ${titles.length - NAMED} more` : titles.join(", ");

/**
 * @param {string} sentence
 * @param {string[]} titles
 * @param {boolean} several
 */
const line = (sentence, titles, several) =>
  h("span", { class: "effect-line" }, several ? `${listed(titles)}: ` : "", sentence);
