// Rates of counters between snapshots. Pure.

const MIN_INTERVAL = 900; // ms between two readings of a rate

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
   * Add the counters of a snapshot. Objects that it lacks are dropped, and so are those whose counter the broker does
   * not report (null): their rate is unknown, not 0.
   *
   * @param {number} at ms
   * @param {Row[]} rows
   */
  add(at, rows) {
    const readings = new Map();
    for (const row of rows) {
      const value = row[this.#counter];
      if (value === null || value === undefined) continue;
      const before = this.#readings.get(row.object);
      if (!before || value < before.value) readings.set(row.object, { at, value, rate: null });
      else if (at - before.at < MIN_INTERVAL) readings.set(row.object, before);
      else readings.set(row.object, { at, value, rate: ((value - before.value) * 1000) / (at - before.at) });
    }
    this.#readings = readings;
  }

  /**
   * Return the rate per second; null before the second snapshot.
   *
   * @param {string} object
   */
  rateOf(object) {
    return this.#readings.get(object)?.rate ?? null;
  }
}
