// Exports a conversation as Markdown and a run as JSON Lines. The browser creates the file; nothing is sent.

import { partsOf, pretty, textOf } from "./format.js";
import { wholeSession } from "./session.js";

/** Offers a text as a file to download. */
function save(name, type, text) {
  const address = URL.createObjectURL(new Blob([text], { type }));
  const link = document.createElement("a");
  link.href = address;
  link.download = name.replace(/[^\p{L}\p{M}\p{N} ._-]+/gu, "-").slice(0, 120);
  link.click();
  // The browser has started to read it by then.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Saves the records of a run, one per line, as the server sends them. */
export function saveRecords(runId, records) {
  save(`run-${runId}.jsonl`, "application/jsonl", records.map((record) => `${JSON.stringify(record)}\n`).join(""));
}

/** Saves the conversation of a session, with its tool calls and results. */
export async function saveConversation(sessionId, title) {
  const { history } = await wholeSession(sessionId);
  save(`${title}.md`, "text/markdown", asMarkdown(title, history ?? []));
}

/** Renders messages as Markdown. Instructions, which belong to the deployment, are left out. */
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

/** Puts a text in a fence that nothing in the text closes. */
function fenced(text, language = "") {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([ticks]) => ticks.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}${language}\n${text}\n${fence}`;
}
