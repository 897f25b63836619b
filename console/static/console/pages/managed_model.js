// The managed model as the server declares it: types and their hierarchy. No type is special: the parent of an object
// is what its attributes of kind `name`, or its keys, refer to.

import { get } from "../core/api.js";
import { formatName, parseName } from "../core/object_names.js";

export class Model {
  /** name -> {name, description, keys, attributes, operations, notifications} */
  types = new Map();

  /** @param {any} broker */
  static async load(broker) {
    const model = new Model();
    const answer = await get(`brokers/${encodeURIComponent(broker)}/types/`);
    const list = Array.isArray(answer)
      ? answer
      : Array.isArray(answer.types)
        ? answer.types
        : Object.values(answer.types ?? answer);
    for (const type of list) model.types.set(type.name, type);
    return model;
  }

  /** @param {any} key */
  #named(key) {
    return [...this.types.values()].find((type) => type.name.toLowerCase() === key.replaceAll("_", ""));
  }

  /**
   * The parent types of a type, each with the attribute that has the parent object.
   *
   * @param {any} type
   */
  parents(type) {
    const found = type.attributes
      .filter((/** @type {any} */ a) => a.kind === "name" && this.#named(a.name))
      .map((/** @type {any} */ a) => ({ type: this.#named(a.name), by: a.name, whole: true }));
    if (found.length) return found;
    const byKey = type.keys
      .filter((/** @type {any} */ key) => this.#named(key) && this.#named(key) !== type)
      .map((/** @type {any} */ key) => ({ type: this.#named(key), by: key, whole: false }));
    if (byKey.length) return byKey;
    return type.keys.length ? this.roots().map((root) => ({ type: root, by: null, whole: false })) : [];
  }

  roots() {
    return [...this.types.values()].filter((type) => type.keys.length === 0);
  }

  /**
   * The types of an object's children: [{type, where}]. `where`: the conditions of the query.
   *
   * @param {any} name
   */
  children(name) {
    const parsed = /** @type {import("../core/object_names.js").ObjectName} */ (parseName(name));
    const found = [];
    for (const type of this.types.values()) {
      for (const parent of this.parents(type)) {
        if (parent.type.name !== parsed.type) continue;
        const value = parent.whole ? name : Object.values(parsed.keys).at(-1);
        found.push({ type, where: parent.by === null ? {} : { [parent.by]: value } });
      }
    }
    return found;
  }

  /**
   * The object names of the path from the root to an object, which its keys determine.
   *
   * @param {string} name
   * @returns {string[]}
   */
  path(name) {
    const parsed = parseName(name);
    const type = parsed && this.types.get(parsed.type);
    if (!type) return [name];
    const parent = type.keys
      .map((/** @type {any} */ key) => [key, this.#named(key)])
      .find((/** @type {any} */ [, t]) => t && t !== type);
    if (parent)
      return [...this.path(formatName(parent[1].name, { [parent[1].keys[0]]: parsed.keys[parent[0]] })), name];
    return type.keys.length ? [...this.roots().map((root) => formatName(root.name, {})), name] : [name];
  }
}

/**
 * "Queue" -> "Queues", "VirtualHost" -> "Virtual hosts", "Policy" -> "Policies"
 *
 * @param {any} type
 */
export function pluralOf(type) {
  const text = type.replaceAll(/([a-z])([A-Z])/g, "$1 $2").toLowerCase();
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}s`.replace(/ys$/, "ies");
}
