// Selections of queues that are saved under a name: choosing, saving and deleting them.

import { get, post, remove } from "../core/api.js";
import { fill, h } from "../core/elements.js";
import { plural } from "../core/format.js";
import { may } from "../core/permissions.js";
import { toast } from "../core/toast.js";
import { stateWord } from "./states.js";

const path = (number = "") => `selections/${number ? `${number}/` : ""}`;

/** All that this viewer may use, by name. */
export const savedSelections = () => get(path());

/**
 * What it selects, in words.
 *
 * @param {any} options
 */
export function inWords({ search, states, queues }) {
  if (queues) return plural(queues.length, "queue");
  return [search ? `“${search}” in the name` : "", states.map(stateWord).join(" or ").toLowerCase()]
    .filter(Boolean)
    .join(", ");
}

/**
 * Options of a <select>: own ones before those of others.
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

/** A <select> of them that calls `choose(selection or null)`; with a button that deletes the chosen one. */
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
        toast(`The selection ${chosen.name} is deleted.`);
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
      this.#saved = []; // the banner tells what is wrong
    }
    fill(this.#select, options(this.#saved, "Saved selections"));
    this.#select.value = number;
    this.#show();
  }

  /** Whatever was chosen is no longer what is shown. */
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
 * Ask for a name and save {search, states} or {queues}; `done(selection)`.
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
    placeholder: "Such as: queues of the shop",
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
      h("span", { class: "muted" }, what.queues ? "These queues, by their names." : "Found anew each time it is used."),
    ),
    h("label", { class: "field" }, h("span", {}, "Name"), name),
    h(
      "label",
      { class: "sure" },
      shared,
      h("span", {}, "Share it with everybody", may("operate") ? "" : ": that needs an operator"),
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
