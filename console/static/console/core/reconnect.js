// Delays of reconnection attempts. Pure.

const PAUSES = [250, 500, 1000, 2000, 4000, 8000]; // ms
/** Failures from which the pauses are the longest. */
export const LONGEST = PAUSES.length;

/** Close codes of a WebSocket that mean that the session has ended: reconnecting is useless. */
const SIGNED_OUT = new Set([4401, 4403]);

/** The close code that means that the broker is not one of the console's, or not visible to the user. */
const NO_BROKER = 4404;
/** A process of the console may know an added broker some seconds after the one that has sent the page. */
const SURE_AFTER = 5; // failures

/** ms without a frame after which a connection counts as lost: two missed heartbeats of 5 s, and a margin. */
export const SILENCE = 12_000;

/**
 * Return the delay, ms, after a number of consecutive failures. `random` (0 to 1) spreads it over half of the pause, so
 * that browsers that lost the same server do not reconnect at the same time.
 *
 * @param {number} failures 1 or more
 * @param {number} random
 */
export const pauseAfter = (failures, random) => PAUSES[Math.min(failures, PAUSES.length) - 1] * (0.75 + random / 2);

/**
 * Return whether to check the session by an HTTP request: a refused handshake gives no reason.
 *
 * @param {number} failures in a row
 */
export const shouldCheckSession = (failures) => failures === 2 || failures % 8 === 0;

/**
 * Whether the broker was removed, or its visibility has ended: the page stays as it is unless the broker comes back.
 *
 * @param {number} code of the WebSocket's end
 * @param {number} failures in a row, with this one
 * @param {boolean} wasOpen whether the socket had received a frame
 */
export const isRemoved = (code, failures, wasOpen) => code === NO_BROKER && (wasOpen || failures >= SURE_AFTER);

/** @param {number} code of the WebSocket's end */
export const isSignedOut = (code) => SIGNED_OUT.has(code);
