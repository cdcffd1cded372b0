// The events of a run, from its first to its last, over as many connections as necessary.
//
// EventSource can send neither a body nor headers, so events are read from the body of a response. After a lost connection, the client
// resumes after its last record; a record that arrives twice is used once. A hidden page closes its connections: a browser allows six per
// server for all its tabs, and tabs that only wait would block a decision from being sent.

import { Problem, path, send } from "./api.js";

/** How long a connection may be silent, without even a comment, before it is treated as lost. The server sends a comment every 15 s. */
const SILENCE = 45_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/** Why a turn that was dropped while it was being sent has no run. */
export const LET_GO = {
  title: "Stopped before the server answered", detail: "This page cannot tell whether the server received your message. If it did, the run continues, and appears here when you return to the page. Sending the same message again does not run it twice.",
};

/** Returns a new idempotency key. */
export const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

/** Reads the events of one response. `each` receives each event and returns whether it was the last. Returns after the last event, or
 *  when the response ends, is silent for too long, or `signal` is aborted. */
async function read(response, each, signal) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const stop = () => void reader.cancel().catch(() => {});
  let buffer = "";
  let timer = setTimeout(stop, SILENCE);
  signal.addEventListener("abort", stop);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(stop, SILENCE);
      buffer += value;
      let from = 0;
      for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n", from)) {
        const event = frame(buffer.slice(from, end));
        from = end + 2;
        if (event && each(event)) return;
      }
      buffer = buffer.slice(from);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", stop);
    stop();
  }
}

function frame(text) {
  const data = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
  }
  try {
    return data.length ? JSON.parse(data.join("\n")) : undefined;
  } catch {
    return undefined;
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** Returns the new part of a live piece, beyond the known bytes of its text, and the number of bytes known with it. A resumed connection
 *  repeats everything before the next record, in larger pieces. */
export function newPart({ offset, text }, known) {
  const piece = encoder.encode(text);
  return { text: decoder.decode(piece.subarray(Math.max(0, known - offset))), known: Math.max(known, offset + piece.length) };
}

/** Whether an event is the last one of its run. */
export function isLast(event) {
  return (event.type === "final" || event.type === "run_failed") && event.agent === "a0";
}

/** Follows one run to its end. `onEvent` receives each event once, `onState` receives `live`, `lost`, `refused` or `over`. */
export class Follower {
  constructor({ runId, onEvent, onState = () => {} }) {
    Object.assign(this, { runId, last: 0, onEvent, onState });
    this.stopped = new AbortController();
    this.isOver = false;
    this.wait = FIRST_WAIT;
    /** How often the connection was lost since the last event. */
    this.losses = 0;
    /** Closes the connection while the page is hidden, and resumes later. */
    this.rest = () => (this.isUnseen ? this.connection?.abort() : this.wake?.());
  }

  stop() {
    this.stopped.abort();
    this.connection?.abort();
    this.wake?.();
  }

  /** Follows an existing run. Resolves when it has ended or `stop` was called. Throws on errors that retrying cannot fix. */
  async follow() {
    await this.persist(() => this.events());
  }

  /** Takes a turn and follows its run. The same key allows the request to be sent again; `stop` drops it. */
  async startTurn(session, body, idempotency) {
    const headers = { accept: "text/event-stream", "idempotency-key": idempotency };
    // No event can have arrived before there is a run.
    await this.persist(() => (this.runId ? this.events() : send("POST", path`/sessions/${session}/turns`, { headers, body, signal: this.connection.signal })));
    if (!this.runId) throw new Problem(0, LET_GO);
  }

  /** Requests the events after the last received record. */
  events() {
    const headers = { accept: "text/event-stream" };
    if (this.last) headers["last-event-id"] = String(this.last);
    return send("GET", path`/runs/${this.runId}/events`, { headers, signal: this.connection.signal });
  }

  async persist(open) {
    document.addEventListener("visibilitychange", this.rest);
    try {
      await this.followUntilOver(open);
    } finally {
      document.removeEventListener("visibilitychange", this.rest);
    }
  }

  async followUntilOver(open) {
    while (!this.isOver && !this.stopped.signal.aborted) {
      if (this.isUnseen) {
        await new Promise((done) => (this.wake = done));
        continue;
      }
      this.connection = new AbortController();
      let state = "lost";
      try {
        const response = await open();
        this.onState("live");
        await read(response, (event) => this.receive(event), this.connection.signal);
        // The answer to a turn ends when the run waits; following continues with the run's events.
        if (this.isOver || this.waits) { this.waits = false; this.losses = 0; continue; }
        if (this.connection.signal.aborted) continue;
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        // The connection was closed on purpose, not lost.
        if (this.connection.signal.aborted) continue;
        if (error instanceof Problem && !error.isPassing) throw error;
        // If the first request never reached the server, the user decides whether to send it again.
        if (error instanceof Problem && error.status && !this.runId) throw error;
        if (error.status === 429) state = "refused";
      }
      if (this.isOver || this.stopped.signal.aborted) break;
      this.losses += 1;
      this.onState(state, this.losses);
      await this.pause();
    }
    if (this.isOver) this.onState("over");
  }

  /** Whether the page is hidden and the run could be found again. A turn being sent is not dropped before it has a run. */
  get isUnseen() {
    return document.hidden && this.runId !== undefined;
  }

  /** Handles an event, and returns whether it is the last. */
  receive(event) {
    if (this.runId === undefined) {
      this.runId = event.run_id;
      this.rest();
    }
    if (event.seq !== undefined) {
      if (event.seq <= this.last) return false;
      this.last = event.seq;
      this.wait = FIRST_WAIT;
      this.waits = event.type === "waiting";
    }
    this.losses = 0;
    if (isLast(event)) this.isOver = true;
    this.onEvent(event);
    return this.isOver;
  }

  /** Waits longer each time, but only until the browser is online again. */
  async pause() {
    const ms = this.wait * (0.75 + Math.random() / 2);
    this.wait = Math.min(this.wait * 2, LONGEST_WAIT);
    let timer;
    await new Promise((done) => {
      this.wake = done;
      timer = setTimeout(done, ms);
      addEventListener("online", done);
    });
    clearTimeout(timer);
    removeEventListener("online", this.wake);
  }
}
