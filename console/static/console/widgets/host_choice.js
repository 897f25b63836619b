// A field for a virtual host, chosen from those that exist on a broker, or on any of them.

import { get } from "../core/api.js";
import { fill, find, h, setText } from "../core/elements.js";
import { plainField } from "./form_dialog.js";

/**
 * Return the choices and what is not known about them. `hosts`: the names of the virtual hosts by broker; null: not
 * known, since the broker has not been connected. `broker`: a slug; "": all brokers. `chosen` stays a choice, also if
 * it does not exist: another one must not take its place unseen.
 *
 * @param {Record<string, string[] | null>} hosts
 * @param {string} broker
 * @param {string} chosen
 * @returns {{choices: [string, string][], note: string}}
 */
export function hostChoices(hosts, broker, chosen) {
  const lists = broker ? [hosts[broker] ?? null] : Object.values(hosts);
  const known = lists.filter((each) => each !== null);
  const names = [...new Set(known.flat())].sort();
  const unknown = lists.length - known.length;
  const note = !unknown
    ? ""
    : known.length
      ? "The virtual hosts of brokers that are not connected are not known."
      : "The virtual hosts are not known: the broker is not connected.";
  const absent = unknown ? chosen : `${chosen} (does not exist)`;
  return {
    choices: [
      ["", "all virtual hosts"],
      ...(chosen && !names.includes(chosen) ? [/** @type {[string, string]} */ ([chosen, absent])] : []),
      ...names.map((name) => /** @type {[string, string]} */ ([name, name])),
    ],
    note,
  };
}

const EVERY = 3000; // ms
const PAGE = 500; // names a call
const NEVER = [401, 403, 404]; // signed out, not allowed, or removed from the console

/** @param {string} slug */
async function hostNames(slug) {
  /** @type {string[]} */
  const names = [];
  for (;;) {
    const page = await get(`brokers/${slug}/objects/?type=VirtualHost&count=${PAGE}&offset=${names.length}`);
    names.push(...page.items.map((/** @type {any} */ each) => each.attributes.name));
    if (!page.items.length || names.length >= page.total) return names.sort();
  }
}

/**
 * Complete `hosts` (as of `hostChoices`) once the brokers whose virtual hosts are not known are connected, and call
 * `found` for each. Each broker is read without waiting for the others: one that hangs must not delay them.
 *
 * @param {Record<string, string[] | null>} hosts
 * @param {() => void} [found]
 * @param {(slug: string) => Promise<string[]>} [read] rejects with an ApiError
 */
export async function completeHosts(hosts, found, read = hostNames) {
  /** @param {string} slug */
  async function complete(slug) {
    for (;;) {
      await new Promise((resume) => setTimeout(resume, EVERY));
      if (document.visibilityState !== "visible") continue;
      try {
        hosts[slug] = await read(slug);
        return found?.();
      } catch (error) {
        if (NEVER.includes(/** @type {any} */ (error).status)) return undefined;
      }
    }
  }
  await Promise.all(Object.keys(hosts).map((slug) => (hosts[slug] === null ? complete(slug) : undefined)));
}

/**
 * A field as `plainField` makes it, and `offer(broker)`, which offers the virtual hosts of this broker ("": of all).
 * `hosts`: as of `hostChoices`.
 *
 * @param {{hosts: Record<string, string[] | null>, value?: string, broker: string, helps?: boolean}} options
 */
export function hostField({ hosts, value = "", broker, helps = false }) {
  const field = plainField("virtualhost", "Virtual host", { helps, choices: [[value, value]], value, hint: " " });
  const hint = find(".hint", field.element);
  /** @param {string} slug */
  function offer(slug) {
    const { choices, note } = hostChoices(hosts, slug, field.input.value);
    const chosen = field.input.value;
    fill(
      field.input,
      choices.map(([name, text]) => h("option", { value: name }, text)),
    );
    field.input.value = chosen;
    setText(hint, note);
  }
  offer(broker);
  return { ...field, offer };
}
