// The preview of an alert rule: which objects meet one of its conditions now, in sentences.

import { h } from "../core/elements.js";
import { duration, plural } from "../core/format.js";
import { objectUrl } from "../core/object_names.js";
import { brokerTitle, settings } from "../core/settings.js";

const NAMED = 5; // objects

/**
 * Return the sentences of a response of alerts/rules/preview/. `holds`: the pending period of the rule, seconds.
 *
 * @param {any} preview
 * @param {number} holds
 */
export function previewSentences(preview, holds) {
  const sentences = [];
  const named = preview.objects.slice(0, NAMED);
  if (preview.count) {
    const more = preview.count - named.length;
    const links = named.flatMap((/** @type {any} */ each, /** @type {number} */ place) => [
      place ? ", " : "",
      h("a", { href: objectUrl(each.object, each.broker), title: `${each.title}: ${each.saw}` }, each.name),
      settings.brokers.length > 1 ? ` (${brokerTitle(each.broker)})` : "",
    ]);
    const rest = more ? ` and ${more.toLocaleString("en")} more` : "";
    const pending = duration(holds * 1000).replace(/ 0 (s|min|h)$/, "");
    const fires = holds ? ` An alert fires after ${pending}.` : " An alert fires at once.";
    sentences.push(h("span", {}, `Met now by ${plural(preview.count, "object")}: `, links, rest, ".", fires));
  } else if (!preview.unknown.length) sentences.push(h("span", {}, "No object meets it now."));
  for (const each of preview.unknown) sentences.push(h("span", { class: "wrong" }, ` Not known: ${each.why}.`));
  for (const each of preview.remarks) sentences.push(h("span", {}, ` ${each}`));
  return sentences;
}
