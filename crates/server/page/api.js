// Requests to the server's own API, and what goes wrong with them.

import { askForKey, key } from "./access.js";

const BASE = "/api/v1";

/** How long an answer may take to begin, and how long nothing more of it may come, in milliseconds: a connection that is dead does not
 *  say so. And how slowly what is sent with a request may go, in characters a millisecond. */
const PATIENCE = 30_000;
const SLOWEST = 4;

/** A problem document of the server, or that it could not be reached at all (status 0). */
export class Problem extends Error {
  constructor(status, document = {}) {
    super(document.detail || document.title || `the server answered with status ${status}`);
    this.status = status;
    this.kind = String(document.type ?? "").replace("/errors/", "");
    this.title = document.title ?? "";
    this.document = document;
  }

  /** Whether the same request may do better in a moment. */
  get isPassing() {
    return this.status === 0 || this.status === 429 || this.status >= 502 || this.kind === "store-failed";
  }
}

/** What answered in the place of the server. */
function strange(status) {
  return new Problem(0, { title: "No connection", detail: `Something between this page and the server answered (status ${status}), such as the sign-in page of a network.` });
}

/** An address with ids or values in it, whatever signs they hold. */
export function path(strings, ...ids) {
  return strings.reduce((all, text, at) => all + encodeURIComponent(ids[at - 1]) + text);
}

/** How far the server's clock is ahead of this machine's, in milliseconds; less than what a header says in whole seconds is nothing. */
let ahead = 0;
const EXACT = 2_000;

/** The time by the server's clock, from which the times of its records are. */
export function now() {
  return Date.now() + ahead;
}

function noteClock(response) {
  const found = Date.parse(response.headers.get("date")) - Date.now();
  if (Math.abs(found - ahead) > EXACT) ahead = Math.abs(found) > EXACT ? found : 0;
}

/** Sends a request and returns the response, if it is a good one. `text` is a body that is JSON already; `asks: false` leaves it to the caller to ask for a key. */
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
  const told = await textOf(response).then(JSON.parse).catch(() => undefined);
  // The server says why, but for a key that something before it may ask for, too.
  if (!told && response.status < 500 && response.status !== 401) throw strange(response.status);
  const problem = new Problem(response.status, told ?? {});
  // The server tells a program what to send.
  if (problem.kind === "key-needed") problem.message = shown ? "The server does not accept the key or token of this tab: it is unknown, expired or revoked." : "This server takes requests with a key alone.";
  if (problem.status !== 401 || !asks) throw problem;
  // Somebody may have given one meanwhile.
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

/** Reads an answer to its end. It may take as long as it does, as long as something comes. */
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
  throw new Problem(0, { title: "No connection", detail: "The answer of the server broke off." });
}

export const get = (where, more) => send("GET", where, more).then(json);
export const post = (where, body, more) => send("POST", where, { body, ...more }).then(json);
export const remove = (where, more) => send("DELETE", where, more).then(json);
