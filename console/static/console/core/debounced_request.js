// Requests that follow typing: sent after a delay, the newest one only. Pure, except for timers.

const LONGEST = 2000; // ms

export class DebouncedRequest {
  #delay;
  #took = 0; // ms, duration of the last request
  #timer = 0;
  #controller = new AbortController();

  /** @param {number} delay ms, the minimum; after a slow request, its duration, at most 2 s */
  constructor(delay) {
    this.#delay = delay;
  }

  /**
   * Call `send` after the delay, instead of calls that were scheduled before; requests under way are aborted.
   *
   * @param {() => unknown} send
   */
  schedule(send) {
    this.cancel();
    this.#timer = setTimeout(send, Math.min(LONGEST, Math.max(this.#delay, this.#took)));
  }

  /**
   * Call `send(signal)` at once and return its result. Later calls, and `cancel`, abort it.
   *
   * @template Result
   * @param {(signal: AbortSignal) => Promise<Result>} send
   * @returns {Promise<Result>}
   */
  async send(send) {
    this.cancel();
    const { signal } = this.#controller;
    const began = performance.now();
    const result = await send(signal);
    this.#took = performance.now() - began;
    return result;
  }

  /** Abort the request under way, and drop the scheduled one. */
  cancel() {
    clearTimeout(this.#timer);
    this.#controller.abort();
    this.#controller = new AbortController();
  }
}
