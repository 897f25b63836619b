// Simulation of limits: scenarios replayed over a queue's recorded traffic, beside its effective limits.

import { post } from "../core/api.js";
import { byId, fill, h, icon, setText } from "../core/elements.js";
import { amount, bytes, count, duration, exact, exactAmount, percent } from "../core/format.js";
import { LENGTHS } from "../core/lengths.js";
import { addressMoment } from "../core/moments.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { begin, durations, historyQueueUrl, Loading, policyUrl, showEmpty } from "./data.js";
import { RangePicker } from "./range_picker.js";
import {
  faultOf,
  fieldText,
  fromAddress,
  LIMITS,
  levelInWords,
  placeholderOf,
  readLevel,
  scaled,
  toAddress,
  UNITS,
} from "./scenario.js";

/** The levels that can be set at this broker: some have no resume level. What cannot be set follows the capacity. */
const OFFERED = LIMITS.filter(
  ([name]) => !settings.fields || settings.fields.includes(name.replace(/^resume_/, "flow_resume_")),
);
const isOffered = (/** @type {string} */ name) => OFFERED.some(([offered]) => offered === name);
const MOST = 10;
const { key } = settings;
const loading = new Loading();
const range = new RangePicker(byId("range"), {
  initial: "7d",
  lengths: ["15m", "1h", "6h", "24h", "7d", "30d", "90d"],
  longest: LENGTHS["90d"][1],
});

// -- scenarios ----------------------------------------------------------------------------------------------------

/** In the address each is `?candidate=1000:800:0:0`. */
let candidates = new URLSearchParams(location.search).getAll("candidate").slice(0, MOST).map(fromAddress);
let suggested = candidates.length > 0;

function writeAddress() {
  const url = new URL(location.href);
  url.searchParams.delete("candidate");
  for (const one of candidates) url.searchParams.append("candidate", toAddress(one));
  history.replaceState(null, "", url);
}

/**
 * @param {any} limits
 * @param {any} number
 */
function rowOf(limits, number) {
  const fields = OFFERED.map(([name, label]) => {
    const input = h("input", {
      name,
      value: fieldText(limits, name),
      placeholder: placeholderOf(name),
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
      "aria-label": `Remove scenario ${number}`,
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
  return h("fieldset", { class: "candidate" }, h("legend", { class: "sr" }, `Scenario ${number}`), fields, remove);
}

function showForm() {
  fill(
    byId("candidates"),
    candidates.map((limits, index) => rowOf(limits, index + 1)),
  );
  byId("add").disabled = candidates.length >= MOST;
}

/**
 * Return the levels of a scenario: those entered, and resume levels that cannot be set at the same share of the
 * capacity as now.
 *
 * @param {any[]} entered
 */
function completed(entered) {
  const levels = { ...Object.fromEntries(LIMITS.map(([name]) => [name, 0])), ...Object.fromEntries(entered) };
  for (const unit of UNITS) {
    if (isOffered(`resume_${unit}`)) continue;
    const current = answer?.current;
    const share = current?.[`capacity_${unit}`] ? current[`resume_${unit}`] / current[`capacity_${unit}`] : 1;
    levels[`resume_${unit}`] = Math.floor(levels[`capacity_${unit}`] * share);
  }
  return levels;
}

/** Read the form into `candidates`. Returns an error message, or "". */
function read(strict = true) {
  let error = "";
  candidates = [...byId("candidates").children].map((row, index) =>
    completed(
      OFFERED.map(([name, label]) => {
        const input = row.querySelector(`[name="${name}"]`);
        const value = readLevel(name, input.value);
        input.toggleAttribute("aria-invalid", false);
        if (value === undefined && strict) {
          input.setAttribute("aria-invalid", "true");
          const text = input.value.trim();
          error ||= `Scenario ${index + 1}, ${label}: “${text}” is not an amount such as 10,000 or 64 MiB.`;
        }
        return [name, value ?? readLevel(name, "")];
      }),
    ),
  );
  if (!error && strict)
    candidates.forEach((one, index) => {
      const fault = faultOf(one);
      if (fault) error ||= `Scenario ${index + 1}: ${fault}`;
    });
  return error;
}

byId("add").addEventListener("click", () => {
  suggested = true; // an answer that is awaited replaces no scenario of the user
  read(false);
  /** @type {any} */
  const last = candidates.at(-1) ?? answer?.current;
  candidates.push(
    last ? scaled(last, 2) : completed(Object.entries({ capacity_messages: 1000, resume_messages: 800 })),
  );
  showForm();
  byId("candidates").lastElementChild.querySelector("input").focus();
});

byId("form").addEventListener("submit", (/** @type {any} */ event) => {
  event.preventDefault();
  const error = read();
  byId("wrong").hidden = !error;
  setText(byId("wrong"), error);
  if (error) return;
  writeAddress();
  load();
});

/** Traffic is in the history's files about a minute after it was recorded. */
const SOON = "What was recorded can be simulated a minute later: this page then shows it. Or choose another range.";
const [AGAIN_MS, LATELY_MS] = [10_000, 120_000];
const endsLately = () => Boolean(range.length) || range.until > serverNow() - LATELY_MS;
let lookAgain = 0;

// -- result -------------------------------------------------------------------------------------------------------

const UNREPORTED = "This broker does not report the blocked producers of queues.";
const EXCLUDED = "Simulated figures exclude operators' stops.";
/** @type {any} */
let answer = null;

/** @param {any} one */
function describeLimits(one) {
  const described = UNITS.filter((unit) => one[`capacity_${unit}`]).map(
    (unit) =>
      `${amount(one[`capacity_${unit}`], unit)}${unit === "messages" ? " messages" : ""}` +
      (isOffered(`resume_${unit}`) ? `, resume at ${amount(one[`resume_${unit}`], unit)}` : ""),
  );
  return described.length ? described.join("; ") : "no limit";
}

/** @param {any} one */
const limitsTitle = (one) => OFFERED.map(([name, label]) => `${label}: ${levelInWords(one, String(name))}`).join("\n");

/**
 * Return a link to the policy editor with these limits entered, or null.
 *
 * @param {any} limits
 * @param {any} current
 */
function applyLink(limits, current) {
  const url = policyUrl(key, limits, current);
  return url ? h("a", { href: url }, "Edit policy") : null;
}

/**
 * @param {any} one
 * @param {string} label
 * @param {any} current
 * @param {any} observed
 */
function outcomeRow(one, label, current, observed) {
  /** @param {string} name */
  const change = (name) => {
    if (one === current || (name === "blocked_ms" && one.blocked_high_ms === null)) return "";
    const [low, high] = name.endsWith("_ms") ? [name.replace("_ms", "_low_ms"), name.replace("_ms", "_high_ms")] : [];
    if (low && high && low in one) return one[high] < current[low] ? "best" : one[low] > current[high] ? "worse" : "";
    return !current[name] || one[name] === current[name] ? "" : one[name] < current[name] ? "best" : "worse";
  };
  return h(
    "tr",
    { class: one === current ? "now" : "" },
    h(
      "th",
      { scope: "row", title: limitsTitle(one) },
      h("strong", {}, label),
      h("small", { class: "muted limits-words" }, describeLimits(one)),
    ),
    h("td", {}, countRange(one.episodes_low, one.episodes_high)),
    h(
      "td",
      {
        class: change("overfull_ms"),
        title: `${percent(one.overfull_low_ms, observed)} to ${percent(one.overfull_high_ms, observed)} of the time`,
      },
      durations(one.overfull_low_ms, one.overfull_high_ms),
    ),
    h(
      "td",
      one.blocked_high_ms === null
        ? { title: UNREPORTED }
        : { class: change("blocked_ms"), title: `${exact(one.blocked_low_ms)} to ${exact(one.blocked_high_ms)} ms` },
      one.blocked_high_ms === null ? "–" : durations(one.blocked_low_ms, one.blocked_high_ms),
    ),
    h("td", { class: change("longest_ms"), title: `${exact(one.longest_ms)} ms` }, duration(one.longest_ms)),
    h("td", { title: exactAmount(one.peak_messages, "messages") }, count(one.peak_messages)),
    h("td", { class: change("peak_bytes"), title: exactAmount(one.peak_bytes, "bytes") }, bytes(one.peak_bytes)),
    h("td", {}, one === current ? null : applyLink(one, current)),
  );
}

/**
 * @param {number} low
 * @param {number} high
 */
const countRange = (low, high) => (low === high ? exact(low) : `${exact(low)} to ${exact(high)}`);

/**
 * @param {any} advice
 * @param {any} current
 */
function showAdvice(advice, current) {
  const use = advice.limits
    ? h(
        "p",
        {},
        h(
          "button",
          {
            type: "button",
            on: {
              click: () => {
                suggested = true;
                read(false);
                candidates.unshift(Object.fromEntries(LIMITS.map(([name]) => [name, advice.limits[name]])));
                candidates.length = Math.min(candidates.length, MOST);
                showForm();
                writeAddress();
                load();
              },
            },
          },
          "Add as scenario",
        ),
        " ",
        applyLink(advice.limits, current),
      )
    : null;
  fill(byId("advice"), h("p", {}, h("strong", {}, advice.text)), use);
}

/** @param {any} result */
const difference = (result) =>
  `Actual: ${duration(result.recorded_blocked_ms)} of blocked producer time, the sum over all producers, by any ` +
  `cause; overfull for ${duration(result.recorded_overfull_ms)}, under the limits of that time. Simulated: under ` +
  "the limits of each row; blocked producer time is the overfull time times " +
  `${Math.round(result.blocked_producers * 10) / 10} producers, the recorded mean. ${EXCLUDED}`;

/** @param {any} result */
function show(result) {
  answer = result;
  setText(byId("caveat"), result.caveat);
  byId("caveat").hidden = false;
  byId("differ").hidden = true;
  if (!result.current) {
    fill(byId("advice"), h("p", { class: "muted" }, "Not enough recorded traffic in this range for a recommendation."));
    setText(byId("observed"), "");
    showEmpty(
      byId("outcome"),
      "No recorded traffic in this range; logs alone are not enough. ",
      endsLately() ? SOON : "Choose another range.",
    );
    if (endsLately()) lookAgain = setTimeout(() => document.hidden || load(), AGAIN_MS);
    return;
  }
  showAdvice(result.advice, result.current);
  setText(
    byId("observed"),
    `from ${duration(result.observed_ms)} of ` +
      `${result.source === "samples" ? "samples" : "one-minute values"}; overfull, actual: ` +
      `${duration(result.recorded_overfull_ms)}` +
      (result.recorded_blocked_ms === null
        ? ""
        : `; blocked producer time, actual: ${duration(result.recorded_blocked_ms)}`),
  );
  setText(byId("differ"), result.recorded_blocked_ms === null ? `${UNREPORTED} ${EXCLUDED}` : difference(result));
  byId("differ").hidden = false;
  const head = [
    "Limits",
    "Episodes",
    "Overfull, simulated",
    "Blocked producer time, simulated",
    "Longest, at most",
    "Peak, messages",
    "Peak use",
  ].map((label) => h("th", { scope: "col" }, label));
  head.push(h("th", { scope: "col" }, h("span", { class: "sr" }, "Policy")));
  const rows = [
    outcomeRow(result.current, "Current", result.current, result.observed_ms),
    ...result.candidates.map((/** @type {any} */ one, /** @type {any} */ index) =>
      outcomeRow(one, `Scenario ${index + 1}`, result.current, result.observed_ms),
    ),
  ];
  fill(
    byId("outcome"),
    h(
      "div",
      { class: "table-box", tabindex: "0", role: "region", "aria-label": "Simulation results" },
      h("table", { class: "grid what-if-table" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows)),
    ),
  );
  if (!suggested) suggest(result);
}

/**
 * Add two scenarios to a page without any: twice and four times the effective limits.
 *
 * @param {any} options
 */
function suggest({ current }) {
  suggested = true;
  const limited = current.capacity_messages || current.capacity_bytes;
  if (!limited) return;
  candidates = [2, 4].map((factor) => scaled(current, factor));
  showForm();
  load();
}

function load() {
  clearTimeout(lookAgain);
  range.renew();
  byId("shortened").hidden = !range.isShortened;
  byId("queue-link").href = historyQueueUrl(
    key,
    range.length ? { range: range.length } : { from: addressMoment(range.from), until: addressMoment(range.until) },
  );
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
showForm(); // at once: the form can be used before the history answers, and what is entered stays
begin((/** @type {any} */ catalog) => {
  const ours = catalog.brokers.find((/** @type {any} */ one) => one.broker === key.broker);
  if (ours) range.known = [ours];
}, load);
