// The position of the next page of the timeline after the page has left out its oldest entries.

/**
 * Return {before_event, before_audit, more} such that the next page begins with the entries `cut`, the newest first.
 *
 * @param {any[]} cut
 * @param {{before_event: number, before_audit: number, more: boolean}} at
 */
export function positionBefore(cut, at) {
  const newest = (/** @type {string} */ source) =>
    Math.max(...cut.filter((entry) => entry.source === source).map((entry) => entry.number)) + 1;
  const [event, audit] = [newest("broker"), newest("people")];
  return {
    before_event: event > 0 ? event : at.before_event,
    before_audit: audit > 0 ? audit : at.before_audit,
    more: at.more || cut.length > 0,
  };
}
