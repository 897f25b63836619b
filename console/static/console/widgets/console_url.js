// What is said about the URL of this console, to which notifications link.

const LOOPBACK = /^(localhost|.+\.localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * @typedef {object} ConsoleUrl what the API answers
 * @property {string} url
 * @property {"environment" | "entered" | "none"} source
 * @property {string} entered
 * @property {string | null} changed
 * @property {string} changed_by
 */

/**
 * Return whether only programs of the same machine reach a URL.
 *
 * @param {string} url
 */
export function isLoopback(url) {
  return URL.canParse(url) && LOOPBACK.test(new URL(url).hostname);
}

/**
 * Return what the page says about the URL: `origin`: where it comes from, `when` is the time at which it was entered;
 * `warning`: why its links are of no use to others.
 *
 * @param {ConsoleUrl} found
 * @param {string} when
 */
export function urlNotes(found, when) {
  const origin =
    found.source === "environment"
      ? `Set by HEADGATE_URL.${found.entered ? ` It overrides ${found.entered}, which was entered here.` : ""}`
      : found.source === "entered"
        ? `Entered by ${found.changed_by}, ${when}.`
        : "";
  const warning = isLoopback(found.url) ? "Only programs on this machine reach this address." : "";
  return { origin, warning };
}
