// A run step by step: the conversation as it was after each record.

import { announce, button, el, fill } from "./dom.js";
import { TurnView } from "./turn.js";

/** The duration of a step while playing, in milliseconds. */
const PACE = 700;

export class Replay {
  constructor() {
    this.records = [];
    /** The number of records when they were last set: the caller's list keeps growing. */
    this.count = 0;
    this.at = 0;
    this.slider = el("input", { type: "range", min: "1", max: "1", value: "1", class: "slider", "aria-label": "Record", on: { input: () => this.to(Number(this.slider.value)) } });
    this.word = el("span", { class: "hint replay-word" });
    this.playButton = button({ name: "play", label: "Play", onClick: () => this.toggle() });
    this.stage = el("div", { class: "stage" });
    const step = (by) => () => { this.pause(); this.to(this.at + by); announce(this.word.textContent); };
    this.node = el("div", { class: "replay" },
      el("div", { class: "row replay-bar" }, button({ name: "left", label: "Step back", onClick: step(-1) }), this.playButton, button({ name: "right", label: "Step forward", onClick: step(1) }), this.slider, this.word), this.stage);
  }

  set(records) {
    const isAtEnd = this.at >= this.count;
    this.records = records;
    this.count = records.length;
    this.slider.max = String(Math.max(1, records.length));
    if (isAtEnd && !this.node.hidden) this.to(records.length);
  }

  /** Shows the run as it was after this many records. */
  to(count) {
    const at = Math.min(this.records.length, Math.max(1, count));
    if (!this.turn || at < this.at || at > this.at + 50) {
      this.turn = new TurnView({ runId: this.records[0]?.run_id });
      fill(this.stage, this.turn.node);
      this.at = 0;
    }
    for (const record of this.records.slice(this.at, at)) this.turn.enqueue(record);
    this.at = at;
    this.slider.value = String(at);
    const record = this.records[at - 1];
    this.word.textContent = record ? `${at} of ${this.records.length}: ${record.type.replaceAll("_", " ")}` : "";
    this.slider.setAttribute("aria-valuetext", this.word.textContent);
  }

  toggle() {
    if (this.timer) return this.stop();
    if (this.at >= this.records.length) this.to(1);
    this.playButton.setAttribute("aria-pressed", "true");
    this.timer = setInterval(() => (this.at >= this.records.length ? this.stop() : this.to(this.at + 1)), PACE);
    return undefined;
  }

  /** Stops playing, and announces the position: during play, steps come too fast to be announced. */
  stop() {
    this.pause();
    announce(this.word.textContent);
  }

  pause() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.playButton.setAttribute("aria-pressed", "false");
  }
}
