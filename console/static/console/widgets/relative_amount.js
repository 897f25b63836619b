// Relative amounts of a bulk edit: "+50%", "-20 %", "x2", "× 1.5". Pure.

const PERCENT = /^([+\-−])\s*(\d+(?:\.\d+)?)\s*%$/;
const TIMES = /^[x×*]\s*(\d+(?:\.\d+)?)$/i;

/**
 * Parse a relative amount to the factor of the present value; null: the text is none.
 *
 * @param {string} text
 * @returns {number | null}
 */
export function readFactor(text) {
  const given = text.trim();
  const percent = PERCENT.exec(given);
  if (percent) return rounded(1 + (percent[1] === "+" ? 1 : -1) * (Number(percent[2]) / 100));
  const times = TIMES.exec(given);
  return times ? rounded(Number(times[1])) : null;
}

/** @param {number} value */
const rounded = (value) => Math.round(value * 1e6) / 1e6;
