// When to request the progress of a stop: often at first, since a quarter of a second after it most producers have no
// messages in flight.

const SOON = 10; // requests
const SOON_MS = 50;
const NEXT = 20; // requests, of a stop of thousands of queues or on a busy machine
const NEXT_MS = 100;
const LATER_MS = 500;

/** Requests after which the last figures stay. */
export const PROGRESS_REQUESTS = 180;

/**
 * Return the pause before a request, ms.
 *
 * @param {number} number the number of requests before it
 */
export const pauseBeforeProgress = (number) => (number < SOON ? SOON_MS : number < NEXT ? NEXT_MS : LATER_MS);
