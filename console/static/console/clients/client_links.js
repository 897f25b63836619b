// What the pages of clients share: their addresses, names of clients, and rows of producers.

import { h, setText } from "../core/elements.js";
import { objectUrl, ofBroker, shortName, whyUrl } from "../core/object_names.js";
import { setSince, sinceElement } from "../core/times.js";
import { setState } from "../widgets/states.js";

/** @param {any} value */
export const known = (value) => value !== null && value !== undefined;

/**
 * Text that a client chose, isolated from the text around it; "–" if it is not known or empty.
 *
 * @param {any} text
 */
export const chosen = (text) => h("bdi", {}, text || "–");

/**
 * Return the address of the page of a client; null if it has no name.
 *
 * @param {any} connection its attributes
 */
export const clientUrl = ({ virtualhost, user, container_id: container }) =>
  user || container
    ? ofBroker(
        `/clients/client/?${new URLSearchParams({ virtualhost, user: user ?? "", container_id: container ?? "" })}`,
      )
    : null;

/** @param {any} connection its attributes */
export const clientName = (connection) =>
  [connection.user, connection.container_id].filter(Boolean).join(" · ") || `Connection ${connection.id}`;

/**
 * A mark of a connection of Headgate's own: its user is the one whose secret only Headgate has, and it calls itself so.
 *
 * @param {any} connection its attributes
 */
export const ownMark = ({ user, product }) =>
  user === "console" && product === "Headgate"
    ? h(
        "span",
        { class: "tag", title: "A process of Headgate itself, which manages or records the broker" },
        "Headgate",
      )
    : null;

/**
 * The cell of a link: its queue, and its name below.
 *
 * @param {any} link attributes
 */
export const linkCell = (link) =>
  h(
    "th",
    { scope: "row" },
    link.queue ? h("a", { href: objectUrl(link.queue) }, h("bdi", {}, shortName(link.queue))) : "not known",
    h("small", { class: "muted" }, chosen(link.link)),
  );

/** @param {any} producer {object, attributes} */
export const stateCell = (producer) =>
  h("td", { "data-label": "State" }, h("a", { href: whyUrl(producer.object), class: "state", title: "Why blocked?" }));

/**
 * @param {any} cell of `stateCell`
 * @param {any} producer attributes
 */
export function updateState(cell, producer) {
  if (known(producer.state)) setState(cell.firstChild, producer.state);
  else setText(cell.firstChild, "not known");
}

export const durationCell = () => h("td", { class: "num", "data-label": "Duration" }, sinceElement());

/**
 * @param {any} cell of `durationCell`
 * @param {any} producer attributes
 */
export const updateDuration = (cell, producer) => setSince(cell.firstChild, producer.blocked_since);
