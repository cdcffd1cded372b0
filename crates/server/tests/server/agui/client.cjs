// The official client of AG-UI: plays one scene against a server and prints what it received as one JSON object.
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

async function ask() {
  say("Refund order 17.");
  await agent.runAgent();
  return agent.pendingInterrupts;
}

// Denies all open questions of the thread outside the front end, and waits for the runs to end.
async function denyElsewhere() {
  const headers = { Authorization: `Bearer ${token}`, "Content-Type": "application/json" };
  const answer = async (path, more) => (await fetch(`${url}/api/v1/${path}`, { headers, ...more })).json();
  const { approvals } = await answer(`approvals?session=${agent.threadId}`);
  for (const { run_id, request, question } of approvals) {
    const body = JSON.stringify({ decision: "deny", question });
    await answer(`runs/${run_id}/approvals/${request.tool_call_id}`, { method: "POST", body });
    while ((await answer(`runs/${run_id}`)).status !== "done");
  }
}

const giveUp = (interrupts) =>
  agent.runAgent({ resume: interrupts.map(({ id }) => ({ interruptId: id, status: "cancelled" })) });

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
  async decided_elsewhere() {
    let code;
    const interrupts = await ask();
    await denyElsewhere();
    const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload: payloads.approve }));
    await agent.runAgent({ resume }, {
      onRunErrorEvent: ({ event }) => {
        code = event.code;
      },
    }).catch(() => {});
    await giveUp(interrupts);
    say("Good night.");
    await agent.runAgent();
    return { code, pending: agent.pendingInterrupts };
  },
  async message_instead() {
    const interrupts = await ask();
    await denyElsewhere();
    say("Good night.");
    await giveUp(interrupts);
    return { pending: agent.pendingInterrupts };
  },
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
