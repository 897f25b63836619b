// The edit of one object in a form: the values that were loaded and their version, the user's changes, the change that
// was previewed, and changes by others meanwhile. Pure: fields are objects with the interface of `Field`.

/**
 * As `field` of fields.js. `read()` throws Error for an invalid value, and returns undefined for one that stays as it
 * is; `wrong("")` removes an error.
 *
 * @typedef {{
 *   declared: {name: string},
 *   read: () => any,
 *   set: (value: any) => void,
 *   check: () => boolean,
 *   wrong: (text: string) => void,
 * }} Field
 */
/** @typedef {{name: string, before: any, now: any}} Difference The value of an attribute in two versions. */

/**
 * @param {any} a
 * @param {any} b
 */
const same = (a, b) => JSON.stringify(a ?? null) === JSON.stringify(b ?? null);

export class EditSession {
  #fields;
  #keys;
  #defaults;
  /** @type {Record<string, any>} */
  #loaded = {};
  #version = 0;
  /** @type {string | null} */
  #previewed = null;
  #saving = false;
  #pushed = 0; // the newest version that arrived while saving

  /**
   * `fields`: one per attribute. `keys`: fields of the object's name, which are checked with the others. `defaults`:
   * values of attributes that are not set, where that is not null; their fields are empty then.
   *
   * @param {Field[]} fields
   * @param {{keys?: Field[], defaults?: Record<string, any>}} [options]
   */
  constructor(fields, { keys = [], defaults = {} } = {}) {
    this.#fields = fields;
    this.#keys = keys;
    this.#defaults = defaults;
  }

  /** The version that the changes are based on. */
  get version() {
    return this.#version;
  }

  /**
   * The value of an attribute in that version.
   *
   * @param {string} name
   */
  loaded(name) {
    return this.#loaded[name] ?? this.#defaults[name] ?? null;
  }

  /**
   * Base the edit on another version: fields without changes show its values, changes stay. Returns what differs from
   * the version before. Attributes that `attributes` lacks are unchanged.
   *
   * @param {Record<string, any>} attributes
   * @param {number} version
   * @returns {Difference[]}
   */
  rebase(attributes, version) {
    const differences = [];
    for (const field of this.#fields) {
      const { name } = field.declared;
      if (!(name in attributes)) continue;
      const before = this.loaded(name);
      const untouched = this.#isUntouched(field);
      this.#loaded[name] = attributes[name];
      const now = this.loaded(name);
      if (same(before, now)) continue;
      if (untouched) this.#show(field);
      differences.push({ name, before, now });
    }
    this.#version = version;
    return differences;
  }

  /** Show the loaded values in all fields, without errors, and forget the preview. */
  discard() {
    this.#previewed = null;
    for (const field of this.#fields) this.#show(field);
    for (const field of [...this.#keys, ...this.#fields]) field.check();
  }

  /** Check all fields; return whether none has an error. */
  check() {
    return [...this.#keys, ...this.#fields].map((field) => field.check()).every(Boolean);
  }

  /**
   * The changed attributes. Throws Error for an invalid value.
   *
   * @returns {Record<string, any>}
   */
  changes() {
    return Object.fromEntries(
      this.#fields
        .map((field) => [field.declared.name, this.#read(field)])
        .filter(([name, value]) => value !== undefined && !same(value, this.loaded(name))),
    );
  }

  /** Whether there are changes; an invalid value is one. */
  get dirty() {
    return this.#fields.some((field) => !this.#isUntouched(field));
  }

  /**
   * Show the errors of a response at their fields. Returns the others as text.
   *
   * @param {{fields?: Record<string, string>}} error
   */
  showErrors({ fields = {} }) {
    const shown = [...this.#keys, ...this.#fields];
    for (const field of shown) field.wrong(fields[field.declared.name] ?? "");
    const names = new Set(shown.map((field) => field.declared.name));
    return Object.entries(fields)
      .filter(([name]) => !names.has(name))
      .map(([, text]) => text)
      .join(" ");
  }

  // -- preview

  /**
   * Remember what the preview shows; null: nothing.
   *
   * @param {any} change
   */
  previewed(change) {
    this.#previewed = change && JSON.stringify(change);
  }

  get hasPreview() {
    return this.#previewed !== null;
  }

  /**
   * Return whether the preview shows exactly this change.
   *
   * @param {any} change
   */
  isPreviewed(change) {
    return this.#previewed === JSON.stringify(change);
  }

  // -- saving

  /**
   * Call `send(version, changes)`, which saves them. While it runs, versions that arrive can be its own.
   *
   * @template Saved
   * @param {(version: number, changes: Record<string, any>) => Promise<Saved>} send
   * @returns {Promise<Saved>}
   */
  async save(send) {
    this.#saving = true;
    try {
      return await send(this.#version, this.changes());
    } finally {
      this.#saving = false;
    }
  }

  /**
   * Take note of the object's version in a snapshot. Returns whether it is new and another user or client saved it.
   *
   * @param {number} version
   */
  arrives(version) {
    if (version <= this.#version) return false;
    if (this.#saving) this.#pushed = version;
    else this.#version = version;
    return !this.#saving;
  }

  /**
   * Return whether saving failed because of another change.
   *
   * @param {{status?: number}} error
   */
  isConflict({ status }) {
    return status === 409 || this.#pushed > this.#version;
  }

  /** @param {Field} field */
  #read(field) {
    const value = field.read();
    const fallback = this.#defaults[field.declared.name];
    return fallback === undefined ? value : (value ?? fallback);
  }

  /** @param {Field} field */
  #isUntouched(field) {
    try {
      const value = this.#read(field);
      return value === undefined || same(value, this.loaded(field.declared.name));
    } catch {
      return false;
    }
  }

  /** @param {Field} field */
  #show(field) {
    const { name } = field.declared;
    const value = this.loaded(name);
    field.set(name in this.#defaults && same(value, this.#defaults[name]) ? null : value);
  }
}
