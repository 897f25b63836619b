// When a lost connection is tried again. Pure.

const PAUSES = [250, 500, 1000, 2000, 4000, 8000]; // ms

/** Codes of a WebSocket's end that say: the session has ended, and trying again is in vain. */
const SIGNED_OUT = new Set([4401, 4403]);

/** ms without a frame after which a connection counts as lost: a heartbeat comes every 5 s; two missing and a bit. */
export const SILENCE = 12_000;

/**
 * How long to wait, ms, after so many failures in a row. Browsers that lost the same server do not come back at once:
 * `random` (0 to 1) spreads them over half of the pause.
 *
 * @param {number} failures 1 or more
 * @param {number} random
 */
export const pauseAfter = (failures, random) => PAUSES[Math.min(failures, PAUSES.length) - 1] * (0.75 + random / 2);

/**
 * Whether to find out by an ordinary request why there is no connection: a refused handshake does not say.
 *
 * @param {number} failures in a row
 */
export const asksWhy = (failures) => failures === 2 || failures % 8 === 0;

/** @param {number} code of the WebSocket's end */
export const isSignedOut = (code) => SIGNED_OUT.has(code);
