//! What a run of an agent alone came to.

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

/// What a run without a session came to.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Execution {
    /// The answer, or a sentence that says why there is none.
    pub content: String,
    /// The answer as JSON that fits the schema, where one was asked for and there is such an answer.
    #[serde(
        serialize_with = "answer::embedded",
        skip_serializing_if = "Option::is_none"
    )]
    pub answer: Option<JsonText>,
    /// Why there is no such answer, where one was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_fault: Option<AnswerFault>,
    /// What happened, step by step; made when it is first looked at.
    pub traces: Traces,
    /// The tool calls, in the order in which models made them.
    pub tool_calls: Vec<ToolCallRecord>,
    /// Turns that counted.
    pub turns: u32,
    /// Where the run stands.
    pub status: RunStatus,
    /// Why it ended. With [`FinishReason::ClientTools`] the last message holds calls that the caller has to run: their
    /// results are to be added to the history before the next run.
    pub finish_reason: FinishReason,
    /// Tokens, in all and by the role that served.
    pub usage: RunUsage,
    /// The pages that the answer cites, in the order of its numbers, where its agent's
    /// [citations](neuraxis_core::Citations) are checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<Source>,
    /// What its model calls cost, those of its sub-agents included, by the policy's prices. `None` if any of its replies came
    /// from a model without a price.
    #[serde(rename = "cost_micro_usd", skip_serializing_if = "Option::is_none")]
    pub cost: Option<MicroUsd>,
    /// How sure that is; see [`OrchestratorResult::cost_label`](crate::OrchestratorResult::cost_label).
    pub cost_label: CountLabel,
    /// The whole conversation: what was given, and what the run added.
    pub message_history: Vec<Arc<Message>>,
}

/// A tool call and what came of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ToolCallRecord {
    /// The call.
    pub id: ToolCallId,
    /// The tool.
    pub name: Arc<str>,
    /// The arguments it was run with; those the model wrote if it was not run.
    pub arguments: JsonText,
    /// The value; `{"error": "…"}` if it gave none.
    pub result: JsonText,
    /// Whether it gave a value.
    pub success: bool,
    /// How long it ran, in milliseconds; 0 if it did not.
    pub duration_ms: u64,
}

pub(super) fn execution(run: &RunLink, end: Option<&RunEnd>, history: &Transcript) -> Execution {
    let records = run.feed.with_records(<[_]>::to_vec);
    // A run that is kept nowhere never waits: its client's calls are handed over, and nobody decides later.
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
        // After a crash what was given is still there to go on from.
        message_history: end.map_or(history, |end| &end.messages).messages().to_vec(),
    }
}

/// Reads the tool calls of a run, and of its sub-agents, from its records, in the order in which models made them.
#[must_use]
pub fn tool_calls(records: &[Arc<Record>]) -> Vec<ToolCallRecord> {
    let mut arguments = std::collections::BTreeMap::new();
    // Where each call stands among all that were made.
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

/// Returns the calls that a reply asks for, by the ids that the loop gives them.
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
