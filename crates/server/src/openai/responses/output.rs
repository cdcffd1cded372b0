//! A response object and its items.

use neuraxis::core::{CountLabel, RunId, TokenCount, ToolCall, Usage};
use neuraxis::{FinishReason, OrchestratorResult, RunStatus, SessionId};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::ID;
use super::repeated::{FormatOut, Repeated};
use crate::openai::error::error_code;
use crate::openai::run::{ClientOutcome, RunRef};

/// A response, in progress or ended.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiResponse")]
pub(crate) struct ResponseOut {
    id: String,
    object: &'static str,
    created_at: i64,
    status: &'static str,
    error: Option<Failure>,
    incomplete_details: Option<Incomplete>,
    instructions: Option<()>,
    model: String,
    output: Vec<Item>,
    parallel_tool_calls: bool,
    previous_response_id: Option<String>,
    text: TextOut,
    tool_choice: &'static str,
    tools: [(); 0],
    metadata: Metadata,
    usage: Option<UsageOut>,
    neuraxis: RunRef,
}

/// The format of the answer's text.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiTextOfResponse")]
struct TextOut {
    format: FormatOut,
}

/// Why there is no answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiFailure")]
struct Failure {
    code: String,
    message: String,
}

/// Where the server's own API has the conversation and the run, and the status of the run, for clients that read no
/// other fields. It also contains the request's own metadata.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiMetadata")]
struct Metadata {
    session_id: SessionId,
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    run_status: Option<RunStatus>,
    #[serde(flatten)]
    own: Map<String, Value>,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiIncomplete")]
struct Incomplete {
    reason: &'static str,
}

/// A part of the answer.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiItem")]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Item {
    Reasoning {
        id: String,
        summary: Vec<Summary>,
    },
    Message {
        id: String,
        status: &'static str,
        role: &'static str,
        content: Vec<Content>,
    },
    FunctionCall {
        id: String,
        status: &'static str,
        call_id: String,
        name: String,
        arguments: String,
    },
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiSummary")]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Summary {
    SummaryText { text: String },
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiOutputContent")]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Content {
    OutputText {
        text: String,
        annotations: [(); 0],
        logprobs: [(); 0],
    },
    Refusal {
        refusal: String,
    },
}

impl Content {
    pub(super) const fn text(text: String) -> Self {
        Self::OutputText {
            text,
            annotations: [],
            logprobs: [],
        }
    }

    pub(super) const fn refusal(refusal: String) -> Self {
        Self::Refusal { refusal }
    }
}

impl Item {
    fn id(&self) -> &str {
        match self {
            Self::Reasoning { id, .. }
            | Self::Message { id, .. }
            | Self::FunctionCall { id, .. } => id,
        }
    }

    /// Creates a message; `None` for one whose text is still to come.
    pub(super) fn message(id: String, text: Option<String>) -> Self {
        Self::of_agent(id, text.map(Content::text))
    }

    /// Creates a message that says why there is no answer of the requested form. Clients do not parse it as JSON.
    pub(super) fn refusal(id: String, why: Option<String>) -> Self {
        Self::of_agent(id, why.map(Content::refusal))
    }

    fn of_agent(id: String, content: Option<Content>) -> Self {
        Self::Message {
            id,
            status: status_of(content.is_some()),
            role: "assistant",
            content: content.into_iter().collect(),
        }
    }

    /// Creates an item of thoughts; `None` if they are still to come.
    pub(super) fn reasoning(id: String, text: Option<String>) -> Self {
        let summary = text.into_iter().map(|text| Summary::SummaryText { text });
        Self::Reasoning {
            id,
            summary: summary.collect(),
        }
    }

    /// Creates a call, with or without its arguments.
    pub(super) fn call(call: &ToolCall, is_whole: bool) -> Self {
        let arguments = call.arguments.as_str();
        Self::FunctionCall {
            id: id_of(call),
            status: status_of(is_whole),
            call_id: call.id.to_string(),
            name: call.name.to_string(),
            arguments: if is_whole { arguments } else { "" }.to_owned(),
        }
    }
}

/// Returns the item id of a call.
pub(super) fn id_of(call: &ToolCall) -> String {
    let id = call.id.as_str();
    format!("fc_{}", id.strip_prefix("call_").unwrap_or(id))
}

const fn status_of(is_whole: bool) -> &'static str {
    match is_whole {
        true => "completed",
        false => "in_progress",
    }
}

impl ResponseOut {
    /// Describes a response that has just started.
    pub(super) fn begun(
        session: SessionId,
        run: RunId,
        created_at: i64,
        repeated: Repeated,
    ) -> Self {
        Self {
            id: format!("{ID}{run}"),
            object: "response",
            created_at,
            status: "in_progress",
            error: None,
            incomplete_details: None,
            instructions: None,
            model: repeated.model,
            output: Vec::new(),
            parallel_tool_calls: true,
            previous_response_id: repeated.previous_response_id,
            text: TextOut {
                format: repeated.format,
            },
            tool_choice: "auto",
            tools: [],
            neuraxis: RunRef::begun(session.clone(), run),
            metadata: Metadata {
                session_id: session,
                run_id: run,
                run_status: None,
                own: Map::new(),
            },
            usage: None,
        }
    }

    /// Adds the request's `metadata`. The entries for the conversation and the run take precedence.
    pub(super) fn with_metadata(mut self, mut own: Map<String, Value>) -> Self {
        own.retain(|name, _| !["session_id", "run_id", "run_status"].contains(&name.as_str()));
        self.metadata.own = own;
        self
    }

    /// Adds the outcome.
    pub(super) fn with_outcome(mut self, outcome: &ClientOutcome, items: Vec<Item>) -> Self {
        let result = &outcome.result;
        let incomplete = incomplete(result).filter(|_| outcome.is_answered());
        self.status = match incomplete {
            Some(_) => "incomplete",
            None if outcome.is_answered() => "completed",
            None => "failed",
        };
        self.incomplete_details = incomplete.map(|reason| Incomplete { reason });
        self.output = items;
        if !outcome.is_answered() {
            self.error = Some(Failure {
                code: error_code(outcome),
                message: result.reply.clone(),
            });
        }
        self.neuraxis = self.neuraxis.with_outcome(outcome);
        self.metadata.run_status = Some(result.status);
        let used = &result.usage.total;
        let is_known = [used.prompt, used.completion].iter().any(is_counted);
        // If nothing reported the usage of a run that broke off, it is unknown rather than zero.
        self.usage = (is_known || outcome.is_answered()).then(|| UsageOut::new(used));
        self
    }

    pub(super) fn item(&self, id: &str) -> Option<&Item> {
        self.output.iter().find(|item| item.id() == id)
    }

    /// Returns the number of items.
    pub(super) const fn count(&self) -> usize {
        self.output.len()
    }

    pub(super) const fn run(&self) -> RunId {
        self.metadata.run_id
    }

    /// Returns the name of the event that ends a stream of this response.
    pub(super) fn ending(&self) -> &'static str {
        match self.status {
            "completed" => "response.completed",
            "incomplete" => "response.incomplete",
            _ => "response.failed",
        }
    }
}

/// Returns whether a count is known: a lower bound of zero is not.
fn is_counted(count: &TokenCount) -> bool {
    count.tokens > 0 || count.label != CountLabel::Unknown
}

fn incomplete(result: &OrchestratorResult) -> Option<&'static str> {
    match result.finish_reason.as_ref()? {
        FinishReason::Length => Some("max_output_tokens"),
        // As in Chat Completions.
        FinishReason::Refused if result.answer_fault.is_some() => None,
        FinishReason::ContentFilter | FinishReason::Refused => Some("content_filter"),
        reason if reason.ends_at_a_limit() => Some("max_output_tokens"),
        _ => None,
    }
}

/// The usage of a run.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiResponseUsage")]
struct UsageOut {
    input_tokens: u64,
    input_tokens_details: InputDetails,
    output_tokens: u64,
    output_tokens_details: OutputDetails,
    total_tokens: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiInputDetails")]
struct InputDetails {
    cached_tokens: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiOutputDetails")]
struct OutputDetails {
    reasoning_tokens: u64,
}

impl UsageOut {
    fn new(usage: &Usage) -> Self {
        Self {
            input_tokens: usage.prompt.tokens,
            input_tokens_details: InputDetails {
                cached_tokens: usage.cached.tokens,
            },
            output_tokens: usage.completion.tokens,
            output_tokens_details: OutputDetails {
                reasoning_tokens: usage.reasoning.tokens,
            },
            total_tokens: usage.all_tokens(),
        }
    }
}
