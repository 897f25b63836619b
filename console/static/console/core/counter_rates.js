// How fast counters turn: rates of things that only tell their totals, from one snapshot to the next. Pure.

const LEAST = 900; // ms between the readings that a rate is made of

export class Spinning {
  #attribute;
  #seen = new Map();

  /** `attribute`: the counter that is read. */
  constructor(attribute) {
    this.#attribute = attribute;
  }

  /** A snapshot of `at` (ms): rows with `object` and the counter. */
  saw(at, rows) {
    const seen = new Map();
    for (const row of rows) {
      const value = row[this.#attribute] ?? 0;
      const before = this.#seen.get(row.object);
      if (!before || value < before.value) seen.set(row.object, { at, value, rate: null });
      else if (at - before.at < LEAST) seen.set(row.object, before);
      else seen.set(row.object, { at, value, rate: ((value - before.value) * 1000) / (at - before.at) });
    }
    this.#seen = seen;
  }

  /** Per second; null until two snapshots have told. */
  of(object) {
    return this.#seen.get(object)?.rate ?? null;
  }
}
