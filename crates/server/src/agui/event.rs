//! The events of AG-UI 1.0 that runs here use.
//!
//! A field without a value is omitted: clients accept null in few places (docs.ag-ui.com/concepts/events).

use neuraxis::core::{CountLabel, ModelRef, TokenCount, Usage};
use neuraxis::{FinishReason, RunStatus};
use serde::Serialize;
use serde_json::{Map, Value};

/// The version of the protocol.
pub(super) const PROTOCOL_VERSION: &str = "1.0";

/// An event, with the fields common to all events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Outgoing {
    #[serde(flatten)]
    pub(super) body: Body,
    /// When it happened, in milliseconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<i64>,
    /// The sub-agent that it belongs to.
    #[serde(rename = "subagentRunId", skip_serializing_if = "Option::is_none")]
    pub(super) subagent: Option<String>,
}

impl From<Body> for Outgoing {
    fn from(body: Body) -> Self {
        Self {
            body,
            timestamp: None,
            subagent: None,
        }
    }
}

/// The content of an event, by its `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "SCREAMING_SNAKE_CASE",
    rename_all_fields = "camelCase"
)]
pub(super) enum Body {
    RunStarted {
        thread_id: String,
        run_id: String,
        protocol_version: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_run_id: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        metadata: Option<Value>,
    },
    RunFinished {
        thread_id: String,
        run_id: String,
        result: RunResult,
        outcome: Outcome,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<UsageOfModel>,
    },
    RunError {
        message: String,
        code: String,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        usage: Vec<UsageOfModel>,
    },
    StepStarted {
        step_name: String,
    },
    StepFinished {
        step_name: String,
    },
    TextMessageStart {
        message_id: String,
        role: &'static str,
    },
    TextMessageContent {
        message_id: String,
        delta: String,
    },
    TextMessageEnd {
        message_id: String,
    },
    ReasoningStart {
        message_id: String,
    },
    ReasoningMessageStart {
        message_id: String,
        role: &'static str,
    },
    ReasoningMessageContent {
        message_id: String,
        delta: String,
    },
    ReasoningMessageEnd {
        message_id: String,
    },
    ReasoningEnd {
        message_id: String,
    },
    ToolCallStart {
        tool_call_id: String,
        tool_call_name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_message_id: Option<String>,
    },
    ToolCallArgs {
        tool_call_id: String,
        delta: String,
    },
    ToolCallEnd {
        tool_call_id: String,
    },
    ToolCallResult {
        message_id: String,
        tool_call_id: String,
        content: String,
        role: &'static str,
    },
    StateSnapshot {
        snapshot: Map<String, Value>,
    },
    StateDelta {
        delta: Value,
    },
    MessagesSnapshot {
        messages: Vec<Value>,
    },
    SubagentStarted {
        subagent_run_id: String,
        name: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        parent_subagent_run_id: Option<String>,
        parent_tool_call_id: String,
    },
    SubagentFinished {
        subagent_run_id: String,
        #[serde(skip_serializing_if = "Option::is_none")]
        outcome: Option<SubagentOutcome>,
    },
    SubagentError {
        subagent_run_id: String,
        message: String,
    },
    Custom {
        name: &'static str,
        value: Value,
    },
}

/// The result of a run, for clients that query more through the server's own API.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RunResult {
    pub(super) neuraxis_run_id: String,
    pub(super) session_id: String,
    pub(super) status: RunStatus,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) finish_reason: Option<FinishReason>,
}

/// How a run that did not fail ended.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum Outcome {
    Success {
        /// The calls that the front end executes.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        pending_tool_call_ids: Vec<String>,
    },
    Interrupt {
        interrupts: Vec<Interrupt>,
    },
    Cancelled,
}

/// A question that a user must answer before the run resumes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Interrupt {
    pub(super) id: String,
    pub(super) reason: &'static str,
    pub(super) message: String,
    pub(super) tool_call_id: String,
    pub(super) response_schema: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
    pub(super) metadata: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) subagent_run_id: Option<String>,
}

/// Why a sub-agent has no result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(
    tag = "type",
    rename_all = "snake_case",
    rename_all_fields = "camelCase"
)]
pub(super) enum SubagentOutcome {
    /// The run waits. The sub-agent resumes when the run does.
    Suspended { interrupt_ids: Vec<String> },
}

/// The usage of a model's calls. Unknown counts are omitted.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UsageOfModel {
    provider: String,
    model: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    total_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reasoning_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cached_input_tokens: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cache_write_input_tokens: Option<u64>,
}

impl UsageOfModel {
    pub(super) fn new(model: &ModelRef, usage: &Usage) -> Self {
        let known = |count: TokenCount| {
            let is_told = count.label != CountLabel::Unknown || count.tokens > 0;
            is_told.then_some(count.tokens)
        };
        Self {
            provider: model.provider.to_string(),
            model: model.model.to_string(),
            input_tokens: known(usage.prompt),
            output_tokens: known(usage.completion),
            total_tokens: known(usage.total),
            reasoning_tokens: known(usage.reasoning),
            cached_input_tokens: known(usage.cached),
            cache_write_input_tokens: usage.cache_written.and_then(known),
        }
    }
}
