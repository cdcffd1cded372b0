//! The result of a run of an agent alone.

use std::sync::Arc;

use neuraxis_core::{
    CallIndex, CountLabel, FinishReason, JsonText, LlmCall, Message, MicroUsd, Record, RecordBody,
    RunStatus, RunUsage, Source, ToolCallId, Transcript, whole_millis,
};
use serde::Serialize;

use crate::answer::{self, AnswerFault};
use crate::result;
use crate::run_end::RunEnd;
use crate::run_handle::RunLink;
use crate::traces::Traces;

/// The result of a run without a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Execution {
    /// The answer, or a sentence that explains why there is none.
    pub content: String,
    /// The answer as JSON that fits the schema, if one was requested and the answer fits it.
    #[serde(
        serialize_with = "answer::embedded",
        skip_serializing_if = "Option::is_none"
    )]
    pub answer: Option<JsonText>,
    /// Why there is no such answer, if one was requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_fault: Option<AnswerFault>,
    /// What happened, step by step; built on first access.
    pub traces: Traces,
    /// The tool calls, in the order in which models made them.
    pub tool_calls: Vec<ToolCallRecord>,
    /// The number of turns that counted.
    pub turns: u32,
    /// The run's status.
    pub status: RunStatus,
    /// Why the run ended. With [`FinishReason::ClientTools`], the last message holds calls that the caller must run.
    /// The caller adds their results to the history before the next run.
    pub finish_reason: FinishReason,
    /// Token usage, in total and by the role that served.
    pub usage: RunUsage,
    /// The pages that the answer cites, in the order of its citation numbers, if the agent's
    /// [citations](neuraxis_core::Citations) are checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// The cost of its model calls by the policy's prices, including those of its sub-agents. `None` if any reply came
    /// from a model without a price.
    #[serde(rename = "cost_micro_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How certain the cost is; see [`OrchestratorResult::cost_label`](crate::OrchestratorResult::cost_label).
    pub cost_label: CountLabel,
    /// The whole conversation: the messages given, followed by those that the run added.
    pub message_history: Vec<Arc<Message>>,
}

/// A tool call and its result.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The call's id.
    pub id: ToolCallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments that the call ran with; the arguments that the model wrote if it did not run.
    pub arguments: JsonText,
    /// The value; `{"error": "…"}` if the call returned none.
    pub result: JsonText,
    /// Whether the call returned a value.
    pub success: bool,
    /// How long the call ran, in milliseconds; 0 if it did not run.
    pub duration_ms: u64,
}

pub(super) fn execution(run: &RunLink, end: Option<&RunEnd>, history: &Transcript) -> Execution {
    let records = run.feed.with_records(<[_]>::to_vec);
    // A run that is not stored never waits: calls of its client's tools are handed over, and no approval can come
    // later.
    let outcome = end
        .and_then(|end| end.outcome.clone())
        .unwrap_or_else(result::crashed_outcome);
    let (answer, answer_fault) = answer::of_run(Some(&outcome), &records);
    let content = match &answer {
        Some(answer) => answer.to_string(),
        None => result::reply(&outcome, &records),
    };
    Execution {
        content,
        answer,
        answer_fault,
        tool_calls: tool_calls(&records),
        cost: result::cost(&records),
        cost_label: result::cost_label(&records),
        traces: Traces::of(history.clone(), records),
        turns: outcome.turns,
        status: outcome.status(),
        usage: outcome.usage,
        sources: outcome.sources,
        finish_reason: outcome.finish_reason,
        // After a crash, the given messages are still there to continue from.
        message_history: end.map_or(history, |end| &end.messages).messages().to_vec(),
    }
}

/// Reads the tool calls of a run and of its sub-agents from its records, in the order in which models made them.
#[must_use]
pub fn tool_calls(records: &[Arc<Record>]) -> Vec<ToolCallRecord> {
    let mut arguments = std::collections::BTreeMap::new();
    // The position of each call among all calls.
    let mut places = std::collections::BTreeMap::new();
    let mut calls = Vec::new();
    for record in records {
        match &record.body {
            RecordBody::LlmCall(call) => {
                for (id, written) in requested(record, call) {
                    let next = places.len();
                    places.entry(id.clone()).or_insert(next);
                    arguments.insert(id, written);
                }
            }
            RecordBody::ToolCall(started) => {
                arguments.insert(started.tool_call_id.clone(), started.arguments.clone());
            }
            RecordBody::ToolResult(result) => {
                let known = arguments.remove(&result.tool_call_id);
                let next = places.len();
                places.entry(result.tool_call_id.clone()).or_insert(next);
                calls.push(ToolCallRecord {
                    id: result.tool_call_id.clone(),
                    name: result.name.clone(),
                    arguments: known.unwrap_or_else(|| JsonText::from_text("{}")),
                    result: result.value.clone(),
                    success: result.failure.is_none(),
                    duration_ms: whole_millis(result.duration.unwrap_or_default()),
                });
            }
            _ => {}
        }
    }
    calls.sort_by_key(|call| places.get(&call.id).copied());
    calls
}

/// Returns the calls that a reply requests, with the ids that the loop gives them.
fn requested<'a>(
    record: &'a Record,
    call: &'a LlmCall,
) -> impl Iterator<Item = (ToolCallId, JsonText)> + 'a {
    let at = record.content_index.unwrap_or_default();
    call.reply.calls().zip(0..).map(move |(call, index)| {
        let id = ToolCallId::new(record.run_id, record.agent, at, CallIndex(index));
        (id, call.arguments.clone())
    })
}
