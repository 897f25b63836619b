// The page of brokers: the connection of each is updated while the page is open. The rest of the page is plain forms.

import { get } from "../core/api.js";
import { fill, findAll, h } from "../core/elements.js";
import { poll } from "../core/polling.js";
import { connectionWord } from "../widgets/broker_states.js";

const { refresh } = poll(
  () => get("fleet/"),
  ({ brokers }, drawChanged) => {
    for (const { slug, state, error } of brokers) {
      const cell = findAll("[data-connection-of]").find((each) => each.dataset.connectionOf === slug);
      if (cell === undefined) continue; // added meanwhile
      drawChanged(slug, { state, error }, () => {
        const why = state === "disconnected" && error ? [h("br"), h("span", { class: "muted small" }, error)] : [];
        fill(cell, connectionWord(state), ...why);
      });
    }
  },
);
refresh();
