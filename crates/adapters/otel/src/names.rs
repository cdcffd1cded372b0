//! The names of spans, attributes and metrics: those of OpenTelemetry's semantic conventions for generative AI, version
//! 1.41, and Neuraxis' own for everything else. The reference in `docs/observability.md` is generated from this file.

use std::fmt::Write;

/// Defines attributes and the table rows that describe them.
macro_rules! attributes {
    ($($constant:ident = $name:literal, $spans:literal, $what:literal;)*) => {
        $(pub(crate) const $constant: &str = $name;)*

        /// Name, the spans that have it, and its meaning.
        const ATTRIBUTES: &[[&str; 3]] = &[$([$name, $spans, $what]),*];
    };
}

attributes! {
    OPERATION = "gen_ai.operation.name", "agent, model, tool", "`invoke_agent`, `chat` or `execute_tool`";
    PROVIDER = "gen_ai.provider.name", "model", "The provider that served the call, such as `openai`, `anthropic` or `llama_cpp`";
    REQUEST_MODEL = "gen_ai.request.model", "agent, model", "The requested model, as configured, if known";
    RESPONSE_MODEL = "gen_ai.response.model", "model", "The model that answered, as its server names it";
    SERVER_ADDRESS = "server.address", "model, tool", "The host of the model's server, or of the MCP server that has the tool";
    SERVER_PORT = "server.port", "model, tool", "Its port";
    CONVERSATION = "gen_ai.conversation.id", "agent, model, tool", "The session";
    AGENT_NAME = "gen_ai.agent.name", "agent", "The agent's name";
    TEMPERATURE = "gen_ai.request.temperature", "model", "The sampling temperature, if one was requested";
    MAX_TOKENS = "gen_ai.request.max_tokens", "model", "The maximum number of tokens of the reply, if limited";
    STREAM = "gen_ai.request.stream", "model", "`true` if the reply was streamed";
    OUTPUT_TYPE = "gen_ai.output.type", "model", "`text`, or `json` if a schema was given";
    FINISH_REASONS = "gen_ai.response.finish_reasons", "agent, model", "Why it stopped: `stop`, `tool_call`, `length` or `content_filter`; for agents also `error`";
    FIRST_CHUNK = "gen_ai.response.time_to_first_chunk", "model", "Seconds until the first piece of a streamed reply";
    INPUT_TOKENS = "gen_ai.usage.input_tokens", "model", "Tokens sent, including cached ones";
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens", "model", "Tokens received, including reasoning";
    CACHE_READ = "gen_ai.usage.cache_read.input_tokens", "model", "Tokens that the provider read from its cache";
    CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens", "model", "Tokens that the provider wrote to its cache";
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens", "model", "The part of the output tokens that was reasoning";
    TOOL_NAME = "gen_ai.tool.name", "tool, approval", "The tool";
    TOOL_CALL_ID = "gen_ai.tool.call.id", "tool, approval", "The call";
    TOOL_TYPE = "gen_ai.tool.type", "tool", "`function`";
    TOOL_DESCRIPTION = "gen_ai.tool.description", "tool", "The tool's description as given to the model";
    MCP_METHOD = "mcp.method.name", "tool", "`tools/call`, if an MCP server has the tool";
    NETWORK_TRANSPORT = "network.transport", "tool", "How that server is reached: `pipe` or `tcp`";
    ERROR_TYPE = "error.type", "agent, model, tool", "What went wrong, in one word, such as `timeout`, `rate_limited` or `denied`; the span's status is then `Error`. Set for a cancelled agent, but not for one that a limit ended, even without an answer: see `neuraxis.finish_reason`";
    INPUT_MESSAGES = "gen_ai.input.messages", "agent, model", "The messages to the agent or the model, as JSON. For a call without a reply, not set if it was a sub-agent's first or a side call. Only with `content`";
    OUTPUT_MESSAGES = "gen_ai.output.messages", "agent, model", "The answer, as JSON. Only with `content`";
    SYSTEM = "gen_ai.system_instructions", "model", "The system instructions, as JSON. Only with `content`";
    ARGUMENTS = "gen_ai.tool.call.arguments", "tool", "The arguments of the call, as JSON; those of a refused call are in the model's answer. Only with `content`";
    RESULT = "gen_ai.tool.call.result", "tool", "The result, as JSON. Only with `content`";
    DB_OPERATION = "db.operation.name", "store", "`commit`, or another database operation during a request";
    RUN = "neuraxis.run.id", "agent, model, tool, approval, store", "The run";
    AGENT = "neuraxis.agent.id", "agent, model, tool, approval, store", "The agent's number in the run; `a0` answers the user";
    ROLE = "neuraxis.role", "agent, model", "The role that serves the agent, or that served the call";
    PURPOSE = "neuraxis.purpose", "model", "What the call was for: `turn`, `last_answer`, `compaction`, `self_check`, `gather` or `routing`";
    ATTEMPTS = "neuraxis.attempts", "model, tool", "The number of attempts; each failed one is an event of the span, for a model call with its role and model";
    USAGE_LABEL = "neuraxis.usage.label", "model", "How the tokens are known, including those that failed attempts reported: `measured`, `estimated` or `unknown`, which is a lower bound";
    COST = "neuraxis.cost_micro_usd", "model", "The cost in millionths of a dollar, including failed attempts, if prices are known";
    COST_LABEL = "neuraxis.cost.label", "model", "How the cost is known: `measured`, `estimated`, or `unknown` if a price or a count is missing; a failed attempt about which nothing is known changes nothing";
    TURNS = "neuraxis.turns", "agent", "Counted turns";
    FINISH = "neuraxis.finish_reason", "agent", "Why the agent ended";
    DECISION = "neuraxis.approval.decision", "approval", "`approve`, `deny` or `expired`; not set if the call was abandoned before";
    RECORDS = "neuraxis.records", "store", "The number of stored records";
    REASON = "neuraxis.reason", "events", "What happened, in one word";
}

/// The attributes of spans that do not belong to runs: fields of `tracing` spans, set where those are created.
const AROUND_RUNS: &[[&str; 3]] = &[
    ["http.request.method", "request", "The method"],
    ["http.route", "request", "The matched route"],
    [
        "http.response.status_code",
        "request",
        "The status of the answer; from 500, the span's status is `Error`",
    ],
    [
        "neuraxis.request.id",
        "request",
        "The request's id, which its answer and log lines contain",
    ],
    ["neuraxis.mcp.server", "MCP connection", "The server's name"],
];

/// The attributes that contain conversation content, as JSON.
pub(crate) const CONTENT: [&str; 5] = [INPUT_MESSAGES, OUTPUT_MESSAGES, SYSTEM, ARGUMENTS, RESULT];

/// The description of a metric.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metric {
    pub(crate) name: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) unit: &'static str,
    labels: &'static str,
    pub(crate) what: &'static str,
}

/// Defines metrics and the table rows that describe them.
macro_rules! metrics {
    ($($constant:ident = $name:literal, $kind:literal, $unit:literal, $labels:literal, $what:literal;)*) => {
        $(pub(crate) const $constant: Metric =
            Metric { name: $name, kind: $kind, unit: $unit, labels: $labels, what: $what };)*

        const METRICS: &[Metric] = &[$($constant),*];
    };
}

metrics! {
    TOKEN_USAGE = "gen_ai.client.token.usage", "histogram", "{token}", "`gen_ai.token.type` (`input`, `output`), model, role", "Tokens of a model call, if they were counted";
    COST_TOTAL = "neuraxis.model.cost", "counter", "{micro_usd}", "model, role, `neuraxis.cost.label`", "Cost of model calls in millionths of a dollar, including failed attempts; excludes models without a price";
    OPERATION_DURATION = "gen_ai.client.operation.duration", "histogram", "s", "model, server, role, `error.type`", "Duration of model call attempts; excludes those stopped by a deadline or a cancellation";
    TIME_TO_FIRST_CHUNK = "gen_ai.client.operation.time_to_first_chunk", "histogram", "s", "model, role", "Time until the first piece of a streamed reply";
    TOOL_DURATION = "gen_ai.execute_tool.duration", "histogram", "s", "`gen_ai.tool.name`, `error.type`", "Duration of tool calls; excludes those stopped by a deadline or a cancellation";
    AGENT_DURATION = "gen_ai.invoke_agent.duration", "histogram", "s", "`gen_ai.agent.name`, `neuraxis.finish_reason`", "Time from the start of an agent to its end, including waits";
    RETRIES = "neuraxis.model.retries", "counter", "{attempt}", "role, `error.type`", "Failed model call attempts that another attempt was to follow, even if the run ended first";
    TRIMS = "neuraxis.context.trims", "counter", "{trim}", "", "How often messages were dropped to make a conversation fit";
    COMMIT_DURATION = "neuraxis.store.commit.duration", "histogram", "s", "", "Time that the store took to commit the records of a step";
    RUNS_ACTIVE = "neuraxis.runs.active", "up-down counter", "{run}", "", "Runs that this process drives";
    APPROVALS_WAITING = "neuraxis.approvals.waiting", "gauge", "{call}", "", "Calls in the store that wait for approval, counted by the server every 30 seconds";
}

pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";

/// Returns the tables of all attributes and metrics as Markdown.
#[must_use]
pub fn reference() -> String {
    let mut text = String::from("| attribute | spans | meaning |\n| --- | --- | --- |\n");
    // Writing to a string cannot fail.
    for [name, spans, what] in ATTRIBUTES.iter().chain(AROUND_RUNS) {
        let _ = writeln!(text, "| `{name}` | {spans} | {what} |");
    }
    text.push_str("\n| metric | kind | unit | by | meaning |\n| --- | --- | --- | --- | --- |\n");
    for metric in METRICS {
        let Metric {
            name,
            kind,
            unit,
            labels,
            what,
        } = metric;
        let _ = writeln!(text, "| `{name}` | {kind} | `{unit}` | {labels} | {what} |");
    }
    text
}

/// Returns whether the reference lists an attribute of this name.
#[must_use]
pub fn is_known_attribute(name: &str) -> bool {
    let mut known = ATTRIBUTES.iter().chain(AROUND_RUNS);
    known.any(|[known, ..]| *known == name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::{env, fs};

    use super::*;

    #[test]
    fn every_attribute_and_metric_name_is_unique() {
        let attributes = ATTRIBUTES.iter().chain(AROUND_RUNS);
        let attributes = attributes.map(|[name, ..]| *name);
        let names: BTreeSet<_> = attributes.chain(METRICS.iter().map(|it| it.name)).collect();
        let all = ATTRIBUTES.len() + AROUND_RUNS.len() + METRICS.len();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn the_reference_in_the_documentation_is_up_to_date() {
        const BEGIN: &str = "<!-- reference -->\n";
        const END: &str = "<!-- end of reference -->";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/observability.md");
        let page = fs::read_to_string(&path).unwrap();
        let (before, rest) = page.split_once(BEGIN).unwrap();
        let (_, after) = rest.split_once(END).unwrap();
        let expected = format!("{before}{BEGIN}{}{END}{after}", reference());
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&path, &expected).unwrap();
        }
        assert_eq!(
            fs::read_to_string(&path).unwrap(),
            expected,
            "run the test with UPDATE_DOCS=1"
        );
    }
}
