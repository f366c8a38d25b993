/** Requests to growd. All of them end with an answer or with a `Refusal` that has growd's own sentence. */

import { t } from "./i18n.js";

const API = new URL("api/0.0.1/", location.origin + location.pathname);
const DATABASE = new URL("/", location.origin);
const TIMEOUT_MS = 20_000;

/** A request that was refused or not answered; `status` is 0 without an answer. */
export class Refusal extends Error {
  constructor(sentence, status = 0, body = {}) {
    super(sentence);
    this.status = status;
    this.code = body.error ?? "";
    this.retryAfter = 0; // seconds to wait before the next try
    this.body = body;
  }
}

/** GET a path of the API, such as "node/status". */
export const get = (path, timeout = TIMEOUT_MS) => request(new URL(path, API), "GET", undefined, timeout);

/** POST to a path of the API, such as "journal/environment_1". */
export const post = (path, values) => request(new URL(path, API), "POST", values);

/** The address of a path of the API, for streams and links. */
export const address = (path) => new URL(path, API).href;

/** Publish on a topic; `values` are the fields of its message, `[null]` releases. Answers {message, hint}. */
export const publish = (topic, values) => request(new URL(`topic/${topic}`, API), "POST", values);

/** Call a service with arguments by name. Answers {success, message, ...}. */
export const call = (service, args = {}, timeout = TIMEOUT_MS) => request(new URL(`service/${service}`, API), "POST", args, timeout);

/** The names that growd's databases have on this server, by their usual names. */
let databases = {};
export const nameDatabases = (names) => (databases = names);

/** A request to the database, such as ("GET", "recipes/_all_docs?include_docs=true"). */
export const database = (method, path, body) => request(new URL(databaseAddress(path)), method, body);

/** The design document of growd in its databases, named like growd's part of the addresses. */
export const DESIGN = `_design/${location.pathname.split("/").filter(Boolean)[0]?.slice(1) ?? "svc"}`;

/** A key of a view for an address. */
export const key = (value) => encodeURIComponent(JSON.stringify(value));

/** The address of a path of the database, for links. */
export const databaseAddress = (path) => new URL(path.replace(/^\w+/, (name) => databases[name] ?? name), DATABASE).href;

/** Says a refusal, {code, fields}, in the language of the page; "" if it can't. */
let translated = () => "";
export const translateBy = (how) => (translated = how);

async function request(url, method = "GET", body = undefined, timeout = TIMEOUT_MS) {
  let answer;
  try {
    answer = await fetch(url, {
      method,
      // no dialog of the browser for a login
      headers: { "X-CouchDB-WWW-Authenticate": "Cookie", ...(body !== undefined && { "Content-Type": "application/json" }) },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(timeout),
    });
  } catch (error) {
    throw new Refusal(t(error.name === "TimeoutError" ? "no_answer" : "no_connection"));
  }
  const content = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const refusal = new Refusal(translated(content) || (content.ERROR ?? content.reason ?? t("bad_answer", { status: `${answer.status} ${answer.statusText}`.trim() })), answer.status, content);
    refusal.retryAfter = Number(answer.headers.get("Retry-After")) || 0;
    throw refusal;
  }
  return content;
}
