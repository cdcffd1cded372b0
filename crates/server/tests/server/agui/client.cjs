// The official client of AG-UI: plays one scene with a server and prints what it saw as one JSON object.
//
// Usage: NODE_PATH=… node client.cjs URL SCENE TOKEN

const { HttpAgent } = require("@ag-ui/client");

const [url, scene, token] = process.argv.slice(2);
const warnings = [];
console.warn = (...said) => warnings.push(said.join(" "));
console.error = (...said) => warnings.push(said.join(" "));

const agent = new HttpAgent({
  url: `${url}/agui`,
  threadId: "thread-1",
  headers: { Authorization: `Bearer ${token}` },
});

const told = [];
agent.subscribe({
  onEvent: ({ event }) => {
    told.push([event.type, event.subagentRunId ?? null]);
  },
});

const say = (content) => agent.addMessage({ id: crypto.randomUUID(), role: "user", content });

const weather = {
  name: "weather",
  description: "Tells the weather.",
  parameters: { type: "object", properties: { city: { type: "string" } } },
};

const payloads = {
  approve: { approved: true },
  deny: { approved: false, reason: "not today" },
  edit: { approved: true, editedArgs: { order: 18 } },
};

async function decide() {
  let interrupts = [];
  say("Refund order 17.");
  await agent.runAgent({}, {
    onRunFinishedEvent: ({ event }) => {
      interrupts = event.outcome?.interrupts ?? [];
    },
  });
  const payload = payloads[scene];
  const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
  await agent.runAgent({ resume });
  return { interrupts };
}

const scenes = {
  async talk() {
    say("How is it outside?");
    await agent.runAgent();
    say("Good night.");
    await agent.runAgent();
  },
  async ask() {
    say("Is it true?");
    await agent.runAgent();
  },
  async frontend_tool() {
    const called = [];
    say("Do I need a coat?");
    await agent.runAgent({ tools: [weather] }, {
      onToolCallEndEvent: ({ toolCallName, toolCallArgs, event }) => {
        called.push([toolCallName, toolCallArgs]);
        agent.later = event.toolCallId;
      },
    });
    agent.addMessage({ id: crypto.randomUUID(), role: "tool", toolCallId: agent.later, content: "3 degrees" });
    await agent.runAgent({ tools: [weather] });
    return { called };
  },
  approve: decide,
  deny: decide,
  edit: decide,
  async error() {
    let code;
    say("Hello?");
    await agent.runAgent({}, {
      onRunErrorEvent: ({ event }) => {
        code = event.code;
      },
    }).catch(() => {});
    return { code };
  },
  async refused() {
    let error = "";
    say("Hello?");
    await agent.runAgent({ forwardedProps: { mode: "exploratory" } }).catch((thrown) => {
      error = String(thrown);
    });
    return { error };
  },
  async abort() {
    say("Hello?");
    await agent.runAgent({}, { onRunStartedEvent: () => agent.abortRun() }).catch(() => {});
  },
};

scenes[scene]().then(
  (seen) => console.log(JSON.stringify({ ...seen, messages: agent.messages, state: agent.state, told, warnings })),
  (error) => {
    process.stderr.write(`${error?.stack ?? error}\n${warnings.join("\n")}\n`);
    process.exit(1);
  },
);
