// The syntax of object names (`type=Queue,virtualhost=default,name=orders`), as brokers/model/object_names.py has it,
// and the addresses of objects' pages. They name a broker, since scripts open them and some are of another broker than
// the page; plain links of templates and scripts get the page's from page_broker.js.

const PAIR = /([a-z_]+)=("(?:[^"\\]|\\.)*"|[^,="\\]*)(?:,(?=.)|$)/sy;

/** @typedef {{type: string, keys: Record<string, string>}} ObjectName */

/**
 * Return the keys of a name, the first is `type`, with their values as the text has them: quoted where it quotes them.
 * Null if the text is not an object name.
 *
 * @param {string} text
 * @returns {[string, string][] | null}
 */
export function partsOf(text) {
  /** @type {[string, string][]} */
  const parts = [];
  PAIR.lastIndex = 0;
  while (PAIR.lastIndex < text.length) {
    const match = PAIR.exec(text);
    if (!match) return null;
    parts.push([match[1], match[2]]);
  }
  return parts;
}

/**
 * Return null if the text is not an object name.
 *
 * @param {string} text
 * @returns {ObjectName | null}
 */
export function parseName(text) {
  /** @type {Record<string, string>} */
  const keys = {};
  for (const [key, value] of partsOf(text) ?? [])
    keys[key] = value.startsWith('"') ? value.slice(1, -1).replaceAll(/\\(.)/gs, "$1") : value;
  const { type, ...rest } = keys;
  return type ? { type, keys: rest } : null;
}

/** @param {any} value */
const quote = (value) =>
  value && value === value.trim() && !/[,="\\]/.test(value) ? value : `"${value.replaceAll(/["\\]/g, "\\$&")}"`;

/**
 * formatName("Queue", {virtualhost: "default", name: "orders"})
 *
 * @param {any} type
 * @param {any} keys
 */
export const formatName = (type, keys) =>
  [`type=${type}`, ...Object.entries(keys).map(([key, value]) => `${key}=${quote(String(value))}`)].join(",");

/**
 * Return the distinctive part of a name: the value of the last key, or the type if it has no keys.
 *
 * @param {string} text
 */
export function shortName(text) {
  const name = parseName(text);
  if (!name) return text;
  const values = Object.values(name.keys);
  const last = values.at(-1);
  if (last === undefined) return name.type;
  return "id" in name.keys ? `${name.type} ${last}` : last;
}

const RIGHT_TO_LEFT =
  /[\p{Script=Adlam}\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Nko}\p{Script=Syriac}\p{Script=Thaana}]/u;

/**
 * Enclose a right-to-left name in the marks that keep it from reordering the sentence around it. Only for sentences: a
 * name of its own may be copied, and console.css isolates it.
 *
 * @param {string} name
 */
export const isolated = (name) => (RIGHT_TO_LEFT.test(name) ? `\u2068${name}\u2069` : name);

/**
 * Describe an object name as the scope of a stop.
 *
 * @param {any} scope
 */
export function scopeInWords(scope) {
  const name = parseName(scope);
  if (!name) return stopInWords(scope);
  if (name.type === "Broker") return "the whole broker";
  if (name.type === "Exchange") return `queues bound to exchange ${isolated(name.keys.name)}`;
  const last = isolated(Object.values(name.keys).at(-1) ?? "");
  return name.type === "VirtualHost" ? `virtual host ${last}` : `queue ${last}`;
}

/**
 * Describe the scope of a stop in the broker's form ("broker", "virtualhost test", "broker orders.>", "queue
 * default/orders").
 *
 * @param {any} scope
 * @returns {string}
 */
export function stopInWords(scope) {
  const [words, of] = clientOf(scope);
  if (words) return `${words} in ${stopInWords(of)}`;
  const label = (/** @type {string} */ rest) => isolated(rest.replace(/^default\/|^"\/"(?=\/)/, ""));
  const [, kind, rest = ""] = /^(broker|virtualhost|exchange|queue)(?: (.*))?$/s.exec(scope) ?? [];
  if (kind === "broker") return rest ? `queues that match ${isolated(rest)}` : "the whole broker";
  if (kind === "exchange") return `queues bound to exchange ${label(rest)}`;
  if (kind === "queue") return `queue ${label(rest)}`;
  if (kind !== "virtualhost") return scope;
  const [host, ...pattern] = rest.split(" ");
  const within = `virtual host ${host === '"/"' ? "/" : isolated(host)}`;
  return pattern.length ? `queues that match ${isolated(pattern.join(" "))} in ${within}` : within;
}

/**
 * Describe the clients whose producers a stop is for: a map of user, container_id and link; "" for all clients.
 *
 * @param {any} stop
 */
export const clientInWords = (stop) =>
  [
    ["user", stop.user],
    ["container", stop.container_id],
    ["link", stop.link],
  ]
    .filter(([, value]) => value)
    .map(([kind, value]) => `${kind} ${isolated(value)}`)
    .join(", ");

const CLIENT = /^client ((?:(?:user|container_id|link)=(?:"(?:[^"\\]|\\.)*"|[^ "]+) )+)of (.*)$/s;
const PART = /(user|container_id|link)=("(?:[^"\\]|\\.)*"|[^ "]+) /gs;

/**
 * Return the clients of a scope in words, and the rest of the scope; ["", scope] if it is for all clients.
 *
 * @param {string} scope
 */
function clientOf(scope) {
  const match = CLIENT.exec(scope);
  if (!match) return ["", scope];
  const parts = [...match[1].matchAll(PART)].map(([, name, value]) => [
    name,
    value.startsWith('"') ? JSON.parse(value) : value,
  ]);
  return [clientInWords(Object.fromEntries(parts)), match[2]];
}

/**
 * Return the virtual host of an object; null: the object belongs to the broker.
 *
 * @param {string} text
 */
export function hostOf(text) {
  const name = parseName(text ?? "");
  return (name?.type === "VirtualHost" ? name.keys.name : name?.keys.virtualhost) ?? null;
}

// Names that browsers or proxies would change in a URL have a long form: console/intake/path_names.py.
const TAKEN = new Set(["", ".", "..", "check"]);
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern matches them
const LONG = /^~~|[\x00-\x1f\x7f-\x9f\u2028\u2029]/;
/** @param {number} byte */
const hex = (byte) =>
  /[A-Za-z0-9_-]/.test(String.fromCharCode(byte))
    ? String.fromCharCode(byte)
    : `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
/** @param {any} name */
const escaped = (name) => `~~${Array.from(new TextEncoder().encode(name), hex).join("")}`;

/**
 * Encode the name of a virtual host as a segment of a URL.
 *
 * @param {any} name
 */
export const hostPart = (name) =>
  LONG.test(name) || TAKEN.has(name) || name.includes("/") ? escaped(name) : encodeURIComponent(name);

/**
 * Encode the name of a queue as the rest of a URL: slashes stay.
 *
 * @param {any} name
 */
export const queuePart = (name) =>
  LONG.test(name) || name.split("/").some((/** @type {any} */ part) => TAKEN.has(part))
    ? escaped(name)
    : name.split("/").map(encodeURIComponent).join("/");

/**
 * Add a broker to a URL: by default the one that this page's address names.
 *
 * @param {string} url
 * @param {string} [broker]
 */
export function ofBroker(url, broker = new URLSearchParams(globalThis.location?.search ?? "").get("broker") ?? "") {
  return broker ? `${url}${url.includes("?") ? "&" : "?"}broker=${encodeURIComponent(broker)}` : url;
}

/**
 * Return the URL of an object's page: queues and connections have their own, others are in the object browser.
 * `broker`: its slug, if
 * not that of this page.
 *
 * @param {string} text
 * @param {string} [broker]
 */
export function objectUrl(text, broker) {
  const name = parseName(text);
  if (name?.type === "Queue") return queueUrl(name.keys.virtualhost, name.keys.name, broker);
  if (name?.type === "Connection") return ofBroker(`/clients/connection/?object=${encodeURIComponent(text)}`, broker);
  return ofBroker(`/objects/?object=${encodeURIComponent(text)}`, broker);
}

/**
 * Return the path of a queue's page, without its broker.
 *
 * @param {any} virtualhost
 * @param {any} name
 */
export const queuePath = (virtualhost, name) => `/queues/${hostPart(virtualhost)}/${queuePart(name)}/`;

/**
 * @param {any} virtualhost
 * @param {any} name
 * @param {string} [broker]
 */
export const queueUrl = (virtualhost, name, broker) => ofBroker(queuePath(virtualhost, name), broker);

/**
 * Return the URL of the page that explains why a queue or producer is blocked.
 *
 * @param {string} text
 * @param {string} [broker]
 */
export const whyUrl = (text, broker) => ofBroker(`/why/?object=${encodeURIComponent(text)}`, broker);

/**
 * Return the URL of the messages of a queue. `filter`: parameters of the page.
 *
 * @param {string} queue object name
 * @param {[string, string][]} [filter]
 * @param {string} [broker]
 */
export const messagesUrl = (queue, filter = [], broker = undefined) =>
  ofBroker(`/messages/?${new URLSearchParams([["object", queue], ...filter])}`, broker);

/**
 * Return the URL of the timeline of a queue.
 *
 * @param {any} queue
 */
export const timelineUrl = (queue) => ofBroker(`/timeline/?queue=${encodeURIComponent(queue)}`);
