// A loopback model server that follows a script, using streamed Chat Completions. The beginning of the user's last message selects the
// script, and the number of tool results since then selects its step.

import http from "node:http";

const MARKDOWN = `## What the plan is

Here is **what I found**, with *some* emphasis, ~~nothing~~ and \`inline code\`.

1. Read the configuration
2. Change the two values
   - \`port\` becomes 8080
   - \`host\` stays
3. Run the tests

| file | lines | changed |
| :--- | ---: | :---: |
| \`src/main.rs\` | 120 | yes |
| \`src/lib.rs\` | 64 | no |

\`\`\`rust
fn main() {
    // A greeting.
    println!("Hello, {}!", "world");
}
\`\`\`

> A quotation with a [link](https://example.com/docs) in it.

- [x] Done already
- [ ] Still to do
`;

/** Content that would run if any of it became more than text. */
export const HOSTILE = [
  "<script>window.pwned = 1</script>",
  "<img src=x onerror=\"window.pwned = 2\">",
  "[click](javascript:window.pwned=3)",
  "[data](data:text/html,<script>window.pwned=4</script>)",
  "![image](https://evil.example/pixel.png)",
  "<a href=\"javascript:window.pwned=5\">here</a>",
  "[odd](java\tscript:window.pwned=6) [vb](vbscript:x) <javascript:window.pwned=7>",
  "```<img src=x onerror=window.pwned=8>\n</code></pre><svg onload=window.pwned=9>\n```",
  "<style>body{display:none}</style>",
  "| <b onmouseover=window.pwned=10>x</b> |\n| --- |\n| <iframe srcdoc='<script>parent.pwned=11</script>'> |",
  "__proto__ [constructor][prototype] \u202egnp.exe",
].join("\n\n");

const say = (text, more = {}) => ({ text, ...more });
const call = (name, args, more = {}) => ({ calls: [[name, args]], ...more });

const PLAN = (states) => ({
  steps: ["Look at the project", "Write the note", "Check it"].map((step, at) => ({ step, status: states[at] })),
});

const PATCH = `--- a/notes.md
+++ b/notes.md
@@ -1,3 +1,4 @@
 # Notes
 
-An old line.
+A new line.
+And one more.
`;

/** The content of the screenshots in the documentation: a bug that is found and fixed. */
const MENDING = `--- a/slug.py
+++ b/slug.py
@@ -3,4 +3,4 @@
 
 def slug(title):
     words = re.findall(r"[a-z0-9]+", title.lower())
-    return " ".join(words)
+    return "-".join(words)
`;

const words = (count) => Array.from({ length: count }, (_, at) => `word${at}`).join(" ");

/** The scripts: what each step says or calls. */
const SCRIPTS = {
  markdown: [say(MARKDOWN, { reasoning: "The user wants to see **everything** that can be shown.\n\nLet me think about it." })],
  private: [call("read_file", { path: "private/diary.txt" }, { reasoning: "A file is needed." }), say("I may not read that.")],
  write: [
    call("write_file", { path: "notes.md", content: "# Notes\n\nAn old line.\n" }, { text: "I write the note first." }),
    say("The note is **written**."),
  ],
  patch: [call("apply_patch", { patch: PATCH }), say("The note is changed.")],
  three: [
    { calls: [["write_file", { path: "notes.md", content: "# Notes\n" }], ["read_file", { path: "guarded/plan.txt" }], ["write_file", { path: "other.md", content: "Other.\n" }]] },
    say("All of it is decided."),
  ],
  plan: [
    call("update_plan", PLAN(["in_progress", "pending", "pending"])),
    { calls: [["list_files", {}], ["calculate", { expression: "6 * 7" }], ["read_file", { path: "missing.txt" }]] },
    call("update_plan", PLAN(["done", "done", "in_progress"])),
    say("The first two steps are done: 6 × 7 is **42**, and `missing.txt` is not there."),
  ],
  finish: [call("update_plan", PLAN(["done", "done", "done"])), say("That was all.")],
  slow: [say(words(120), { pace: 40 })],
  // Minutes long: it ends by being stopped, however slow the machine is.
  endless: [say(words(1500), { pace: 200 })],
  // The same with multi-byte characters.
  accents: [say(words(1500).replaceAll("word", "wörd"), { pace: 200 })],
  // Its output also continues until it is stopped.
  print: [call("run_command", { command: "at=0; while :; do echo \"lïne $at\"; at=$((at + 1)); sleep 0.2; done" }), say("Printed.")],
  // A call that succeeds, of a command that fails.
  exits: [{ calls: [["run_command", { command: "echo so; exit 3" }], ["run_command", { command: "true" }]] }, say("It failed.")],
  hostile: [call("read_file", { path: HOSTILE.slice(0, 300) }, { reasoning: HOSTILE, text: HOSTILE }), say(HOSTILE)],
  // The last character of the folder's name is invisible, and the file name reverses the text that follows.
  turned: [call("write_file", { path: "src\u200b/\u202exs.a", content: "x\n", create_folders: true }), say("It was not written.")],
  big: [say(`${"A paragraph of an answer that is far too long for anybody to read, with `code` in it. ".repeat(12)}\n\n`.repeat(1000))],
  many: [...Array.from({ length: 12 }, (_, at) => call("calculate", { expression: `${at} + 1` })), say("Counted.")],
  research: [
    call("research", { topics: ["The first half", "The second half"] }, { agent: "root" }),
    say("Both halves are known."),
  ],
  shop: [call("shop__look", {}), say("That is what they have.")],
  // A tool that the client runs itself; the text after it takes a while.
  door: [call("open_door", {}), say(words(1500), { pace: 200 })],
  break: [{ status: 500 }],
  fix: [
    { text: "I run the tests first.", calls: [["run_command", { command: "python3 -m unittest test_slug" }]] },
    { calls: [["search_files", { pattern: "def slug" }], ["read_file", { path: "slug.py" }]] },
    call("apply_patch", { patch: MENDING }, { text: "`slug` joins its words with a blank, and the test expects a hyphen." }),
    call("run_command", { command: "python3 -m unittest test_slug" }),
    say("The test passes now.\n\n`slug` joined its words with blanks; it joins them with **hyphens** now:\n\n```python\nreturn \"-\".join(words)\n```\n"),
  ],
};

/** Starts the server. Resolves with its base URL and a function that stops it. */
export async function startModel() {
  const server = http.createServer((request, response) => {
    let body = "";
    request.on("data", (chunk) => (body += chunk));
    request.on("end", () => answer(body, response).catch(() => response.destroy()));
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { url: `http://127.0.0.1:${server.address().port}/v1`, close: () => server.close() };
}

async function answer(body, response) {
  if (!body) {
    response.writeHead(404).end();
    return;
  }
  const asked = JSON.parse(body);
  const step = stepFor(asked);
  if (step.status) {
    response.writeHead(step.status, { "content-type": "application/json" });
    response.end(JSON.stringify({ error: { message: "out of luck" } }));
    return;
  }
  if (!asked.stream) {
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify(whole(asked, step)));
    return;
  }
  response.writeHead(200, { "content-type": "text/event-stream" });
  const send = (delta, finish = null, more = {}) => {
    const chunk = { id: "c", object: "chat.completion.chunk", model: asked.model, choices: [{ index: 0, delta, finish_reason: finish }], ...more };
    response.write(`data: ${JSON.stringify(chunk)}\n\n`);
  };
  const pace = step.pace ?? 3;
  const pieces = async (text, name) => {
    const size = text.length > 20_000 ? 4_000 : 24;
    for (let at = 0; at < text.length && !response.destroyed; at += size) {
      send({ [name]: text.slice(at, at + size) });
      await new Promise((done) => setTimeout(done, text.length > 20_000 ? 0 : pace));
    }
  };
  send({ role: "assistant", content: "" });
  if (step.reasoning) await pieces(step.reasoning, "reasoning_content");
  if (step.text) await pieces(step.text, "content");
  for (const [index, [name, args]] of (step.calls ?? []).entries()) {
    send({ tool_calls: [{ index, id: `p${Math.random()}`, type: "function", function: { name, arguments: "" } }] });
    send({ tool_calls: [{ index, function: { arguments: JSON.stringify(args) } }] });
  }
  send({}, step.calls ? "tool_calls" : "stop", { usage: usageOf(step) });
  response.end("data: [DONE]\n\n");
}

function usageOf(step) {
  const completion = Math.ceil((step.text ?? "").length / 4) + 20;
  return { prompt_tokens: 1200, completion_tokens: completion, total_tokens: 1200 + completion };
}

/** Returns a reply that is not streamed. */
function whole(asked, step) {
  const calls = (step.calls ?? []).map(([name, args], at) => ({ id: `p${at}`, type: "function", function: { name, arguments: JSON.stringify(args) } }));
  const message = { role: "assistant", content: step.text ?? "", ...(calls.length ? { tool_calls: calls } : {}) };
  return { id: "c", object: "chat.completion", model: asked.model, choices: [{ index: 0, message, finish_reason: calls.length ? "tool_calls" : "stop" }], usage: usageOf(step) };
}

function stepFor(asked) {
  const texts = (message) => (typeof message.content === "string" ? message.content : (message.content ?? []).map((part) => part.text ?? "").join(""));
  const last = asked.messages.findLastIndex((message) => message.role === "user" && SCRIPTS[texts(message).trim().split(/\W/)[0].toLowerCase()]);
  if (last < 0) return say("I know nothing of that.");
  const script = SCRIPTS[texts(asked.messages[last]).trim().split(/\W/)[0].toLowerCase()];
  const results = asked.messages.slice(last).filter((message) => message.role === "assistant" && message.tool_calls?.length).length;
  return script[Math.min(results, script.length - 1)];
}
