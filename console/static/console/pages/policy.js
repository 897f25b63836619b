// The policy of one scope: overrides, effective values and their origins. Edits are previewed, then applied.

import { get, objectPath, patch, post, query, remove } from "../core/api.js";
import { UNKNOWN, whenBack } from "../core/away.js";
import { live, watch } from "../core/connection.js";
import { DebouncedRequest } from "../core/debounced_request.js";
import { byId, fill, find, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { formatName, isolated, ofBroker, parseName, shortName } from "../core/object_names.js";
import { serverNow } from "../core/server_clock.js";
import { settings } from "../core/settings.js";
import { toast } from "../core/toast.js";
import { openChangeDialog } from "../widgets/change_dialog.js";
import { ChangedBy } from "../widgets/changed_by.js";
import { EditProblem } from "../widgets/edit_problem.js";
import { EditSession } from "../widgets/edit_session.js";
import { withHelp } from "../widgets/field_help.js";
import { field } from "../widgets/fields.js";
import { enterInitialValues } from "../widgets/initial_values.js";
import { declaredField, fieldText, fieldValue, inRows, labelOf, origin, scopeUrl } from "../widgets/policy_fields.js";
import { showOverrides, showPreview } from "../widgets/policy_preview.js";

const TYPING = 300; // ms
/** The explanation of a broker that has none: effective values and their origins are unknown. */
const UNEXPLAINED = { fields: {}, inherited: {} };
const HINT = "Change a value to preview its impact on queues and producers before it is saved.";
const form = byId("policy");
const apply = byId("apply");
const discard = byId("discard");
const box = byId("preview");
const problem = new EditProblem(byId("problem"));

const declared = inRows(settings.policy);
const fields = declared.map((each) => field(each, { inherits: true, label: labelOf(each), changed: edited }));
const priority = field(
  { name: "priority", kind: "integer", unit: "", nullable: false, required: false, choices: [], description: "" },
  {
    label: "Priority",
    hint: settings.explains
      ? "Decides between patterns of equal specificity: the higher priority wins. Not set: 0."
      : settings.priorityHint,
    changed: edited,
  },
);
const pattern = field(
  { name: "pattern", kind: "string", unit: "", nullable: false, required: true, choices: [], description: "" },
  {
    label: "Pattern",
    helps: true,
    placeholder: settings.explains ? "orders.>" : "",
    hint: settings.explains
      ? "* matches one word; > or # at the end matches any number of words."
      : settings.patternHint,
    changed: edited,
  },
);
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Recorded in the audit trail." },
);
const isPattern = settings.new || settings.type === "Policy";
const names = settings.new ? [pattern] : [];
const attributes = [...(isPattern && settings.hasPriority ? [priority] : []), ...fields];
const inputs = [...names, ...attributes];
const session = new EditSession(attributes, { keys: names, defaults: { priority: 0 } });
const changedBy = new ChangedBy(settings.object);
const previews = new DebouncedRequest(TYPING);
const effective = new Map(); // name of a field -> its cells of effective value and origin

/** @type {any} */
let explained = null; // effective values, their origins and inherited values; null: not loaded

// -- the form -------------------------------------------------------------------------------------------------------

function build() {
  fill(byId("reason"), reason.element);
  byId("head-fields").hidden = !isPattern;
  fill(
    byId("head-fields"),
    settings.new ? pattern.element : null,
    attributes.includes(priority) ? priority.element : null,
  );
  fill(
    byId("values"),
    fields.map((f) => {
      const cells = [
        h("td", { class: "effective", "data-label": "Effective value" }),
        h("td", { class: "muted", "data-label": "Origin" }),
      ];
      effective.set(f.declared.name, cells);
      find("label", f.element).classList.add("sr");
      return h(
        "tr",
        {},
        h(
          "th",
          { scope: "row" },
          withHelp(h("span", {}, labelOf(f.declared)), f.declared.name),
          h("small", { class: "muted says-field" }, f.declared.description),
        ),
        h("td", { class: "here" }, f.element),
        ...cells,
      );
    }),
  );
  if (!settings.mayEdit) for (const f of inputs) f.input.disabled = false; // viewers can preview
}

/**
 * Show the loaded object: fields without edits follow it. Returns what differs from the version before.
 *
 * @param {any} object
 * @param {any} explanation
 */
function show(object, explanation) {
  explained = explanation;
  const differences = settings.new ? [] : session.rebase(object.attributes, object.version);
  for (const f of /** @type {any[]} */ (fields)) {
    const { name } = f.declared;
    const [value, from] = effective.get(name);
    const inherited = explained.inherited[name];
    const without = inherited?.origin ? `${fieldText(name, inherited.value)} (${origin(inherited.origin)})` : "not set";
    if (f.input.tagName === "SELECT") f.input.options[0].textContent = without;
    else f.input.placeholder = without;
    const overridden = session.loaded(name) !== null;
    f.element.parentElement.parentElement.classList.toggle("is-set", overridden);
    const known = object.attributes[`effective_${name.replace(/^flow_/, "")}`]; // of a queue
    const applies = explained.fields[name] ?? (known === undefined || known === null ? null : { value: known });
    fill(value, applies ? fieldValue(name, applies.value) : overridden ? fieldValue(name, session.loaded(name)) : "–");
    fill(from, overridden ? "this scope" : applies?.origin ? origin(applies.origin) : "–");
  }
  byId("scope-says").textContent = settings.new ? "" : reach(object);
  return differences;
}

/** @param {any} object */
function reach({ attributes: { queues, bindings } }) {
  const exchange = settings.type === "Exchange";
  const number = queues ?? (exchange ? new Set(bindings.map((/** @type {any} */ b) => b.queue)).size : null);
  if (number === null) return "";
  return `${settings.type === "Policy" ? "best match for" : "applies to"} ${plural(number, "queue")}`;
}

/** @type {any} */
let loading = null;
let conflicts = 0; // that are being reported

/** Load the object, one request at a time, so that no late response hides a change by another user. */
function load() {
  loading ??= request().finally(() => {
    loading = null;
  });
  return loading;
}

async function request() {
  const path = objectPath(settings.broker, settings.object);
  try {
    const [object, explanation, newest] = await Promise.all([
      get(path),
      settings.explains ? post(`${path}operations/explain/`, { arguments: {} }) : UNEXPLAINED,
      settings.new ? null : changedBy.newest(),
    ]);
    if (!conflicts) changedBy.shows(newest);
    if (settings.new) explanation.inherited = explanation.fields; // a new pattern inherits from its virtual host
    byId("gone").hidden = true;
    form.hidden = false;
    const first = !explained;
    const differences = show(object, explanation);
    if (first) {
      enterInitialValues(fields, explanation.fields);
      edited(); // before the response
    }
    return differences;
  } catch (error) {
    failed(error);
    return [];
  }
}

/** @param {any} error */
function failed(error) {
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

function edited() {
  if (!explained || isPreviewed() || isUntouched()) return; // also called when a field loses the focus
  previews.cancel();
  apply.disabled = true;
  discard.hidden = false;
  if (settings.new && !pattern.input.value.trim()) for (const f of attributes) f.check();
  else if (session.check()) previews.schedule(preview);
}

function isUntouched() {
  return !session.hasPreview && !problem.shown && !pattern.input.value && !session.dirty;
}

function isPreviewed() {
  try {
    return session.isPreviewed(change());
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
  attributes: session.changes(),
  ...(settings.new ? {} : { version: session.version }),
});

async function preview() {
  const wanted = change();
  if (!settings.new && !Object.keys(wanted.attributes).length) {
    clearErrors();
    discard.hidden = true;
    fill(box, h("p", { class: "muted" }, HINT));
    return;
  }
  box.setAttribute("aria-busy", "true");
  try {
    await previews.send(async (signal) => {
      const impact = await post("policies/preview/", { changes: [wanted] }, signal);
      clearErrors();
      showPreview(box, impact);
      session.previewed(wanted);
      apply.disabled = false;
      if (!impact.changed && impact.queues && isPattern) await overrides(wanted, signal);
    });
  } catch (error) {
    if (error.name === "AbortError") return;
    const none = error.status === 503 ? UNKNOWN : "No preview: the change is not valid.";
    fill(box, h("p", { class: "muted" }, error.status === 404 ? "" : none));
    if (error.status === 409 && !settings.new) await conflict();
    else showErrors(error);
  } finally {
    box.removeAttribute("aria-busy");
  }
}

/**
 * Explain a pattern without effect: list the overrides of the matching queues.
 *
 * @param {any} wanted
 * @param {AbortSignal} signal
 */
async function overrides(wanted, signal) {
  const { keys } = /** @type {any} */ (parseName(wanted.object));
  try {
    /** @type {any} */
    const { queues } = await post(
      "policies/bulk/preview/",
      { selection: { search: "", pattern: keys.pattern, states: [] } },
      signal,
    );
    if (session.isPreviewed(wanted))
      showOverrides(
        box,
        queues.filter((/** @type {any} */ queue) => queue.virtualhost === keys.virtualhost),
        Object.keys(wanted.attributes),
      );
  } catch {
    // The preview is shown without it.
  }
}

function clearErrors() {
  problem.show();
  session.showErrors({});
}

/** @param {any} error */
function showErrors(error) {
  session.previewed(null);
  problem.show(h("p", {}, session.showErrors(error) || error.message));
}

/** Another user saved a change first: show it, preserve the edits, and preview them on top of it. */
async function conflict() {
  const at = serverNow();
  previews.cancel();
  conflicts += 1;
  const differences = await load().finally(() => {
    conflicts -= 1;
  });
  try {
    if (Object.keys(session.changes()).length) await preview();
  } catch {
    // An invalid value: its field shows the error.
  }
  report(at, differences);
}

/**
 * @param {number} at
 * @param {import("../widgets/edit_session.js").Difference[]} differences
 */
function report(at, differences) {
  problem.conflict(
    changedBy.sentence(at),
    differences,
    { label: (name) => labelOf(declaredField(name)), value: fieldText },
    "Your edits are preserved, and the preview includes both changes.",
  );
}

// -- apply, discard, remove -----------------------------------------------------------------------------------------

form.addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (!session.check()) {
    form.querySelector('[aria-invalid="true"]')?.focus();
    return;
  }
  if (!isPreviewed()) {
    await preview(); // only previewed changes are applied
    return;
  }
  apply.disabled = true;
  try {
    const saved = await session.save(settings.new ? create : update);
    if (!settings.new) await applied(saved);
  } catch (error) {
    apply.disabled = false;
    if (session.isConflict(error) && !settings.new) await conflict();
    else showErrors(error);
  }
});

/**
 * @param {number} _version
 * @param {Record<string, any>} changes
 */
async function create(_version, changes) {
  const object = objectName();
  await post(`brokers/${encodeURIComponent(settings.broker)}/objects/`, {
    object,
    attributes: Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== null)),
    reason: reason.input.value.trim(),
  });
  location.assign(scopeUrl(object));
}

/**
 * @param {number} version
 * @param {Record<string, any>} changes
 */
function update(version, changes) {
  return patch(objectPath(settings.broker, settings.object), {
    version,
    attributes: changes,
    reason: reason.input.value.trim(),
  });
}

/**
 * Show the saved object. Not a part of saving: changes by others from now on are reported.
 *
 * @param {{attributes: Record<string, any>, version: number}} saved
 */
async function applied(saved) {
  session.rebase(saved.attributes, saved.version);
  toast("Applied.");
  reset();
  await loading; // a request from before has the values from before
  const at = serverNow();
  const differences = await load();
  if (differences.length && session.dirty && !conflicts) report(at, differences);
}

function reset() {
  reason.input.value = "";
  apply.disabled = true;
  discard.hidden = true;
  session.discard();
  clearErrors();
  fill(box, h("p", { class: "muted" }, HINT));
}

form.addEventListener("reset", (/** @type {any} */ event) => {
  event.preventDefault();
  reset();
});

byId("remove")?.addEventListener("click", () => {
  /** @type {any} */
  const at = session.version;
  openChangeDialog({
    title: `Remove the policy of ${isolated(shortName(settings.object))}`,
    action: "Remove",
    danger: true,
    load: async () => ({
      preview: await post("policies/preview/", {
        changes: [{ object: settings.object, action: "delete", version: at }],
      }),
    }),
    async apply(/** @type {any} */ why) {
      await remove(objectPath(settings.broker, settings.object) + query({ version: at, reason: why }));
      location.assign(ofBroker("/policies/"));
    },
  });
});

// -- start ----------------------------------------------------------------------------------------------------------

build();
watch({ watch: "objects", object: settings.object });
live.addEventListener("snapshot", (event) => {
  const { object } = event.detail.data;
  if (!object || !explained || settings.new || !session.arrives(object.version)) return;
  if (discard.hidden) load();
  else conflict();
});
live.addEventListener("broker", (event) => event.detail.connected && !explained && load());
whenBack(edited); // previews what failed while the broker was disconnected
load();
