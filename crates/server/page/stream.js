// The events of a run, from its first to its last, over as many connections as it takes.
//
// EventSource can neither send a body nor headers, so that events are read from the body of a response. Who loses the
// connection comes back with the last record it had; a record that comes twice counts once. A page that nobody sees gives its
// connections back: a browser has six to a server for all its tabs, and tabs that only wait would keep a decision from getting out.

import { Problem, path, send } from "./api.js";

/** How long nothing may come, not even a comment, before the connection counts as lost. The server sends one every 15 s. */
const SILENCE = 45_000;
const FIRST_WAIT = 500;
const LONGEST_WAIT = 15_000;

/** Why a turn has no run that was let go of while it was on its way. */
export const LET_GO = {
  title: "Stopped before the server answered", detail: "This page does not know whether your message was taken. If it was, its run goes on, and shows here once you come back to the page; sent again as it is, it is not done twice.",
};

/** A name for what is to be done once, however often it is sent. */
export const newKey = () => crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;

/** Reads the events of one response. `each` gets each of them and says whether it was the last; returns then, or when the
 * response ends, is silent for too long, or `signal` says so. */
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

/** What a live piece says beyond the bytes that are known of its text, and how many are known with it. A connection that is taken
 *  up again brings all that came before the next record once more, in larger pieces. */
export function beyond({ offset, text }, known) {
  const piece = encoder.encode(text);
  return { text: decoder.decode(piece.subarray(Math.max(0, known - offset))), known: Math.max(known, offset + piece.length) };
}

/** Whether an event is the last one of its run. */
export function isLast(event) {
  return (event.type === "final" || event.type === "run_failed") && event.agent === "a0";
}

/** One run that is followed to its end. `onEvent` gets each event once, `onState` gets `live`, `lost`, `refused` or `over`. */
export class Follower {
  constructor({ runId, onEvent, onState = () => {} }) {
    Object.assign(this, { runId, last: 0, onEvent, onState });
    this.stopped = new AbortController();
    this.isOver = false;
    this.wait = FIRST_WAIT;
    /** How often the connection was lost since something came. */
    this.losses = 0;
    /** Gives the connection back while nobody looks, and takes it up again. */
    this.rest = () => (this.isUnseen ? this.connection?.abort() : this.wake?.());
  }

  stop() {
    this.stopped.abort();
    this.connection?.abort();
    this.wake?.();
  }

  /** Follows a run that is there. Resolves when it is over or `stop` was called; throws what no patience helps against. */
  async follow() {
    await this.persist(() => this.events());
  }

  /** Takes a turn and follows the run that it begins. The same key lets the request be sent again; `stop` lets go of it. */
  async take(session, body, idempotency) {
    const headers = { accept: "text/event-stream", "idempotency-key": idempotency };
    // Nothing can have come before there is a run.
    await this.persist(() => (this.runId ? this.events() : send("POST", path`/sessions/${session}/turns`, { headers, body, signal: this.connection.signal })));
    if (!this.runId) throw new Problem(0, LET_GO);
  }

  /** Asks for the events behind the last record that came. */
  events() {
    const headers = { accept: "text/event-stream" };
    if (this.last) headers["last-event-id"] = String(this.last);
    return send("GET", path`/runs/${this.runId}/events`, { headers, signal: this.connection.signal });
  }

  async persist(open) {
    document.addEventListener("visibilitychange", this.rest);
    try {
      await this.keepOn(open);
    } finally {
      document.removeEventListener("visibilitychange", this.rest);
    }
  }

  async keepOn(open) {
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
        await read(response, (event) => this.hear(event), this.connection.signal);
        // An answer that waits ends here and goes on in the run's events.
        if (this.isOver || this.waits) { this.waits = false; this.losses = 0; continue; }
        if (this.connection.signal.aborted) continue;
      } catch (error) {
        if (this.stopped.signal.aborted) return;
        // It was given back, not lost.
        if (this.connection.signal.aborted) continue;
        if (error instanceof Problem && !error.isPassing) throw error;
        // A first request that never got through is the user's to send again.
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

  /** Whether nobody looks, and the run would be found again. A turn that is being taken is not let go of before it has one. */
  get isUnseen() {
    return document.hidden && this.runId !== undefined;
  }

  /** Takes an event in, and says whether it is the last. */
  hear(event) {
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

  /** Waits longer each time, and no longer than until the browser has a network again. */
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
