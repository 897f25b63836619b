// How much of its memory and its store a broker uses, and for how long it has been running: what it does not report is
// not shown.

import { find, setAttribute, setText } from "../core/elements.js";
import { bytes, percent } from "../core/format.js";
import { setSince } from "../core/times.js";

const RESOURCES = ["memory", "store"];
const NEAR = 0.9; // share of a limit from which it is marked

/** @param {any} broker attributes */
export function showHealth(broker) {
  for (const name of RESOURCES) {
    const [used, limit] = [broker[`${name}_used_bytes`], broker[`${name}_limit_bytes`]];
    const element = find(`[data-health="${name}"]`);
    element.hidden = used === null || used === undefined;
    if (element.hidden) continue;
    setText(element.firstElementChild, limit ? percent(used, limit) : bytes(used));
    setAttribute(element, "title", limit ? `${bytes(used)} of ${bytes(limit)}` : `${bytes(used)}, no limit`);
    const short = broker.shortages?.some((/** @type {string} */ each) => each.startsWith(`${name}-`));
    element.classList.toggle("hot", Boolean(short || (limit && used >= NEAR * limit)));
  }
  const uptime = find('[data-health="uptime"]');
  uptime.hidden = !broker.started;
  if (uptime.hidden) return;
  setSince(uptime.firstElementChild, broker.started);
  setAttribute(uptime, "title", [broker.product, broker.product_version].filter(Boolean).join(" "));
}
