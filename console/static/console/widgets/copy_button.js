// A button that copies the text of an element.

import { h } from "../core/elements.js";
import { toast } from "../core/toast.js";

/**
 * Return a button that copies the text of an element. Browsers give scripts the clipboard over HTTPS or on the same
 * machine only: elsewhere the text is selected, for the browser's own copy.
 *
 * @param {HTMLElement} source
 * @param {string} what that is copied, for people who do not see where the button stands
 */
export const copyButton = (source, what) =>
  h(
    "button",
    {
      type: "button",
      "aria-label": `Copy ${what}`,
      on: {
        async click() {
          try {
            await navigator.clipboard.writeText(source.textContent ?? "");
            toast("Copied.");
          } catch {
            getSelection()?.selectAllChildren(source);
            toast("Selected. Press Ctrl+C to copy.");
          }
        },
      },
    },
    "Copy",
  );
