// The details of one bar of a waterfall, shown beside it: what a model was sent and returned, what a tool was called with and returned, the
// decisions about it, its usage and cost.

import { appendVisible, button, codeBox, el, factList } from "./dom.js";
import { clock, costOf, decisionOf, duration, partsOf, pretty, reasoningOf, reasonOf, spread, textOf, tokensOf } from "./format.js";
import { render } from "./markdown.js";
import { changesOf, messageOf, ruleOf, shownArguments, shownResult, taskOf } from "./tool.js";

/** Renders what a record is about. `close` and `reveal` are the actions offered there. */
export function detailOf(records, seq, { close, reveal }) {
  // A pause has a position just before the record that ended it.
  const record = records.find((it) => it.seq === Math.ceil(seq));
  if (!record) return undefined;
  const isPause = seq !== record.seq;
  const parts = isPause ? [el("p", { text: `A pause before attempt ${record.attempt}.` })] : KINDS[record.type]?.(record, records) ?? [codeBox(pretty(record), { label: "Record" })];
  const started = records.find((it) => it.agents?.includes(record.agent));
  const task = started && taskOf(record.agent, started.agents, started.arguments);
  const title = record.name ?? (record.type === "llm_failed" || record.type === "llm_call" ? "Model call" : record.type.replaceAll("_", " "));
  return el("section", { class: "detail", tabindex: "-1", "aria-label": isPause ? "Pause" : `Details of ${title}` },
    el("div", { class: "row detail-head" }, appendVisible(el("h2"), isPause ? "Pause" : title), record.agent !== "a0" && el("span", { class: "tag", text: record.agent }),
      button({ text: "Record", label: "Show the record in the events", className: "quiet small", onClick: () => reveal(record.seq) }), button({ name: "cross", label: "Close the details", className: "quiet small", onClick: close })),
    task && appendVisible(el("p", { class: "hint" }), task), parts);
}

const KINDS = {
  llm_call: (record, records) => [modelFacts(record, records), ...sent(record, records), ...given(record)],
  llm_failed: (record, records) => [modelFacts(record, records), failure(record.error?.message ?? reasonOf(record.error?.kind)), el("p", { class: "hint", text: record.next === "follows" ? "Another attempt followed." : reasonOf(record.next) })],
  tool_call: (record, records) => toolParts(record.tool_call_id, records),
  tool_result: (record, records) => toolParts(record.tool_call_id, records),
  tool_failed: (record) => [factList([["Attempt", record.attempt], ["Took", duration(record.duration_ms)]]), failure(messageOf(record.value))],
  approval_requested: (record, records) => toolParts(record.tool_call_id, records),
  waiting: (record) => [el("p", { text: "A client runs the tool and returns its result." }), codeBox(pretty(record.pending), { label: "Waiting for" })],
};

const failure = (text) => appendVisible(el("p", { class: "line-note error" }), String(text ?? ""));

const head = (text) => el("h3", { text });

/** Returns the time from the start of the run, in milliseconds. */
const after = (at, records) => duration(Math.max(0, at - new Date(records[0].at)));

function modelFacts(record, records) {
  const usage = record.reply?.usage ?? record.usage ?? {};
  const sum = (kind) => (usage[kind] ? tokensOf(usage, kind) : undefined);
  return factList([
    ["Model", record.reply?.model?.model ?? record.model?.model], ["Role", record.served_by === record.role ? record.role : `${record.served_by ?? ""} for ${record.role}`],
    ["Started after", after(new Date(record.at) - (record.duration_ms ?? 0), records)], ["Took", duration(record.duration_ms)], ["First output after", duration(record.first_delta_ms)],
    ["Sent", sum("prompt_tokens")], ["of them cached", sum("cached_tokens")], ["Received", sum("completion_tokens")], ["of them reasoning", sum("reasoning_tokens")],
    ["Cost", costOf(record)],
    ["Attempt", record.attempt > 1 ? record.attempt : undefined], ["Ended", record.reply?.finish && reasonOf(record.reply.finish)],
  ]);
}

/** Returns what a model call adds to the conversation before it is made. */
function added(record, records) {
  const results = (record.results ?? []).map((id) => records.find((it) => it.type === "tool_result" && it.tool_call_id === id)).filter(Boolean);
  return [...results.map((it) => ({ role: "tool", name: it.name, content: it.status === "done" ? it.value : messageOf(it.value) })), ...(record.messages ?? [])];
}

/** Shows what the model was sent: the new part, and collapsed what it had been sent before. */
function sent(record, records) {
  const before = records.filter((it) => it.type === "llm_call" && it.agent === record.agent && it.seq < record.seq);
  const earlier = before.flatMap((it) => [...added(it, records), { role: "assistant", parts: it.reply?.parts ?? [] }]);
  const fresh = added(record, records);
  const started = records.find((it) => it.type === "run_started");
  const count = earlier.length + (record.agent === "a0" ? started?.history?.count ?? 0 : 0);
  const prompt = record.agent === "a0" ? started?.spec?.root?.system_prompt : undefined;
  return [
    head("Input"),
    prompt && folded("Instructions", () => [render(el("div", { class: "md" }), prompt)]),
    count > 0 && folded(`${count} earlier ${count === 1 ? "message" : "messages"}`, () => [
      earlier.length < count && el("p", { class: "hint", text: "Messages of earlier runs are in the session." }), ...earlier.map(shownMessage)]),
    ...fresh.map(shownMessage),
    fresh.length === 0 && el("p", { class: "hint", text: "Nothing new since the previous call." }),
  ].filter(Boolean);
}

function given(record) {
  const reasoning = reasoningOf(record.reply);
  return [head("Output"), reasoning && folded("Reasoning", () => [render(el("div", { class: "md" }), reasoning)]), shownMessage({ role: "assistant", parts: record.reply?.parts })].filter(Boolean);
}

const ROLES = { user: "User", assistant: "Model", system: "Instructions", tool: "Result" };

function shownMessage(message) {
  const text = textOf(message);
  const calls = partsOf(message, "tool_call");
  const other = (message.parts ?? []).filter((part) => !["text", "tool_call", "reasoning"].includes(part.type));
  const content = typeof message.content === "string" ? message.content : message.content && pretty(message.content);
  return el("div", { class: `sent ${message.role}` },
    el("p", { class: "label" }, ROLES[message.role] ?? message.role, message.name && appendVisible(el("code"), ` ${message.name}`)),
    text && render(el("div", { class: "md", lang: "" }), text),
    content && codeBox(content, { label: "Result" }),
    calls.map((call) => el("div", {}, el("p", { class: "label" }, "Calls ", appendVisible(el("code"), call.name)), shownArguments(call.arguments))),
    other.map((part) => el("p", { class: "hint", text: part.type.replaceAll("_", " ") })));
}

/** Returns a collapsed section that is rendered when it is opened. */
function folded(title, make) {
  const body = el("div", { class: "stack" });
  return el("details", { class: "folded", on: { toggle: () => body.childNodes.length || body.append(...make().filter(Boolean)) } }, el("summary", { text: title }), body);
}

function toolParts(id, records) {
  const of = (type) => records.find((it) => it.type === type && it.tool_call_id === id);
  const [call, result, asked, decided] = [of("tool_call"), of("tool_result"), of("approval_requested"), of("approval_decided")];
  const found = verdictOf(id, records);
  const args = call?.arguments ?? asked?.arguments ?? "";
  const failed = records.filter((it) => it.type === "tool_failed" && it.tool_call_id === id);
  const changes = changesOf(call?.name ?? asked?.name, args);
  return [
    factList([
      ["Verdict", found && { run: "may run", ask: "needs approval", deny: "denied" }[found.verdict]], ["Rule", found?.rule && ruleOf(found.rule)], ["Class", (found?.class ?? call?.class)?.replaceAll("_", " ")],
      ["Started", call && clock(call.at)], ["Started after", call && after(new Date(call.at), records)], ["Took", duration(result?.duration_ms)], ["Attempts", failed.length ? failed.length + 1 : undefined],
      ["Waited", asked && decided && duration(new Date(decided.at) - new Date(asked.at))],
    ]),
    found?.reason && appendVisible(el("p", { class: "why" }), found.reason),
    decided && appendVisible(el("p", { class: `line-note ${decided.decision === "deny" ? "refused" : ""}` }), decisionOf(decided)),
    ...(args && args !== "{}" ? [head("Arguments"), ...(changes ? [changes, codeBox(spread(args), { label: "Arguments" })] : shownArguments(args))] : []),
    ...failed.map((it) => failure(`Attempt ${it.attempt}: ${messageOf(it.value)}`)),
    ...(result ? shownResult(result) : [el("p", { class: "hint", text: "No result yet." })]),
  ].filter(Boolean);
}

/** Returns the verdict on a call. The verdicts of a reply are in the order of its calls; later ones concern some of them. */
function verdictOf(id, records) {
  const [, agent, index, place] = /_(a\d+)_(\d+)_(\d+)$/.exec(id) ?? [];
  const reply = records.find((it) => it.type === "llm_call" && it.agent === agent && String(it.content_index) === index);
  const next = reply && records.find((it) => ["verdict", "llm_call"].includes(it.type) && it.agent === agent && it.seq > reply.seq);
  return next?.type === "verdict" ? next.calls[Number(place)] : undefined;
}
