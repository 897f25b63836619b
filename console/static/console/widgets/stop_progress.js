// When to request the progress of a stop: often at first, since a quarter of a second after it most producers have no
// messages in flight.

const SOON = 10; // requests
const SOON_MS = 50;
const LATER_MS = 500;

/** Requests after which the last figures stay. */
export const PROGRESS_REQUESTS = 180;

/**
 * Return the pause before a request, ms.
 *
 * @param {number} number the number of requests before it
 */
export const pauseBeforeProgress = (number) => (number < SOON ? SOON_MS : LATER_MS);
