// Import and export of all policies as one YAML file: loaded from the broker, compared with it, applied to it.

import { get, post } from "../core/api.js";
import { watch } from "../core/connection.js";
import { byId, fill, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { toast } from "../core/toast.js";
import { changesList } from "../widgets/change_dialog.js";
import { field } from "../widgets/fields.js";
import { showPreview } from "../widgets/policy_preview.js";

const LIST_LIMIT = 200;
const yaml = byId("yaml");
const prune = byId("prune");
const apply = byId("apply");
const box = byId("difference");
const problem = byId("problem");
const reason = field(
  { name: "reason", kind: "string", unit: "", nullable: false, required: false, choices: [] },
  { label: "Reason", hint: "Recorded in the audit trail." },
);
fill(byId("reason"), reason.element);

/** @type {any} */
let compared = null; // {yaml, prune, digest} of the diff on the page

/** @param {...any} content */
function showProblem(...content) {
  problem.hidden = content.length === 0;
  fill(problem, ...content);
}

function enableApply() {
  apply.disabled = !compared || compared.yaml !== yaml.value || compared.prune !== prune.checked;
}

/** @param {any} error */
function wrong(error) {
  const lines = Object.entries(error.fields ?? {});
  showProblem(
    lines.length > 1
      ? h("p", {}, h("strong", {}, `${lines.length} errors in the file`))
      : h("p", {}, lines.length ? h("strong", {}, "Invalid file") : error.message),
    lines.length
      ? h(
          "ul",
          {},
          lines.slice(0, LIST_LIMIT).map(([place, text]) => h("li", {}, h("code", {}, place), ` ${text}`)),
        )
      : "",
  );
}

/** @param {any} result */
function problems(result) {
  const lines = Object.values(result.problems);
  return lines.length
    ? h(
        "div",
        { class: "notice error" },
        h(
          "ul",
          {},
          lines.slice(0, LIST_LIMIT).map((text) => h("li", {}, text)),
        ),
      )
    : null;
}

async function compare() {
  compared = null;
  enableApply();
  showProblem();
  box.setAttribute("aria-busy", "true");
  try {
    const given = { yaml: yaml.value, prune: prune.checked };
    const result = await post("policies/file/", { ...given, dry_run: true });
    const effect = h("div", { class: "stack" });
    if (result.preview && result.changes.length) showPreview(effect, result.preview);
    const more = result.changes.length - LIST_LIMIT;
    fill(
      box,
      h(
        "p",
        {},
        h(
          "strong",
          {},
          result.changes.length
            ? `${plural(result.changes.length, "object")} would change.`
            : Object.keys(result.problems).length
              ? "No changes possible."
              : "No differences.",
        ),
      ),
      problems(result),
      changesList(result.changes.slice(0, LIST_LIMIT)),
      more > 0 ? h("p", { class: "muted" }, `${plural(more, "more change")}`) : null,
      result.left_alone.length
        ? h(
            "p",
            { class: "muted" },
            `${plural(result.left_alone.length, "object")} not in the file ` +
              `${result.left_alone.length === 1 ? "remains" : "remain"} unchanged.`,
          )
        : null,
      effect,
    );
    if (result.changes.length) compared = { ...given, digest: result.digest };
  } catch (error) {
    fill(box, h("p", { class: "muted" }, "No diff."));
    wrong(error);
  } finally {
    box.removeAttribute("aria-busy");
    enableApply();
  }
}

byId("import").addEventListener("submit", async (/** @type {any} */ event) => {
  event.preventDefault();
  if (apply.disabled) return;
  apply.disabled = true;
  showProblem();
  try {
    /** @type {any} */
    const result = await post("policies/file/", { ...compared, reason: reason.input.value.trim() });
    const failed = result.applied.filter((/** @type {any} */ each) => each.outcome !== "done");
    compared = null;
    fill(
      box,
      h("p", {}, h("strong", {}, `${plural(result.applied.length - failed.length, "object")} changed.`)),
      problems(result),
      failed.length
        ? h(
            "div",
            { class: "notice error" },
            h("p", {}, `${plural(failed.length, "object")} not changed:`),
            h(
              "ul",
              {},
              failed.map((/** @type {any} */ each) =>
                h("li", {}, h("strong", {}, each.object.replace(/^type=/, "")), ` ${each.outcome}: ${each.detail}`),
              ),
            ),
          )
        : null,
      h("p", {}, "Each change is recorded in the ", h("a", { href: "/audit/" }, "audit trail"), "."),
    );
    toast(failed.length ? "Some objects could not be changed." : "Applied.", failed.length ? "error" : "done");
  } catch (error) {
    apply.disabled = false;
    wrong(error);
  }
});

byId("compare").addEventListener("click", compare);
yaml.addEventListener("input", enableApply);
prune.addEventListener("change", () => (compared ? compare() : enableApply()));
byId("take").addEventListener("click", async () => {
  try {
    yaml.value = (await get("policies/file/")).yaml;
    enableApply();
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
