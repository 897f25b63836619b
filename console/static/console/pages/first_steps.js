// The overview of a broker without queues: what applications need, and where it is made.

import { atThatTime } from "../core/away.js";
import { fill, h } from "../core/elements.js";
import { formatName } from "../core/object_names.js";
import { settings } from "../core/settings.js";

/**
 * Fill the empty state.
 *
 * @param {any} empty
 */
export function showFirstSteps(empty) {
  fill(
    empty,
    h("p", {}, h("strong", {}, atThatTime() ? `No queues${atThatTime()}` : "No queues yet")),
    settings.amqp
      ? [
          h(
            "p",
            {},
            "Applications connect to ",
            h("code", {}, settings.amqp),
            " with AMQP 1.0. They need a user of the broker and a queue: anonymous clients, and queues that clients " +
              "create, are off unless the virtual host allows them.",
          ),
          h(
            "p",
            { class: "first-actions" },
            h("a", { class: "button primary", href: "/first-steps/" }, "First steps"),
            h(
              "a",
              { href: `/objects/?object=${encodeURIComponent(formatName("VirtualHost", { name: "default" }))}` },
              "Settings of the virtual host",
            ),
          ),
        ]
      : h("p", {}, "Queues are created by this broker's applications and its own tools, and are listed here then."),
  );
}
