// What if: candidates for a queue's limits, replayed over its recorded traffic, beside the limits in force.

import { post } from "../core/api.js";
import { byId, fill, h, icon, setText } from "../core/elements.js";
import { amount, bytes, count, duration, exact, exactAmount, percent, readAmount } from "../core/format.js";
import { settings } from "../core/settings.js";
import { begin, historyQueueUrl, Loading, showNothing } from "./data.js";
import { RangePicker } from "./range_picker.js";

const LIMITS = [
  ["capacity_messages", "Capacity, messages"],
  ["resume_messages", "Resume at, messages"],
  ["capacity_bytes", "Capacity, bytes"],
  ["resume_bytes", "Resume at, bytes"],
];
const MOST = 10;
const { key } = settings;
const loading = new Loading();
const range = new RangePicker(byId("range"), { initial: "7d", lengths: ["1h", "6h", "24h", "7d", "30d", "90d"] });

// -- candidates ---------------------------------------------------------------------------------------------------

/** In the address: `?candidate=1000:800:0:0`. */
let candidates = new URLSearchParams(location.search)
  .getAll("candidate")
  .slice(0, MOST)
  .map((text) => {
    const numbers = text.split(":").map(Number);
    return Object.fromEntries(
      LIMITS.map(([name], index) => [
        name,
        Number.isSafeInteger(numbers[index]) && numbers[index] > 0 ? numbers[index] : 0,
      ]),
    );
  });
let suggested = candidates.length > 0;

function remember() {
  const url = new URL(location.href);
  url.searchParams.delete("candidate");
  for (const one of candidates) url.searchParams.append("candidate", LIMITS.map(([name]) => one[name]).join(":"));
  history.replaceState(null, "", url);
}

/**
 * @param {any} limits
 * @param {any} number
 */
function rowOf(limits, number) {
  const fields = LIMITS.map(([name, label]) => {
    const input = h("input", {
      name,
      value: limits[name] ? exact(limits[name]) : "",
      placeholder: "no limit",
      maxlength: "24",
      spellcheck: "false",
      inputmode: "text",
    });
    return h("label", { class: "field" }, h("span", {}, label), input);
  });
  const remove = h(
    "button",
    {
      type: "button",
      class: "quiet icon-only",
      "aria-label": `Remove candidate ${number}`,
      on: {
        click: () => {
          read(false);
          candidates.splice(number - 1, 1);
          showForm();
        },
      },
    },
    icon("close"),
  );
  return h("fieldset", { class: "candidate" }, h("legend", { class: "sr" }, `Candidate ${number}`), fields, remove);
}

function showForm() {
  fill(
    byId("candidates"),
    candidates.map((limits, index) => rowOf(limits, index + 1)),
  );
  byId("add").disabled = candidates.length >= MOST;
}

/** The form's values into `candidates`. Returns what is wrong, as a sentence. */
function read(strict = true) {
  let wrong = "";
  candidates = [...byId("candidates").children].map((row, index) =>
    Object.fromEntries(
      LIMITS.map(([name, label]) => {
        const input = row.querySelector(`[name="${name}"]`);
        const text = input.value.trim();
        const value = text ? readAmount(text) : 0;
        input.toggleAttribute("aria-invalid", false);
        if (value === null) {
          if (strict) {
            input.setAttribute("aria-invalid", "true");
            wrong ||= `Candidate ${index + 1}, ${label}: “${text}” is no amount. Write 10,000 or 64 MiB.`;
          }
          return [name, 0];
        }
        return [name, value];
      }),
    ),
  );
  if (!wrong && strict) {
    candidates.forEach((one, index) => {
      for (const unit of ["messages", "bytes"]) {
        if (one[`resume_${unit}`] > one[`capacity_${unit}`]) {
          wrong ||= one[`capacity_${unit}`]
            ? `Candidate ${index + 1}: it resumes at ${exactAmount(one[`resume_${unit}`], unit)}, ` +
              `above its capacity of ${exactAmount(one[`capacity_${unit}`], unit)}, so it never ` +
              "would."
            : `Candidate ${index + 1}: it resumes at ${exactAmount(one[`resume_${unit}`], unit)} ` +
              `but has no capacity in ${unit}.`;
        }
      }
    });
  }
  return wrong;
}

byId("add").addEventListener("click", () => {
  read(false);
  /** @type {any} */
  const last = candidates.at(-1) ?? answer?.current;
  candidates.push(
    last
      ? Object.fromEntries(LIMITS.map(([name]) => [name, last[name] * 2]))
      : { capacity_messages: 1000, resume_messages: 800, capacity_bytes: 0, resume_bytes: 0 },
  );
  showForm();
  byId("candidates").lastElementChild.querySelector("input").focus();
});

byId("form").addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  const wrong = read();
  byId("wrong").hidden = !wrong;
  setText(byId("wrong"), wrong);
  if (wrong) return;
  remember();
  load();
});

// -- outcome ------------------------------------------------------------------------------------------------------

/** @type {any} */
let answer = null;

/** @param {any} one */
function limitsInWords(one) {
  const told = ["messages", "bytes"]
    .filter((unit) => one[`capacity_${unit}`])
    .map(
      (unit) =>
        `${amount(one[`capacity_${unit}`], unit)}${unit === "messages" ? " messages" : ""}, ` +
        `resume at ${amount(one[`resume_${unit}`], unit)}`,
    );
  return told.length ? told.join("; ") : "no limit";
}

/** @param {any} one */
const limitsTitle = (one) =>
  LIMITS.map(([name, label]) => `${label}: ${one[name] ? exact(one[name]) : "no limit"}`).join("\n");

/**
 * @param {any} one
 * @param {string} label
 * @param {any} current
 * @param {any} observed
 */
function outcomeRow(one, label, current, observed) {
  /** @param {any} name */
  const change = (name) =>
    one === current || !current[name] || one[name] === current[name]
      ? ""
      : one[name] < current[name]
        ? "best"
        : "worse";
  const difference =
    one === current || !current.blocked_ms
      ? ""
      : one.blocked_ms <= current.blocked_ms
        ? ` (−${Math.round((1 - one.blocked_ms / current.blocked_ms) * 100)} %)`
        : ` (+${Math.round((one.blocked_ms / current.blocked_ms - 1) * 100)} %)`;
  return h(
    "tr",
    { class: one === current ? "now" : "" },
    h(
      "th",
      { scope: "row", title: limitsTitle(one) },
      h("strong", {}, label),
      h("small", { class: "muted limits-words" }, limitsInWords(one)),
    ),
    h("td", { class: change("episodes") }, exact(one.episodes)),
    h(
      "td",
      {
        class: change("blocked_ms"),
        title: `${exact(one.blocked_ms)} ms, ${percent(one.blocked_ms, observed)} of the time`,
      },
      `${duration(one.blocked_ms)}${difference}`,
    ),
    h("td", { class: change("longest_ms"), title: `${exact(one.longest_ms)} ms` }, duration(one.longest_ms)),
    h("td", { title: exactAmount(one.peak_messages, "messages") }, count(one.peak_messages)),
    h("td", { class: change("peak_bytes"), title: exactAmount(one.peak_bytes, "bytes") }, bytes(one.peak_bytes)),
  );
}

/** @param {any} said */
function showAdvice(said) {
  const use = said.limits
    ? h(
        "p",
        {},
        h(
          "button",
          {
            type: "button",
            on: {
              click: () => {
                read(false);
                candidates.unshift(Object.fromEntries(LIMITS.map(([name]) => [name, said.limits[name]])));
                candidates.length = Math.min(candidates.length, MOST);
                showForm();
                remember();
                load();
              },
            },
          },
          "Add it as a candidate",
        ),
      )
    : null;
  fill(byId("advice"), h("p", {}, h("strong", {}, said.text)), use);
}

/** @param {any} found */
function show(found) {
  answer = found;
  setText(byId("caveat"), found.caveat);
  byId("caveat").hidden = false;
  byId("differ").hidden = true;
  if (!found.current) {
    fill(
      byId("advice"),
      h("p", { class: "muted" }, "Too little is known of its traffic in this range for any advice."),
    );
    setText(byId("observed"), "");
    showNothing(
      byId("outcome"),
      "Nobody recorded its traffic in this range, or only a log tells of it: choose another range.",
    );
    return;
  }
  showAdvice(found.advice);
  setText(
    byId("observed"),
    `from ${duration(found.observed_ms)} of ` +
      `${found.source === "samples" ? "samples" : "one-minute values"}; overfull, actual: ` +
      `${duration(found.recorded_blocked_ms)}`,
  );
  setText(
    byId("differ"),
    `Actual: ${duration(found.recorded_blocked_ms)}, the time for which the queue was overfull, ` +
      "as it was recorded, under the limits of then. Simulated: " +
      `${duration(found.current.blocked_ms)} under the limits of now, with the demand that is ` +
      "assumed for the time in which producers were blocked. Compare simulated figures with each " +
      "other. Operators' stops count in neither.",
  );
  byId("differ").hidden = false;
  const head = [
    "Limits",
    "Times overfull, simulated",
    "Overfull, simulated",
    "Longest",
    "Peak, messages",
    "Peak use",
  ].map((label) => h("th", { scope: "col" }, label));
  const rows = [
    outcomeRow(found.current, "Now", found.current, found.observed_ms),
    ...found.candidates.map((/** @type {any} */ one, /** @type {any} */ index) =>
      outcomeRow(one, `Candidate ${index + 1}`, found.current, found.observed_ms),
    ),
  ];
  fill(
    byId("outcome"),
    h(
      "div",
      { class: "table-box", tabindex: "0", role: "region", "aria-label": "Outcomes" },
      h("table", { class: "grid what-if-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
    ),
  );
  if (!suggested) suggest(found);
}

/**
 * The first time: twice and four times the limits in force.
 *
 * @param {any} options
 */
function suggest({ current }) {
  suggested = true;
  const limited = current.capacity_messages || current.capacity_bytes;
  if (!limited) return;
  candidates = [2, 4].map((factor) => Object.fromEntries(LIMITS.map(([name]) => [name, current[name] * factor])));
  showForm();
  load();
}

function load() {
  range.renew();
  byId("queue-link").href = historyQueueUrl(key, range.length ? { range: range.length } : {});
  loading.load(
    "outcome",
    (/** @type {AbortSignal} */ signal) =>
      post(
        "history/what-if/",
        { broker: key.broker, virtualhost: key.virtualhost, queue: key.queue, ...range.query, candidates },
        signal,
      ),
    show,
    byId("outcome"),
    load,
  );
}

range.addEventListener("change", load);
begin(
  (/** @type {any} */ known) => {
    const ours = known.brokers.find((/** @type {any} */ one) => one.broker === key.broker);
    if (ours) range.known = [ours];
  },
  () => {
    showForm();
    load();
  },
);
