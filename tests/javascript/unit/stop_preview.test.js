// What a preview of several brokers says of those that are selected.

import assert from "node:assert/strict";
import { test } from "node:test";
import { previewOf } from "../../../console/static/console/widgets/stop_preview.js";

const ENTRY = { queues: 1, producers: 1, at_least: [], already_stopped: 0, unstoppable: 0, percent_used: null };

test("that nothing is stopped is known only if it is known of each broker", () => {
  const [not, stopped] = [true, false].map((none_stopped) => ({ ...ENTRY, none_stopped }));
  assert.equal(previewOf([not, not]).none_stopped, true);
  assert.equal(previewOf([not, stopped]).none_stopped, false);
  assert.equal(previewOf([not, { ...ENTRY, none_stopped: undefined }]).none_stopped, false);
});
