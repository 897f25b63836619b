// Calls to /api/v1/. Every refusal becomes an ApiError whose message is a sentence for people.

const BASE = "/api/v1/";

/** `status`: HTTP status, 0 if nothing answered; `fields`: what is wrong with which field; `body`: the whole answer. */
export class ApiError extends Error {
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

/** Calls of a page are about the page's broker. */
const aboutBroker = (path) => {
  if (path.startsWith("brokers/") || path.startsWith("history/")) return path; // these name their broker themselves
  const broker = new URLSearchParams(location.search).get("broker");
  return broker ? `${path}${path.includes("?") ? "&" : "?"}broker=${encodeURIComponent(broker)}` : path;
};

const token = () => document.querySelector('meta[name="csrf-token"]')?.content ?? "";

async function call(method, path, body, signal) {
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

export const get = (path, signal) => call("GET", path, undefined, signal);
export const post = (path, body, signal) => call("POST", path, body, signal);
export const patch = (path, body) => call("PATCH", path, body);
export const remove = (path) => call("DELETE", path);

export const query = (values) => {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== "" && value !== null && value !== undefined) search.set(name, value);
  }
  const text = search.toString();
  return text ? `?${text}` : "";
};

export const objectPath = (broker, name) =>
  `brokers/${encodeURIComponent(broker)}/objects/${encodeURIComponent(name)}/`;
