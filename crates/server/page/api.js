// Requests to the server's own API, and their failures.

import { askForKey, key } from "./access.js";

const BASE = "/api/v1";

/** How long an answer may take to begin, and how long it may then be silent, in milliseconds, because a dead connection is not reported.
 *  Also the minimum speed for sending a request, in characters per millisecond. */
const PATIENCE = 30_000;
const SLOWEST = 4;

/** A problem document of the server, or a server that could not be reached (status 0). */
export class Problem extends Error {
  constructor(status, document = {}) {
    super(document.detail || document.title || `the server answered with status ${status}`);
    this.status = status;
    this.kind = String(document.type ?? "").replace("/errors/", "");
    this.title = document.title ?? "";
    this.document = document;
  }

  /** Whether the same request may succeed in a moment. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 502 || this.kind === "store-failed";
  }
}

/** The problem when something other than the server answered. */
function strange(status) {
  return new Problem(0, { title: "No connection", detail: `Something between this page and the server answered instead (status ${status}), such as a network's sign-in page.` });
}

/** Builds an address from ids or values with arbitrary characters. */
export function path(strings, ...ids) {
  return strings.reduce((all, text, at) => all + encodeURIComponent(ids[at - 1]) + text);
}

/** How far the server's clock is ahead of this machine's, in milliseconds. Differences within the precision of the header, which has
 *  whole seconds, are ignored. */
let ahead = 0;
const EXACT = 2_000;

/** Returns the time by the server's clock, which its records use. */
export function now() {
  return Date.now() + ahead;
}

function noteClock(response) {
  const found = Date.parse(response.headers.get("date")) - Date.now();
  if (Math.abs(found - ahead) > EXACT) ahead = Math.abs(found) > EXACT ? found : 0;
}

/** Sends a request and returns the response if it succeeded. `text` is a body that is already JSON; with `asks: false`, the caller
 *  handles a missing key. */
export async function send(method, where, { body, text, headers = {}, signal, asks = true } = {}) {
  const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
  const shown = key();
  const all = { ...headers };
  if (shown) all.authorization = `Bearer ${shown}`;
  if (content !== undefined) all["content-type"] = "application/json";
  const late = new AbortController();
  const init = { method, headers: all, signal: signal ? AbortSignal.any([signal, late.signal]) : late.signal, body: content, cache: "no-store" };
  const timer = setTimeout(() => late.abort(), PATIENCE + (content?.length ?? 0) / SLOWEST);
  let response;
  try {
    response = await fetch(BASE + where, init);
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Problem(0, { title: "No connection", detail: late.signal.aborted ? "The server did not answer." : "The server cannot be reached." });
  } finally {
    clearTimeout(timer);
  }
  noteClock(response);
  if (response.ok) return response;
  const details = await textOf(response).then(JSON.parse).catch(() => undefined);
  // The server always gives a reason, except for status 401, which a proxy in front of it may also send.
  if (!details && response.status < 500 && response.status !== 401) throw strange(response.status);
  const problem = new Problem(response.status, details ?? {});
  // The server's own message is meant for programs.
  if (problem.kind === "key-needed") problem.message = shown ? "The server does not accept the key or token of this tab: it is unknown, expired or revoked." : "This server requires a key.";
  if (problem.status !== 401 || !asks) throw problem;
  // The user may have supplied one meanwhile.
  const isNew = key() !== shown || (await askForKey(problem.message));
  if (!isNew) throw problem;
  return send(method, where, { text: content, headers, signal, asks });
}

async function json(response) {
  if (response.status === 204) return undefined;
  const text = await textOf(response);
  try {
    return JSON.parse(text);
  } catch {
    throw strange(response.status);
  }
}

/** Reads an answer to its end. It may take any time as long as data keeps arriving. */
async function textOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let isLate = false;
  let text = "";
  try {
    for (;;) {
      const timer = setTimeout(() => { isLate = true; reader.cancel().catch(() => {}); }, PATIENCE);
      const { done, value } = await reader.read().finally(() => clearTimeout(timer));
      if (done && !isLate) return text;
      if (done) break;
      text += value;
    }
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  throw new Problem(0, { title: "No connection", detail: "The server's answer was cut off." });
}

export const get = (where, more) => send("GET", where, more).then(json);
export const post = (where, body, more) => send("POST", where, { body, ...more }).then(json);
export const patch = (where, body, more) => send("PATCH", where, { body, ...more }).then(json);
export const remove = (where, more) => send("DELETE", where, more).then(json);
