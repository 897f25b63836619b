// How many of the objects of a client a page lists. Pure.

import { count } from "../core/format.js";

/**
 * Return "12", or "500 of 1,234" if not all are listed.
 *
 * @param {number} listed
 * @param {number} total
 */
export const listedOf = (listed, total) => (total > listed ? `${count(listed)} of ${count(total)}` : count(listed));
