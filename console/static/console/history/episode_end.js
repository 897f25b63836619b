// The end of an episode: when, and what is known of it. Pure.

import { clock, duration } from "../core/format.js";

/** ms; the recorder of a broker that is recorded is behind the broker by less. */
const RECENT = 60_000;

/** @typedef {{start: number, end: number | null, known_until?: number, released_by?: string | null}} Episode */

/**
 * The moment up to which an episode is known, ms: its end; for an ongoing one the broker's last recorded moment, unless
 * the broker is being recorded.
 *
 * @param {Episode} episode
 * @param {number} now ms
 */
export function knownUntil(episode, now) {
  if (episode.end !== null) return episode.end;
  const known = episode.known_until ?? now;
  return known < now - RECENT ? Math.max(known, episode.start) : now;
}

/**
 * What a reader must know about an end that is not observed; empty for an observed one.
 *
 * @param {Episode} episode
 * @param {number} now ms
 */
export function endInWords(episode, now) {
  const until = knownUntil(episode, now);
  if (episode.end !== null)
    return episode.released_by === "restart" ? `last known at ${clock(until)}, before the broker restarted` : "";
  return until === now ? "ongoing" : `last known at ${clock(until)}, not recorded since`;
}

/**
 * The known length of an episode in words.
 *
 * @param {Episode} episode
 * @param {number} now ms
 */
export const lengthInWords = (episode, now) =>
  [duration(knownUntil(episode, now) - episode.start), endInWords(episode, now)].filter(Boolean).join(", ");
