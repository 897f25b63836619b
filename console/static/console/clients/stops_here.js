// Which stops of clients apply to the client of a page. Pure.

import { parseName } from "../core/object_names.js";

/**
 * Return whether a stop is restricted to clients and applies to a client. A stop of a link applies only while the
 * client has a producer with that link at a queue of the stop.
 *
 * @param {any} stop
 * @param {{virtualhost: string, user?: string, container_id?: string} | null} who
 * @param {any[] | null} producers their attributes; null: not known
 */
export function appliesTo(stop, who, producers) {
  if (!who || !(stop.user || stop.container_id || stop.link)) return false;
  if (["user", "container_id"].some((name) => stop[name] && stop[name] !== /** @type {any} */ (who)[name]))
    return false;
  const aim = parseName(stop.object ?? "");
  const host = aim?.type === "VirtualHost" ? aim.keys.name : aim?.keys.virtualhost;
  if (host !== undefined && host !== who.virtualhost) return false;
  if (!stop.link || !producers) return true;
  return producers.some(
    (each) => each.link === stop.link && (aim?.type !== "Queue" || !each.queue || each.queue === stop.object),
  );
}
