// Rates of counters, from one snapshot to the next. Pure.

const LEAST = 900; // ms between the readings that a rate is made of

/** @typedef {{object: string, [counter: string]: any}} Row */

export class CounterRates {
  #counter;
  /** @type {Map<string, {at: number, value: number, rate: number | null}>} */
  #readings = new Map();

  /** @param {string} counter the attribute that is read */
  constructor(counter) {
    this.#counter = counter;
  }

  /**
   * Read the counters of a snapshot. An object that it does not have is forgotten.
   *
   * @param {number} at ms
   * @param {Row[]} rows
   */
  add(at, rows) {
    const readings = new Map();
    for (const row of rows) {
      const value = row[this.#counter] ?? 0;
      const before = this.#readings.get(row.object);
      if (!before || value < before.value) readings.set(row.object, { at, value, rate: null });
      else if (at - before.at < LEAST) readings.set(row.object, before);
      else readings.set(row.object, { at, value, rate: ((value - before.value) * 1000) / (at - before.at) });
    }
    this.#readings = readings;
  }

  /**
   * Per second; null until there were two snapshots.
   *
   * @param {string} object
   */
  rateOf(object) {
    return this.#readings.get(object)?.rate ?? null;
  }
}
