// Numbers and times in readable form.

/** A duration in milliseconds. */
export function duration(ms) {
  if (ms === undefined || ms === null) return "";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 59_500) return `${(ms / 1000).toFixed(ms < 10_000 ? 1 : 0)} s`;
  const seconds = Math.round(ms / 1000);
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${seconds % 60} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A size in bytes. */
export function bytes(count) {
  if (count < 1024) return `${count} B`;
  return count < 1024 * 1024 ? `${Math.round(count / 1024)} KiB` : `${(count / 1024 / 1024).toFixed(1)} MiB`;
}

/** A number of tokens. */
function tokens(count) {
  if (count < 10_000) return count.toLocaleString("en");
  return count < 1_000_000 ? `${(count / 1000).toFixed(1)}k` : `${(count / 1_000_000).toFixed(2)}M`;
}

/** An amount in millionths of a US dollar. */
function money(micro) {
  if (micro === undefined || micro === null) return "";
  const dollars = micro / 1_000_000;
  if (dollars === 0) return "$0";
  return dollars < 0.01 ? `$${dollars.toFixed(5)}` : `$${dollars.toFixed(dollars < 1 ? 4 : 2)}`;
}

/** A number with its certainty: ~ for an estimate, + for a lower bound. */
function sure(text, label) {
  if (label === "estimated") return `~${text}`;
  return label === "unknown" ? `${text}+` : text;
}

/** The number of tokens of a kind, with its certainty. */
export function tokensOf(usage, kind) {
  return sure(tokens(usage?.[kind] ?? 0), usage?.labels?.[kind]);
}

/** A cost with its certainty, or nothing if it is unknown. */
export function costOf({ cost_micro_usd: micro, cost_label: label }) {
  return micro === undefined || (micro === 0 && label === "unknown") ? "" : sure(money(micro), label);
}

/** In order of decreasing certainty. */
const LABELS = ["measured", "estimated", "unknown"];

/** The sum of two costs, which is only as certain as the less certain one. */
export function sumOf(one, other) {
  const [a, b] = [one, other].map(({ cost_label: label }) => LABELS.indexOf(label ?? "measured"));
  return { cost_micro_usd: (one.cost_micro_usd ?? 0) + (other.cost_micro_usd ?? 0), cost_label: LABELS[Math.max(a, b)] };
}

/** A time of day, with the day if it is not today, and the year if it is not this year. */
export function clock(at) {
  const date = new Date(at);
  const isToday = date.toDateString() === new Date().toDateString();
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return isToday ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short", year })}, ${time}`;
}

/** The full time. */
export function exactly(at) {
  return new Date(at).toLocaleString([], { dateStyle: "full", timeStyle: "medium" });
}

/** The name of the group in which a list shows a time. */
export function day(at) {
  const days = Math.floor((startOfDay(new Date()) - startOfDay(new Date(at))) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Previous 7 days";
  return days < 30 ? "Previous 30 days" : "Older";
}

/** When a session of a list was last used: when its last run ended or began, or else when it was created. */
export function lastUsed({ last_active_at: active, created_at: created }) {
  return active ?? created;
}

function startOfDay(date) {
  return new Date(date.getFullYear(), date.getMonth(), date.getDate()).getTime();
}

/** Formatted JSON, or the text itself if it is not JSON. */
export function pretty(json) {
  try {
    return JSON.stringify(typeof json === "string" ? JSON.parse(json) : json, null, 2);
  } catch {
    return String(json);
  }
}

/** The value of a JSON text, or undefined if it is not JSON. */
export function parsed(json) {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

/** The first line of a text, of bounded length. */
export function oneLine(text, most = 120) {
  const line = String(text).trim().split("\n", 1)[0].replace(/\s+/g, " ");
  // Do not cut a surrogate pair in half.
  return line.length > most ? `${line.slice(0, most - 1).replace(/[\ud800-\udbff]$/, "")}…` : line;
}

/** A text normalized for searching: without case and without accents, which have several encodings. */
export function folded(text) {
  return text.normalize("NFKD").toLowerCase().replace(/[\u0300-\u036f]/g, "").replaceAll("ı", "i");
}

/** Why a run ended, in words. */
export function reasonOf(reason) {
  if (typeof reason === "string") return reason.replaceAll("_", " ");
  const [kind, what] = Object.entries(reason ?? {})[0] ?? [];
  if (!kind) return "";
  const text = typeof what === "string" ? what.replaceAll("_", kind === "budget" ? " " : "_") : pretty(what);
  return kind === "budget" ? `${text} used up` : `${kind.replaceAll("_", " ")}: ${text}`;
}

/** Says that a run ended, and why. If the reason is itself a word for the end, that word is enough. */
export function endingOf(reason) {
  const words = reasonOf(reason);
  const saysIt = reason?.failed !== undefined || reason?.interrupted !== undefined;
  return saysIt ? words[0].toUpperCase() + words.slice(1) : `Ended: ${words}`;
}

/** A decision about a call, in words. */
export function decisionOf({ decision, reason, arguments: other, remember }) {
  const word = { approve: "Approved by a user", deny: "Denied by a user", expired: "Not decided in time" }[decision] ?? decision;
  return `${word}${reason ? `: ${reason}` : ""}${other ? ", with edited arguments" : ""}${remember ? ", remembered for this session" : ""}`;
}

/** The parts of a message with a given type. */
export function partsOf(message, type) {
  return (message?.parts ?? []).filter((part) => part.type === type);
}

/** The text of a message's parts. */
export function textOf(message) {
  return typeof message?.text === "string" ? message.text : partsOf(message, "text").map((part) => part.text).join("\n\n");
}

/** A model's thoughts before its reply. */
export function reasoningOf(reply) {
  return partsOf(reply, "reasoning").map((part) => part.text).join("\n\n");
}

/** JSON with line breaks and spaces added and nothing else changed: numbers, duplicate keys and escapes stay as they are. */
export function spread(json) {
  let out = "";
  let depth = 0;
  let at = 0;
  const fresh = () => `\n${"  ".repeat(depth)}`;
  while (at < json.length) {
    const sign = json[at];
    if (sign === '"') {
      let end = at + 1;
      while (end < json.length && json[end] !== '"') end += json[end] === "\\" ? 2 : 1;
      out += json.slice(at, end + 1);
      at = end + 1;
      continue;
    }
    if (sign === "{" || sign === "[") {
      const close = /^[{[]\s*[}\]]/.exec(json.slice(at, at + 64));
      if (close) {
        out += sign + (sign === "{" ? "}" : "]");
        at += close[0].length;
        continue;
      }
      depth += 1;
      out += sign + fresh();
    } else if (sign === "}" || sign === "]") {
      depth = Math.max(0, depth - 1);
      out += fresh() + sign;
    } else if (sign === ",") out += sign + fresh();
    else if (sign === ":") out += ": ";
    else if (!/\s/.test(sign)) out += sign;
    at += 1;
  }
  return out;
}
