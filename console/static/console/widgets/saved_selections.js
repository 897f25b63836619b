// Saved selections of queues: select, save and delete.

import { get, post, remove } from "../core/api.js";
import { fill, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { may } from "../core/permissions.js";
import { toast } from "../core/toast.js";
import { quickWord } from "./filter_chips.js";
import { stateWord } from "./states.js";

const path = (number = "") => `selections/${number ? `${number}/` : ""}`;

/** Load the selections that the user can use, sorted by name. */
export const savedSelections = () => get(path());

/**
 * Describe a selection.
 *
 * @param {any} options
 */
export function inWords({ search, states, only = [], queues }) {
  if (queues) return plural(queues.length, "queue");
  return [
    search ? `“${search}” in the name` : "",
    states.map(stateWord).join(" or ").toLowerCase(),
    ...only.map(quickWord),
  ]
    .filter(Boolean)
    .join(", ");
}

/**
 * Return the options of a <select>: the user's selections before shared ones.
 *
 * @param {any} saved
 * @param {any} first
 */
export function options(saved, first) {
  /**
   * @param {string} label
   * @param {any} some
   */
  const group = (label, some) =>
    some.length
      ? h(
          "optgroup",
          { label },
          some.map((/** @type {any} */ each) =>
            h(
              "option",
              { value: each.id, title: inWords(each) },
              each.own ? each.name : `${each.name} (${each.owner})`,
            ),
          ),
        )
      : null;
  return [
    h("option", { value: "" }, first),
    group(
      "Yours",
      saved.filter((/** @type {any} */ each) => each.own),
    ),
    group(
      "Shared",
      saved.filter((/** @type {any} */ each) => !each.own),
    ),
  ].filter(Boolean);
}

/** A <select> of saved selections that calls `choose(selection or null)`, with a button to delete the selected one. */
export class SavedChooser {
  #box;
  #select = h("select", { id: "saved", "aria-label": "Saved selections" });
  #delete = h("button", { type: "button", class: "quiet", hidden: true }, "Delete");
  /** @type {any[]} */
  #saved = [];

  /**
   * @param {HTMLElement} box
   * @param {(...given: any[]) => any} choose
   */
  constructor(box, choose) {
    this.#box = box;
    fill(box, this.#select, this.#delete);
    this.#select.addEventListener("change", () => {
      this.#show();
      choose(this.#chosen());
    });
    this.#delete.addEventListener("click", async () => {
      const chosen = this.#chosen();
      try {
        await remove(path(chosen.id));
        toast(`Deleted selection ${chosen.name}.`);
        await this.load();
      } catch (error) {
        toast(error.message, "error");
      }
    });
    this.load();
  }

  async load(number = "") {
    try {
      this.#saved = await savedSelections();
    } catch {
      this.#saved = []; // the connection banner reports the problem
    }
    fill(this.#select, options(this.#saved, "Saved selections"));
    this.#select.value = number;
    this.#show();
  }

  /** Clear the choice: the page no longer shows it. */
  forget() {
    if (!this.#select.value) return;
    this.#select.value = "";
    this.#show();
  }

  #chosen() {
    return this.#saved.find((each) => String(each.id) === this.#select.value) ?? null;
  }

  #show() {
    this.#box.hidden = this.#saved.length === 0;
    this.#delete.hidden = !this.#chosen()?.own;
  }
}

/**
 * Open a dialog for the name, and save {search, states, only} or {queues}; then call `done(selection)`.
 *
 * @param {any} what
 * @param {(...given: any[]) => any} done
 */
export function openSaveDialog(what, done) {
  const name = h("input", {
    type: "text",
    id: "selection-name",
    maxlength: "80",
    required: true,
    placeholder: "e.g. queues of the shop",
  });
  const shared = h("input", { type: "checkbox", id: "selection-shared", disabled: !may("operate") });
  const problem = h("div", { class: "notice error", role: "alert", hidden: true });
  const form = h(
    "form",
    { method: "dialog", novalidate: true },
    h("h2", { id: "save-title" }, "Save this selection"),
    h(
      "p",
      {},
      inWords(what),
      h("br"),
      h("span", { class: "muted" }, what.queues ? "These queues, by name." : "Dynamic (re-evaluated on use)."),
    ),
    h("label", { class: "field" }, h("span", {}, "Name"), name),
    h(
      "label",
      { class: "sure" },
      shared,
      h("span", {}, "Share with all users", may("operate") ? "" : " (requires the role of operator)"),
    ),
    problem,
    h(
      "div",
      { class: "dialog-actions" },
      h("button", { type: "button", class: "quiet", on: { click: () => dialog.close() } }, "Cancel"),
      h("button", { type: "submit", class: "primary" }, "Save"),
    ),
  );
  const dialog = h("dialog", { class: "dialog", id: "save-dialog", "aria-labelledby": "save-title" }, form);
  dialog.addEventListener("close", () => dialog.remove());
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    try {
      const made = await post(path(), { ...what, name: name.value.trim(), shared: shared.checked });
      dialog.close();
      toast(`Saved as ${made.name}.`);
      done(made);
    } catch (error) {
      problem.hidden = false;
      fill(problem, h("p", {}, error.message));
      name.focus();
    }
  });
  document.body.append(dialog);
  dialog.showModal();
  name.focus();
}
