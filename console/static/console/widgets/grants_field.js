// The permissions of a broker user: a row per virtual host with a checkbox per permission. The wire format is text
// ("default:publish,consume"). Virtual hosts are chosen from those that exist; one that a grant names stays a choice.

import { get, query } from "../core/api.js";
import { fill, find, h, setAttribute, setText } from "../core/elements.js";
import { words } from "../core/format.js";
import { settings } from "../core/settings.js";

const RIGHTS = ["publish", "consume", "manage"];
const ALL = "*";

/** The names of the virtual hosts; none if they cannot be read: then "all" and those of the grants are choices. */
async function hostNames() {
  try {
    const path = `brokers/${encodeURIComponent(settings.broker)}/objects/${query({ type: "VirtualHost", count: 500 })}`;
    return (await get(path)).items.map((/** @type {any} */ host) => host.attributes.name);
  } catch {
    return [];
  }
}

/**
 * Like `field` of fields.js, for a list of grants.
 *
 * @param {any} declared
 * @param {any} [options]
 */
export function grantsField(
  declared,
  { value = null, hint = "", label = words(declared.name), changed = () => {} } = {},
) {
  const id = `f-grants-${Math.random().toString(36).slice(2, 8)}`;
  const rows = h("div", { class: "grant-rows" });
  const error = h("small", { class: "wrong", role: "alert" });
  const note = h("small", { class: "hint" }, hint);
  const add = h(
    "button",
    {
      type: "button",
      class: "quiet",
      id,
      on: {
        click() {
          append("", []);
          find(".grant-row:last-child select", rows).focus();
        },
      },
    },
    "Add a virtual host",
  );
  const element = h("fieldset", { class: "field grants-field" }, h("legend", {}, label), rows, add, note, error);

  const names = hostNames();

  /**
   * A choice of a virtual host. `host`: the chosen one, "" for none yet.
   *
   * @param {string} host
   */
  function hostChoice(host) {
    const select = h("select", { class: "grant-host", "aria-label": "Virtual host" });
    const offer = (/** @type {string[]} */ hosts) => {
      const chosen = select.value || host;
      const choices = new Set([...(chosen ? [] : [""]), ALL, ...hosts, ...(chosen ? [chosen] : [])]);
      fill(
        select,
        ...[...choices].map((name) =>
          h(
            "option",
            { value: name, selected: name === chosen },
            name === ALL ? "All virtual hosts" : name || "Select a virtual host",
          ),
        ),
      );
    };
    offer([]);
    names.then(offer);
    return select;
  }

  /**
   * @param {any} host
   * @param {any} rights
   */
  function append(host, rights) {
    const row = h(
      "div",
      { class: "grant-row" },
      hostChoice(host),
      RIGHTS.map((right) =>
        h(
          "label",
          { class: "sure" },
          h("input", { type: "checkbox", value: right, checked: rights.includes(right) }),
          h("span", {}, right),
        ),
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          on: {
            click() {
              row.remove();
              changed(self, self.check());
            },
          },
        },
        "Remove",
      ),
    );
    row.dataset.given = rights.length ? `${host}:${rights.join(",")}` : "";
    row.addEventListener("input", () => changed(self, self.check()));
    rows.append(row);
  }

  const self = {
    element,
    input: add, // takes the focus, and can be disabled
    declared,
    note,
    /** Return texts such as "default:publish,consume". Throws Error for a row without permissions. */
    read() {
      return [...rows.children].map((/** @type {any} */ row) => {
        const host = row.querySelector(".grant-host").value;
        const rights = [...row.querySelectorAll("input:checked")].map((box) => box.value);
        if (!host) throw new Error("Select a virtual host, or all.");
        if (!rights.length) throw new Error(`Select permissions on ${host}, or remove the row.`);
        const [, given = ""] = /^.*:(.*)$/.exec(row.dataset.given) ?? [];
        const same =
          row.dataset.given.startsWith(`${host}:`) && given.split(",").sort().join() === [...rights].sort().join();
        return same ? row.dataset.given : `${host}:${rights.join(",")}`; // another order is no change
      });
    },
    set(/** @type {any} */ to) {
      fill(rows);
      for (const text of to ?? []) {
        const cut = text.lastIndexOf(":");
        append(text.slice(0, cut), text.slice(cut + 1).split(","));
      }
    },
    wrong(/** @type {string} */ text) {
      setText(error, text);
      setAttribute(element, "aria-invalid", text ? "true" : null);
    },
    check() {
      try {
        self.read();
        self.wrong("");
        return true;
      } catch (problem) {
        self.wrong(problem.message);
        return false;
      }
    },
  };
  self.set(value);
  return self;
}
