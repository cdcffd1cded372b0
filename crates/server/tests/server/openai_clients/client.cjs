// Uses the server through the official client and the AI SDK, and prints what it received, as JSON.

const OpenAI = require("openai");
const { generateText, streamText, jsonSchema, tool, stepCountIs, isStepCount } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");

const url = process.argv[2];
const weather = {
  name: "weather",
  description: "Tells the weather in a city.",
  parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
};

async function official(told) {
  const client = new OpenAI({ baseURL: `${url}/v1`, apiKey: "none", maxRetries: 0 });
  const whole = await client.chat.completions.create({
    model: "neuraxis",
    messages: [{ role: "user", content: "Hello." }],
  });
  told.whole = [whole.choices[0].message.content, whole.choices[0].finish_reason];

  const streamed = client.chat.completions.stream({
    model: "neuraxis",
    messages: [{ role: "user", content: "Do I need a coat?" }],
    tools: [{ type: "function", function: weather }],
  });
  const asked = (await streamed.finalChatCompletion()).choices[0].message;
  const call = asked.tool_calls[0];
  const answer = await client.chat.completions.create({
    model: "neuraxis",
    messages: [
      { role: "user", content: "Do I need a coat?" },
      asked,
      { role: "tool", tool_call_id: call.id, content: "3 degrees" },
    ],
    tools: [{ type: "function", function: weather }],
  });
  told.tool = [call.function.name, JSON.parse(call.function.arguments), answer.choices[0].message.content];

  const response = client.responses.stream({ model: "neuraxis", input: "Hello." });
  let deltas = "";
  for await (const event of response) {
    if (event.type === "response.output_text.delta") deltas += event.delta;
  }
  const final = await response.finalResponse();
  told.response = [deltas, final.output_text, final.status];
  await responsesWithTools(client, told);
}

/** Calls in Responses: returned whole and streamed, and answered using the id of the response. */
async function responsesWithTools(client, told) {
  const tools = [{ type: "function", strict: false, ...weather }];
  const called = (response) => response.output.find((item) => item.type === "function_call");
  const answered = (response) =>
    client.responses.create({
      model: "neuraxis",
      previous_response_id: response.id,
      input: [{ type: "function_call_output", call_id: called(response).call_id, output: "3 degrees" }],
      tools,
    });
  const named = (call) => [call.name, JSON.parse(call.arguments)];

  const whole = await client.responses.create({ model: "neuraxis", input: "Is it cold?", tools });
  const after = await answered(whole);
  told.responseTool = [named(called(whole)), after.output_text, after.status];

  const stream = client.responses.stream({ model: "neuraxis", input: "Is it icy?", tools });
  let deltas = "";
  for await (const event of stream) {
    if (event.type === "response.function_call_arguments.delta") deltas += event.delta;
  }
  const streamed = await stream.finalResponse();
  told.responseToolStreamed = [named(called(streamed)), deltas, (await answered(streamed)).output_text];
}

async function sdk(told) {
  const provider = createOpenAICompatible({ name: "neuraxis", baseURL: `${url}/v1`, includeUsage: true });
  const tools = {
    weather: tool({
      description: weather.description,
      inputSchema: jsonSchema(weather.parameters),
      execute: async ({ city }) => `${city}: 3 degrees`,
    }),
  };
  const model = provider("neuraxis");
  const steps = (stepCountIs ?? isStepCount)(3);
  const whole = await generateText({ model, tools, stopWhen: steps, prompt: "Do I need a coat?", maxRetries: 0 });
  told.sdk = [whole.text, whole.steps.length];
  const streamed = streamText({ model, prompt: "Hello.", maxRetries: 0 });
  let text = "";
  for await (const piece of streamed.textStream) text += piece;
  told.sdkStreamed = [text, await streamed.finishReason];

  const withTools = streamText({ model, tools, stopWhen: steps, prompt: "Is it wet?", maxRetries: 0 });
  let words = "";
  for await (const piece of withTools.textStream) words += piece;
  const done = await withTools.steps;
  const calls = done[0].toolCalls.map((call) => [call.toolName, call.input]);
  told.sdkToolStreamed = [calls, done[0].toolResults[0].output, words, done.length];
}

async function main() {
  const told = {};
  await official(told);
  await sdk(told);
  console.log(JSON.stringify(told));
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
