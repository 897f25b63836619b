// The policy of one scope: overrides, effective values and their origins. Edits are previewed, then applied.

import { get, objectPath, patch, post, query, remove } from "../core/api.js";
import { UNKNOWN, whenBack } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { byId, fill, find, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { formatName, objectUrl, parseName, shortName } from "../core/object_names.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { ChangedBy } from "../widgets/changed_by.js";
import { field } from "../widgets/fields.js";
import { fieldText, fieldValue, inRows, labelOf, origin, scopeUrl } from "../widgets/policy_fields.js";
import { showOverrides, showPreview } from "../widgets/policy_preview.js";

const TYPING = 300; // ms, the least; a preview that took long is not asked for with every key
const HINT = "Change a value to preview its impact on queues and producers before it is saved.";
const form = byId("policy");
const apply = byId("apply");
const problem = byId("problem");
const box = byId("preview");

const declared = inRows(settings.policy);
const fields = declared.map((each) => field(each, { inherits: true, label: labelOf(each), changed: typed }));
const priority = field(
  { name: "priority", kind: "integer", unit: "", nullable: false, required: false, choices: [], description: "" },
  {
    label: "Priority",
    hint: "Decides between patterns of equal specificity: the higher priority wins. Not set: 0.",
    changed: typed,
  },
);
const pattern = field(
  { name: "pattern", kind: "string", unit: "", nullable: false, required: true, choices: [], description: "" },
  {
    label: "Pattern",
    placeholder: "orders.>",
    hint: "* matches one word; > or # at the end matches any number of words.",
    changed: typed,
  },
);
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Recorded in the audit trail." },
);
const inForce = new Map();
const isPattern = settings.new || settings.type === "Policy";
const all = [...(settings.new ? [pattern] : []), ...(isPattern ? [priority] : []), ...fields];

/** @type {any} */
let version = null;
/** @type {Record<string, string>} */
let start = {}; // what the object sets
/** @type {any} */
let explained = null;
/** @type {any} */
let previewed = null; // the change that was previewed last, as JSON

// -- the form -------------------------------------------------------------------------------------------------------

function build() {
  fill(byId("reason"), reason.element);
  byId("head-fields").hidden = !isPattern;
  fill(byId("head-fields"), settings.new ? pattern.element : null, isPattern ? priority.element : null);
  fill(
    byId("values"),
    fields.map((f) => {
      const cells = [
        h("td", { class: "effective", "data-label": "Effective value" }),
        h("td", { class: "muted", "data-label": "Origin" }),
      ];
      inForce.set(f.declared.name, cells);
      find("label", f.element).classList.add("sr");
      return h(
        "tr",
        {},
        h(
          "th",
          { scope: "row" },
          labelOf(f.declared),
          h("small", { class: "muted says-field" }, f.declared.description),
        ),
        h("td", { class: "here" }, f.element),
        ...cells,
      );
    }),
  );
  for (const f of all) if (!settings.mayEdit) f.input.disabled = false; // viewers may preview, too
}

/** @param {any} f */
const setHere = (f) => (f.declared.name === "priority" ? (start.priority ?? 0) : (start[f.declared.name] ?? null));
/**
 * @param {any} a
 * @param {any} b
 */
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

/** @param {any} f */
function read(f) {
  const value = f.read();
  return f === priority ? (value ?? 0) : value;
}

/** What differs from what is set: {field: value}. Throws for what cannot be read. */
function changes() {
  return Object.fromEntries(
    [...(isPattern ? [priority] : []), ...fields]
      .map((f) => [f.declared.name, read(f)])
      .filter(([name, value]) => !same(value, name === "priority" ? (start.priority ?? 0) : start[name])),
  );
}

/**
 * Show what is there; what was typed stays, what was not follows.
 *
 * @param {any} object
 * @param {any} told
 */
function show(object, told) {
  const untouched = all.filter((f) => {
    try {
      return f !== pattern && same(read(f), setHere(f));
    } catch {
      return false;
    }
  });
  explained = told;
  version = object?.version ?? null;
  start = settings.new ? {} : object.attributes;
  for (const f of untouched) f.set(f === priority ? start.priority || null : start[f.declared.name]);
  for (const [name, [value, from]] of inForce) {
    const { [name]: now } = explained.fields;
    const f = /** @type {any} */ (fields.find((each) => each.declared.name === name));
    const inherited = explained.inherited[name];
    const without = `${fieldText(name, inherited.value)} (${origin(inherited.origin)})`;
    if (f.input.tagName === "SELECT") f.input.options[0].textContent = without;
    else f.input.placeholder = without;
    f.element.parentElement.parentElement.classList.toggle("is-set", !same(start[name], null));
    fill(value, fieldValue(name, now.value));
    fill(from, same(start[name], null) ? origin(now.origin) : "this scope");
  }
  const queues =
    object?.attributes?.queues ??
    (settings.type === "Exchange"
      ? new Set(object.attributes.bindings.map((/** @type {any} */ b) => b.queue)).size
      : null);
  byId("scope-says").textContent = settings.new
    ? ""
    : queues === null
      ? ""
      : settings.type === "Policy"
        ? `best match for ${plural(queues, "queue")}`
        : `applies to ${plural(queues, "queue")}`;
}

/** @type {any} */
let loading = null;
let saving = false; // from Apply until its answer is shown: a version that is pushed meanwhile may be our own
let pushed = 0; // the newest version that was pushed meanwhile
const changedBy = new ChangedBy(settings.object);

/** Ask for what is there; once at a time, lest a late answer shows what somebody else changed without a word. */
function load() {
  loading ??= ask().finally(() => {
    loading = null;
  });
  return loading;
}

async function ask() {
  const path = objectPath(settings.broker, settings.object);
  try {
    const [object, told, newest] = await Promise.all([
      get(path),
      post(`${path}operations/explain/`, { arguments: {} }),
      settings.new ? null : changedBy.newest(),
    ]);
    if (!conflicts) changedBy.shows(newest);
    if (settings.new) {
      told.inherited = told.fields; // a new pattern would inherit what holds in its virtual host
    }
    byId("gone").hidden = true;
    form.hidden = false;
    /** @type {any} */
    const first = !explained;
    show(object, told);
    if (first) typed(); // by somebody who was faster than the broker
  } catch (error) {
    gone(error);
  }
}

/** @param {any} error */
function gone(error) {
  byId("gone").hidden = false;
  const missing = error.status === 404;
  form.hidden = missing || !explained;
  fill(
    byId("gone"),
    h("p", {}, h("strong", {}, missing ? "This scope does not exist. " : ""), error.message),
    h("p", {}, h("a", { href: "/policies/" }, "All policies")),
  );
}

// -- the preview ----------------------------------------------------------------------------------------------------

let pause = 0;
let took = 0; // ms, the last preview
/** @type {any} */
let asked = null;

function typed() {
  if (!explained || shown() || nothing()) return; // leaving a field changes nothing
  clearTimeout(pause);
  asked?.abort();
  apply.disabled = true;
  byId("discard").hidden = false;
  if (!all.map((f) => (f === pattern && !pattern.input.value.trim() ? false : f.check())).every(Boolean)) return;
  pause = setTimeout(preview, Math.min(2000, Math.max(TYPING, took)));
}

/** Whether nothing is typed, and nothing was previewed. */
function nothing() {
  try {
    return previewed === null && problem.hidden && !pattern.input.value && !Object.keys(changes()).length;
  } catch {
    return false;
  }
}

/** Whether what is typed is what the preview shows. */
function shown() {
  try {
    return JSON.stringify(change()) === previewed;
  } catch {
    return false;
  }
}

const objectName = () =>
  settings.new ? formatName("Policy", { virtualhost: settings.new, pattern: pattern.read() }) : settings.object;
/** @type {any} */
const change = () => ({
  object: objectName(),
  action: settings.new ? "create" : "update",
  attributes: changes(),
  ...(settings.new ? {} : { version }),
});

async function preview() {
  const wanted = change();
  if (!settings.new && !Object.keys(wanted.attributes).length) {
    tell();
    byId("discard").hidden = true;
    fill(box, h("p", { class: "muted" }, HINT));
    return;
  }
  asked = new AbortController();
  box.setAttribute("aria-busy", "true");
  try {
    const began = performance.now();
    const told = await post("policies/preview/", { changes: [wanted] }, asked.signal);
    took = performance.now() - began;
    tell();
    showPreview(box, told);
    ready(wanted);
    if (!told.changed && told.queues && isPattern) await overrides(wanted);
  } catch (error) {
    if (error.name === "AbortError") return;
    fill(
      box,
      h(
        "p",
        { class: "muted" },
        error.status === 404 ? "" : error.status === 503 ? UNKNOWN : "No preview: the change is not valid.",
      ),
    );
    if (error.status === 409 && !settings.new) await conflict();
    else wrong(error);
  } finally {
    box.removeAttribute("aria-busy");
  }
}

/**
 * Why a pattern that matches queues changes nothing: what they set themselves.
 *
 * @param {any} wanted
 */
async function overrides(wanted) {
  const { keys } = /** @type {any} */ (parseName(wanted.object));
  try {
    /** @type {any} */
    const { queues } = await post(
      "policies/bulk/preview/",
      { selection: { search: "", pattern: keys.pattern, states: [] } },
      asked.signal,
    );
    if (previewed === JSON.stringify(wanted))
      showOverrides(
        box,
        queues.filter((/** @type {any} */ queue) => queue.virtualhost === keys.virtualhost),
        Object.keys(wanted.attributes),
      );
  } catch {
    // The preview stands without it.
  }
}

/** @param {any} wanted */
function ready(wanted) {
  previewed = JSON.stringify(wanted);
  apply.disabled = false;
}

/** @param {...any} content */
function tell(...content) {
  problem.hidden = content.length === 0;
  fill(problem, h("div", {}, ...content));
  if (!content.length) for (const f of all) f.wrong("");
}

/** @param {any} error */
function wrong(error) {
  previewed = null;
  const left = [];
  for (const f of all) f.wrong(error.fields?.[f.declared.name] ?? "");
  for (const [name, text] of Object.entries(error.fields ?? {}))
    if (!all.some((f) => f.declared.name === name)) left.push(text);
  tell(h("p", {}, left.join(" ") || error.message));
  if (Object.keys(error.fields ?? {}).length) for (const f of all) f.wrong(error.fields[f.declared.name] ?? "");
}

let conflicts = 0; // that are being shown

/** Another change came first: show what is there now, keep what was typed, preview that on top. */
async function conflict() {
  const at = Date.now();
  clearTimeout(pause);
  asked?.abort();
  const before = start;
  conflicts += 1;
  await load().finally(() => {
    conflicts -= 1;
  });
  const lines = fields
    .filter((f) => !same(before[f.declared.name], start[f.declared.name]))
    .map((f) =>
      h(
        "li",
        {},
        h("strong", {}, labelOf(f.declared)),
        `: ${fieldText(f.declared.name, before[f.declared.name])} → ` +
          `${fieldText(f.declared.name, start[f.declared.name])}`,
      ),
    );
  try {
    if (Object.keys(changes()).length) await preview();
  } catch {
    // What is typed cannot be read: its field says so.
  }
  tell(
    h("p", {}, changedBy.sentence(at)),
    lines.length ? h("ul", {}, lines) : null,
    h("p", {}, "Your edits are preserved, and the preview includes both changes."),
  );
}

// -- apply, discard, remove -------------------------------------------------------------------------------------------

form.addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (!all.map((f) => f.check()).every(Boolean)) {
    form.querySelector('[aria-invalid="true"]')?.focus();
    return;
  }
  const wanted = change();
  if (!shown()) {
    await preview(); // what is applied is what was shown
    return;
  }
  apply.disabled = true;
  saving = true;
  const why = reason.input.value.trim();
  try {
    if (settings.new) {
      const given = Object.fromEntries(Object.entries(wanted.attributes).filter(([, value]) => value !== null));
      await post(`brokers/${encodeURIComponent(settings.broker)}/objects/`, {
        object: wanted.object,
        attributes: given,
        reason: why,
      });
      location.assign(scopeUrl(wanted.object));
      return;
    }
    /** @type {any} */
    const saved = await patch(objectPath(settings.broker, settings.object), {
      version,
      attributes: wanted.attributes,
      reason: why,
    });
    start = saved.attributes; // so that nothing counts as typed any more
    version = saved.version;
    toast("Applied.");
    reset();
    await loading; // one that began before is of what was there before
    await load();
  } catch (error) {
    apply.disabled = false;
    if ((error.status === 409 || pushed > version) && !settings.new) await conflict();
    else wrong(error);
  } finally {
    saving = false;
  }
});

function reset() {
  reason.input.value = "";
  previewed = null;
  apply.disabled = true;
  byId("discard").hidden = true;
  for (const f of all) f.set(f === priority ? start.priority || null : start[f.declared.name]);
  for (const f of all) f.check();
  tell();
  fill(box, h("p", { class: "muted" }, HINT));
}

form.addEventListener("reset", (/** @type {any} */ event) => {
  event.preventDefault();
  reset();
});

byId("remove")?.addEventListener("click", () => {
  /** @type {any} */
  const at = version;
  openChangeDialog({
    title: `Remove the policy of ${shortName(settings.object)}`,
    action: "Remove",
    danger: true,
    load: async () => ({
      preview: await post("policies/preview/", {
        changes: [{ object: settings.object, action: "delete", version: at }],
      }),
    }),
    async apply(/** @type {any} */ why) {
      await remove(objectPath(settings.broker, settings.object) + query({ version: at, reason: why }));
      location.assign("/policies/");
    },
  });
});

// -- begin ------------------------------------------------------------------------------------------------------------

build();
if (byId("browse"))
  byId("browse").href =
    settings.type === "Queue" ? objectUrl(settings.object) : `/objects/?object=${encodeURIComponent(settings.object)}`;
if (byId("browse") && settings.type === "Queue") byId("browse").textContent = "Open the queue";
watch({ watch: "objects", object: settings.object });
live.addEventListener("snapshot", (event) => {
  const { object } = event.detail.data;
  if (!object || version === null || object.version <= version || settings.new) return;
  if (saving) {
    pushed = object.version;
    return;
  }
  const dirty = !byId("discard").hidden;
  version = object.version; // once for each version
  if (dirty) conflict();
  else load();
});
live.addEventListener("broker", (event) => event.detail.connected && !explained && load());
whenBack(typed); // what could not be previewed while the broker was away
load();
