// The head of a producer's or consumer's row: its client, with a link to a page, above the name of its AMQP link.

import { h, setText } from "../core/elements.js";

/** @param {string} href */
export const linkCell = (href) =>
  h("th", { scope: "row", class: "c-client" }, h("a", { href }), h("small", { class: "muted" }));

/**
 * @param {any} cell
 * @param {any} link a producer or consumer
 * @param {string} kind what it is, for one without names
 * @param {string} [after] behind the name of the link
 */
export function showLink(cell, link, kind, after = "") {
  setText(cell.firstChild, link.client || link.link || `${kind} ${link.id}`);
  setText(cell.lastChild, `${link.link ? `link ${link.link}` : ""}${after}`);
}
