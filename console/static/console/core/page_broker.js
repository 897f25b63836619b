// Links of a page stay with its broker: one to a page about a broker gets `?broker=` of this page's address, unless it
// names one. It is added as the link is about to be used, so that scripts and templates need not know of it. It does
// not replace `ofBroker` of object_names.js, which names the broker in addresses that scripts open or that are of
// another broker: these are no links, or not of this page's broker. Nor does that replace this: templates have plain
// links.

/** Pages about one broker. */
const OF_A_BROKER = new RegExp(
  "^/(|queues/.*|policies/.*|timeline/|why/|conditions/|messages/|dead-letters/|history/.*|objects/|audit/" +
    "|clients/.*|schedules/new/|first-steps/)$",
);
const BULK_JOB = /^\/policies\/bulk\/\d+\//; // its number is of one broker

const broker = new URLSearchParams(location.search).get("broker");

/** @param {Event} event */
function complete(event) {
  const link = /** @type {any} */ (event.target).closest?.("a[href]");
  if (!link || link.origin !== location.origin) return;
  const url = new URL(link.href);
  if (!OF_A_BROKER.test(url.pathname) || BULK_JOB.test(url.pathname) || url.searchParams.has("broker")) return;
  if (link.closest("nav")) return; // the navigation is the server's
  link.search = `${link.search}${link.search ? "&" : "?"}broker=${encodeURIComponent(broker ?? "")}`;
}

/** Complete links when they are pressed, focused or clicked: before they are followed, opened in a tab, or copied. */
export function addBrokerToLinks() {
  if (broker === null) return;
  for (const kind of ["pointerdown", "focusin", "click"]) addEventListener(kind, complete, true);
}
