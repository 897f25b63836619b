// The effective dead-letter queue of a queue.

import { get, objectPath, post } from "../core/api.js";
import { settings } from "../core/settings.js";

/**
 * Return the name of the queue; "": there is none; null: not known.
 *
 * @param {string} object name of the queue
 * @param {string} name
 * @returns {Promise<string | null>}
 */
export async function deadLetterQueueOf(object, name) {
  const path = objectPath(settings.broker, object);
  try {
    let found;
    if (settings.explains) {
      const answer = await post(`${path}operations/explain/`, { arguments: {} });
      found = (answer.result ?? answer.returns ?? answer).fields?.dead_letter_queue?.value;
    } else {
      const answer = await get(path);
      found = (answer.attributes ?? answer).dead_letter_queue;
    }
    return found === name ? "" : (found ?? "");
  } catch {
    return null;
  }
}
