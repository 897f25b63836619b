// All policies as a file: taken from the broker, compared with it, and applied object by object.

import { get, post } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { toast } from "../core/toast.js";
import { changesList } from "../widgets/change_dialog.js";
import { field } from "../widgets/fields.js";
import { showPreview } from "../widgets/policy_preview.js";

const MOST_SHOWN = 200;
const yaml = byId("yaml");
const prune = byId("prune");
const apply = byId("apply");
const box = byId("difference");
const problem = byId("problem");
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Kept in the audit trail." },
);
fill(byId("reason"), reason.element);

/** @type {any} */
let compared = null; // {yaml, prune, digest} that is shown

/** @param {...any} content */
function tell(...content) {
  problem.hidden = content.length === 0;
  fill(problem, ...content);
}

function outdated() {
  apply.disabled = !compared || compared.yaml !== yaml.value || compared.prune !== prune.checked;
}

/** @param {any} error */
function wrong(error) {
  const lines = Object.entries(error.fields ?? {});
  tell(
    lines.length > 1
      ? h("p", {}, h("strong", {}, `${lines.length} faults in the file`))
      : h("p", {}, lines.length ? h("strong", {}, "The file cannot be used") : error.message),
    lines.length
      ? h(
          "ul",
          {},
          lines.slice(0, MOST_SHOWN).map(([place, text]) => h("li", {}, h("code", {}, place), ` ${text}`)),
        )
      : "",
  );
}

/** @param {any} told */
function problems(told) {
  const lines = Object.values(told.problems);
  return lines.length
    ? h(
        "div",
        { class: "notice error" },
        h(
          "ul",
          {},
          lines.slice(0, MOST_SHOWN).map((text) => h("li", {}, text)),
        ),
      )
    : null;
}

async function compare() {
  compared = null;
  outdated();
  tell();
  box.setAttribute("aria-busy", "true");
  try {
    const asked = { yaml: yaml.value, prune: prune.checked };
    const told = await post("policies/file/", { ...asked, dry_run: true });
    const effect = h("div", { class: "stack" });
    if (told.preview && told.changes.length) showPreview(effect, told.preview);
    const more = told.changes.length - MOST_SHOWN;
    fill(
      box,
      h(
        "p",
        {},
        h(
          "strong",
          {},
          told.changes.length
            ? `${plural(told.changes.length, "object")} would change.`
            : Object.keys(told.problems).length
              ? "Nothing can be changed."
              : "Nothing differs.",
        ),
      ),
      problems(told),
      changesList(told.changes.slice(0, MOST_SHOWN)),
      more > 0 ? h("p", { class: "muted" }, `and ${plural(more, "more change")}`) : null,
      told.left_alone.length
        ? h(
            "p",
            { class: "muted" },
            `${plural(told.left_alone.length, "object")} that the file does not name ` +
              `${told.left_alone.length === 1 ? "is" : "are"} left alone.`,
          )
        : null,
      effect,
    );
    if (told.changes.length) compared = { ...asked, digest: told.digest };
  } catch (error) {
    fill(box, h("p", { class: "muted" }, "Nothing to compare yet."));
    wrong(error);
  } finally {
    box.removeAttribute("aria-busy");
    outdated();
  }
}

byId("import").addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (apply.disabled) return;
  apply.disabled = true;
  tell();
  try {
    /** @type {any} */
    const told = await post("policies/file/", { ...compared, reason: reason.input.value.trim() });
    const failed = told.applied.filter((/** @type {any} */ each) => each.outcome !== "done");
    compared = null;
    fill(
      box,
      h(
        "p",
        {},
        h("strong", {}, `${plural(told.applied.length - failed.length, "object is", "objects are")} changed.`),
      ),
      problems(told),
      failed.length
        ? h(
            "div",
            { class: "notice error" },
            h("p", {}, `${plural(failed.length, "object is", "objects are")} not:`),
            h(
              "ul",
              {},
              failed.map((/** @type {any} */ each) =>
                h("li", {}, h("strong", {}, each.object.replace(/^type=/, "")), ` ${each.outcome}: ${each.detail}`),
              ),
            ),
          )
        : null,
      h("p", {}, h("a", { href: "/audit/" }, "Each change is a row of the audit"), "."),
    );
    toast(
      failed.length ? "Not everything could be changed." : "Applied. It is in force now.",
      failed.length ? "error" : "done",
    );
  } catch (error) {
    apply.disabled = false;
    wrong(error);
  }
});

byId("compare").addEventListener("click", compare);
yaml.addEventListener("input", outdated);
prune.addEventListener("change", () => (compared ? compare() : outdated()));
byId("take").addEventListener("click", async () => {
  try {
    yaml.value = (await get("policies/file/")).yaml;
    outdated();
  } catch (error) {
    wrong(error);
  }
});
byId("open").addEventListener("change", async (/** @type {any} */ event) => {
  const [file] = event.target.files;
  if (!file) return;
  yaml.value = await file.text();
  event.target.value = "";
  compare();
});
watch({ watch: "objects", object: "" });
