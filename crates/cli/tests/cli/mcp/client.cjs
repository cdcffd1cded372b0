// The official client in TypeScript: starts a server, calls a tool, approves what is asked, reads the session, and prints
// what it saw as one JSON object.
//
// Usage: NODE_PATH=… node client.cjs legacy|auto PROGRAM ARGUMENT…

const { Client } = require("@modelcontextprotocol/client");
const { StdioClientTransport } = require("@modelcontextprotocol/client/stdio");

const [mode, command, ...args] = process.argv.slice(2);

async function main() {
  const asked = [];
  const heard = [];
  const client = new Client(
    { name: "official-client", version: "1.0.0" },
    { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode } },
  );
  client.setRequestHandler("elicitation/create", async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: { decision: "approve" } };
  });
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => name !== "NODE_PATH"));
  await client.connect(new StdioClientTransport({ command, args, env, stderr: "ignore" }));
  const { tools } = await client.listTools();
  const refused = await client.callTool({ name: "ask", arguments: {} });
  const done = await client.callTool(
    { name: "ask", arguments: { message: "Write a file.", channel: "code_task", session: "s1" } },
    { onprogress: (progress) => heard.push(progress.message) },
  );
  const read = await client.readResource({ uri: "neuraxis://sessions/s1" });
  const version = client.getNegotiatedProtocolVersion();
  await client.close();
  return {
    version,
    tools: tools.map((tool) => tool.name),
    refused: refused.content[0].text,
    text: done.content[0].text,
    reason: done.structuredContent.finish_reason,
    asked,
    heard,
    session: read.contents[0].text,
  };
}

main().then(
  (seen) => console.log(JSON.stringify(seen)),
  (error) => {
    console.error(error);
    process.exit(1);
  },
);
