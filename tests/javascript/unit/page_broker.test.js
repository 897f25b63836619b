// Links of a page that is about one broker stay with it.

import assert from "node:assert/strict";
import { test } from "node:test";

/** @type {any} */
const page = globalThis;
page.location = new URL("https://console/queues/a/b/?broker=eu");
/** @type {any} */
let complete = null;
page.addEventListener = (/** @type {string} */ _kind, /** @type {any} */ listener) => {
  complete = listener;
};
const { addBrokerToLinks } = await import("../../../console/static/console/core/page_broker.js");
addBrokerToLinks();

/** @param {string} address */
function used(address) {
  const url = new URL(address, page.location);
  const link = Object.assign(url, { closest: () => null });
  complete({ target: { closest: () => link } });
  return url.href.replace("https://console", "");
}

test("a link to a page about a broker gets that of this page", () => {
  for (const path of ["/", "/policies/", "/clients/", "/clients/client/", "/first-steps/", "/history/status/"])
    assert.equal(used(path), `${path}?broker=eu`);
  assert.equal(used("/clients/client/?user=ann"), "/clients/client/?user=ann&broker=eu");
});

test("a link that names a broker, or is about none, stays as it is", () => {
  for (const path of ["/clients/?broker=us", "/alerts/", "/preferences/", "/fleet/", "/policies/bulk/7/"])
    assert.equal(used(path), path);
  assert.equal(used("https://elsewhere/clients/"), "https://elsewhere/clients/");
});
