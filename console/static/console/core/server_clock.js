// The server's clock, from the times of frames: the browser's may be wrong, and all times that pages show are the
// server's. Without a frame it is the browser's. Pure, except for the clock.

/** ms; a frame that arrives so much later than others has waited, or one of the clocks has been set. */
const TOLERANCE = 2000;

/** How far the server's clock is ahead of the browser's, ms. */
let ahead = 0;
let isKnown = false;

/**
 * Note the server's time of a frame that has just arrived, ms. Frames take time: the greatest difference is the best.
 *
 * @param {unknown} at
 */
export function noteServerTime(at) {
  if (typeof at !== "number") return;
  const found = at - Date.now();
  if (isKnown && found <= ahead && found >= ahead - TOLERANCE) return;
  [ahead, isKnown] = [found, true];
}

/** The server's time, ms. */
export const serverNow = () => Date.now() + ahead;
