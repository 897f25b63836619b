// Help beside a single field: a button that opens the two sentences of a term, and a link. The page of terms has the
// text (console/help/TERMS.md); it is loaded when help is opened for the first time.

import { fill, h } from "../core/elements.js";

const TERMS = "/help/terms/";

/**
 * The terms of fields, by the field's name without its unit: anchors of the page of terms.
 *
 * @type {Record<string, string>}
 */
const OF_FIELD = {
  capacity: "capacity",
  flow_stop: "stop-level",
  flow_resume: "resume-level",
  mechanism: "throttling-mechanism",
  overflow: "overflow-policy",
  producer_window: "producer-window",
  dead_letter_queue: "dead-letter",
  pattern: "pattern",
  end: "automatic-end",
  stage: "staged-start",
  virtualhost: "virtual-host",
  holds: "pending-period",
  quiet: "repeat-interval",
  depth: "depth",
  depth_percent: "capacity",
};

/** @type {Promise<Document> | null} */
let page = null;
let count = 0;

/** Return the page of terms; a failed request is sent again by the next call. */
async function termsPage() {
  page ??= fetch(TERMS, { credentials: "same-origin" }).then(async (response) => {
    if (!response.ok || response.redirected) throw new Error(`the console answered ${response.status}`);
    return new DOMParser().parseFromString(await response.text(), "text/html");
  });
  try {
    return await page;
  } catch (error) {
    page = null;
    throw error;
  }
}

/**
 * Return the name and the sentences of a term, as copies of the nodes of the page of terms: what follows its heading up
 * to the next one.
 *
 * @param {Document} found
 * @param {string} term
 */
function sectionOf(found, term) {
  const heading = found.getElementById(term);
  const nodes = [];
  for (let at = heading?.nextElementSibling; at && !/^H[12]$/.test(at.tagName); at = at.nextElementSibling)
    nodes.push(document.importNode(at, true));
  if (!heading || !nodes.length) throw new Error("there is no such term");
  return { name: heading.textContent ?? term, nodes };
}

/**
 * Return the help of a field, to be put beside its label; null: the field has none. Not inside a <label>: a click would
 * focus the field.
 *
 * @param {string} field such as "capacity_bytes"
 */
export function fieldHelp(field) {
  const term = OF_FIELD[field.replace(/_(bytes|messages)$/, "")];
  if (!term) return null;
  count += 1;
  const id = `help-${term}-${count}`;
  const name = term.replaceAll("-", " ");
  const text = h("div", { class: "explained-text" }, "Loading…");
  const title = h("strong", { class: "explained-term" }, name);
  const popover = h(
    "div",
    { class: "explanation", id, popover: "" },
    title,
    text,
    h("a", { href: `${TERMS}#${term}`, target: "_blank" }, "All terms"), // what is typed in the form stays
  );
  popover.addEventListener("beforetoggle", async (event) => {
    if (/** @type {any} */ (event).newState !== "open") return;
    try {
      const found = sectionOf(await termsPage(), term);
      fill(title, found.name);
      fill(text, found.nodes);
      for (const link of text.querySelectorAll("a")) link.target = "_blank";
    } catch (error) {
      fill(text, `The help cannot be shown: ${error.message}.`);
    }
  });
  return h(
    "span",
    { class: "explained" },
    h(
      "button",
      { type: "button", class: "explain", popovertarget: id },
      h("span", { "aria-hidden": "true" }, "?"),
      h("span", { class: "sr" }, `What is ${name}?`),
    ),
    popover,
  );
}

/**
 * Return a label with the help of its field beside it, or the label alone.
 *
 * @param {HTMLElement} label
 * @param {string} field
 */
export function withHelp(label, field) {
  const help = fieldHelp(field);
  return help ? h("span", { class: "label-line" }, label, help) : label;
}
