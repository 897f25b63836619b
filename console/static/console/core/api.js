// Calls of /api/v1/. Error responses become an ApiError whose message can be shown to the user.

const BASE = "/api/v1/";

/** `status`: HTTP status, 0 without a response; `fields`: errors by field; `body`: the complete response. */
export class ApiError extends Error {
  /**
   * @param {any} status
   * @param {any} message
   * @param {any} [body]
   */
  constructor(status, message, body = {}) {
    super(message);
    this.status = status;
    this.body = body;
  }

  get fields() {
    if (this.status !== 400 || !this.body || typeof this.body !== "object") return {};
    const entries = Object.entries(this.body).filter(([name]) => name !== "detail");
    return Object.fromEntries(
      entries.map(([name, wrong]) => [name, Array.isArray(wrong) ? wrong.join(" ") : String(wrong)]),
    );
  }
}

/**
 * @param {any} status
 * @param {any} body
 */
function sentence(status, body) {
  if (body && typeof body.detail === "string") return body.detail;
  if (status === 400 && body && typeof body === "object") {
    return (
      Object.values(body)
        .flat()
        .filter((text) => typeof text === "string")
        .join(" ") || "The server refused the values."
    );
  }
  if (status === 401) return "You are signed out. Sign in again.";
  if (status === 403) return "Your role does not allow that. An administrator can give you another one.";
  if (status === 404) return "It is not there any more.";
  if (status === 409) return "It has been changed since you opened it.";
  if (status === 503) return "The broker cannot be reached.";
  return `The server answered with ${status}. Its log says more.`;
}

/** Calls that are about one broker and have the parameter `broker`; others would refuse it. */
const OF_A_BROKER = new RegExp(
  "^(queues|producers|conditions|timeline|why|events|stop-producers|start-producers|selections|policies|messages" +
    "|message-jobs|dead-letters)/(?!bulk/\\d)",
);

/**
 * Add the page's broker to the query of a path about a broker.
 *
 * @param {string} path
 */
const aboutBroker = (path) => {
  if (!OF_A_BROKER.test(path)) return path;
  if (/[?&]broker=/.test(path)) return path; // a second one would be refused
  const broker = new URLSearchParams(location.search).get("broker");
  return broker ? `${path}${path.includes("?") ? "&" : "?"}broker=${encodeURIComponent(broker)}` : path;
};

const token = () =>
  /** @type {HTMLMetaElement | null} */ (document.querySelector('meta[name="csrf-token"]'))?.content ?? "";

/**
 * @param {string} method
 * @param {string} path
 * @param {unknown} [body]
 * @param {AbortSignal} [signal]
 * @returns {Promise<any>}
 */
async function call(method, path, body, signal) {
  /** @type {Response} */
  let response;
  try {
    response = await fetch(BASE + aboutBroker(path), {
      method,
      signal,
      credentials: "same-origin",
      headers: {
        Accept: "application/json",
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(method === "GET" ? {} : { "X-CSRFToken": token() }),
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(
      0,
      "The console's server does not answer. Whether anything was changed is unknown: look before you try again.",
    );
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    answer = null;
  }
  if (!response.ok) throw new ApiError(response.status, sentence(response.status, answer), answer);
  return answer;
}

/**
 * @param {string} path
 * @param {AbortSignal} [signal]
 */
export const get = (path, signal) => call("GET", path, undefined, signal);
/**
 * @param {string} path
 * @param {unknown} body
 * @param {AbortSignal} [signal]
 */
export const post = (path, body, signal) => call("POST", path, body, signal);
/**
 * @param {string} path
 * @param {unknown} body
 */
export const patch = (path, body) => call("PATCH", path, body);
/** @param {string} path */
export const remove = (path) => call("DELETE", path);

/** @param {Record<string, any>} values what is empty or null is left out */
export const query = (values) => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    for (const each of Array.isArray(value) ? value : [value])
      if (each !== "" && each !== null && each !== undefined) search.append(name, each);
  }
  const text = search.toString();
  return text ? `?${text}` : "";
};

/**
 * @param {string} broker
 * @param {string} name
 */
export const objectPath = (broker, name) =>
  `brokers/${encodeURIComponent(broker)}/objects/${encodeURIComponent(name)}/`;
