// A conversation as Markdown and a run as JSON Lines, for the person to keep. The browser makes the file; nothing is sent.

import { get, path } from "./api.js";
import { partsOf, pretty, textOf } from "./format.js";

/** Hands a text to the person as a file. */
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\p{L}\p{M}\p{N} ._-]+/gu, "-").slice(0, 120);
  link.click();
  // The browser has begun to read it by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** The records of a run, one a line, as the server sends them. */
export function saveRecords(runId, records) {
  save(`run-${runId}.jsonl`, "application/jsonl", records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}

/** The conversation of a session, with what was called and what came of it. */
export async function saveConversation(sessionId, title) {
  const { history } = await get(path`/sessions/${sessionId}`);
  save(`${title}.md`, "text/markdown", asMarkdown(title, history ?? []));
}

/** Writes messages as Markdown. Instructions, which are the deployment's, are left out. */
function asMarkdown(title, messages) {
  const parts = [`# ${title.replaceAll("\n", " ")}`];
  for (const message of messages) {
    const text = textOf(message);
    if (message.role === "user") parts.push("## User", text);
    if (message.role === "assistant") {
      parts.push("## Assistant", text);
      for (const call of partsOf(message, "tool_call")) parts.push(`**Called \`${call.name}\`**`, fenced(pretty(call.arguments), "json"));
    }
    if (message.role === "tool") parts.push(`**Result of \`${message.name}\`**`, fenced(pretty(message.content)));
  }
  return `${parts.filter(Boolean).join("\n\n")}\n`;
}

/** A text in a fence that nothing in it ends. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
