//! The steps of a run, read from its records.

use std::collections::HashMap;
use std::sync::Arc;

use neuraxis_core::{
    EffectId, LlmCall, LlmFailed, Record, RecordBody, ToolCallId, ToolCallStarted, ToolResult,
};
use serde_json::{Map, Value, json};

use crate::result::{OrchestratorStep, StepType};

/// Reads the steps of a run from its records: one per model call, one per tool call, and what went wrong.
pub(crate) fn steps(records: &[Arc<Record>]) -> Vec<OrchestratorStep> {
    let mut reader = Reader::default();
    for record in records {
        reader.read(record);
    }
    reader.steps
}

/// Returns the id of the trace span of an effect: the same for whoever computes it.
fn span_id(effect: EffectId) -> String {
    let (_, low) = effect.run.0.as_u64_pair();
    format!("{:016x}", low ^ u64::from(effect.number))
}

#[derive(Default)]
struct Reader {
    steps: Vec<OrchestratorStep>,
    /// Where the step of a call that has no result yet stands.
    open: HashMap<ToolCallId, usize>,
}

impl Reader {
    fn read(&mut self, record: &Record) {
        let (kind, description, mut metadata) = match &record.body {
            RecordBody::LlmCall(call) => {
                (StepType::LlmCall, describe_call(call), call_metadata(call))
            }
            RecordBody::LlmFailed(failed) => (
                StepType::Warning,
                format!("{} failed: {}", failed.served_by, failed.error),
                failed_metadata(failed),
            ),
            RecordBody::ToolCall(started) => {
                self.open
                    .insert(started.tool_call_id.clone(), self.steps.len());
                (
                    StepType::ToolCall,
                    started.name.clone(),
                    started_metadata(started),
                )
            }
            RecordBody::ToolResult(result) => return self.complete(record, result),
            RecordBody::Plan(_) => (StepType::Plan, "the plan changed".to_owned(), Map::new()),
            RecordBody::Summary(summary) => (StepType::Summary, summary.text.clone(), Map::new()),
            RecordBody::Warning(warning) => (
                StepType::Warning,
                warning.message.clone(),
                object(json!({ "error": warning.code })),
            ),
            RecordBody::MaxTurnsReached(reached) => {
                let description = format!("the limit of {} turns was reached", reached.turns);
                (
                    StepType::Warning,
                    description,
                    object(json!({ "error": "max_turns" })),
                )
            }
            RecordBody::LimitReached(reached) => {
                let metadata = object(json!({ "error": reached.limit }));
                (
                    StepType::Warning,
                    "a limit was reached".to_owned(),
                    metadata,
                )
            }
            _ => return,
        };
        metadata.insert("agent".to_owned(), json!(record.agent));
        self.steps.push(OrchestratorStep {
            kind,
            description,
            metadata,
        });
    }

    /// Completes the step of a call; a call that was refused before it ran gets its step here.
    fn complete(&mut self, record: &Record, result: &ToolResult) {
        let place = self
            .open
            .remove(&result.tool_call_id)
            .unwrap_or(self.steps.len());
        if place == self.steps.len() {
            let metadata = object(json!({
                "tool_name": result.name,
                "tool_call_id": result.tool_call_id,
                "agent": record.agent,
            }));
            let description = result.name.clone();
            self.steps.push(OrchestratorStep {
                kind: StepType::ToolCall,
                description,
                metadata,
            });
        }
        let Some(step) = self.steps.get_mut(place) else {
            return;
        };
        step.metadata
            .insert("status".to_owned(), json!(result.status));
        if let Some(duration) = result.duration {
            step.metadata
                .insert("duration_ms".to_owned(), json!(millis(duration)));
        }
        if let Some(failure) = result.failure {
            let error: Option<Map<String, Value>> = result.value.decode().ok();
            let message = error
                .and_then(|mut error| error.remove("error"))
                .unwrap_or(Value::Null);
            step.description = format!("{} failed", result.name);
            step.metadata.insert("error".to_owned(), message);
            step.metadata
                .insert("error_type".to_owned(), json!(failure));
        }
    }
}

fn describe_call(call: &LlmCall) -> String {
    let model = &call.reply.model;
    match call.reply.calls().count() {
        0 => format!("{} answered ({model})", call.served_by),
        1 => format!("{} asked for 1 tool call ({model})", call.served_by),
        calls => format!("{} asked for {calls} tool calls ({model})", call.served_by),
    }
}

fn call_metadata(call: &LlmCall) -> Map<String, Value> {
    object(json!({
        "model_role": call.served_by,
        "provider": call.reply.model.provider,
        "model": call.reply.model.model,
        "purpose": call.purpose,
        "attempt": call.attempt,
        "duration_ms": millis(call.duration),
        "total_tokens": call.reply.usage.total.tokens,
        "span_id": span_id(call.effect_id),
    }))
}

fn failed_metadata(failed: &LlmFailed) -> Map<String, Value> {
    object(json!({
        "model_role": failed.served_by,
        "purpose": failed.purpose,
        "attempt": failed.attempt,
        "duration_ms": millis(failed.duration),
        "error": failed.error.to_string(),
        "span_id": span_id(failed.effect_id),
    }))
}

fn started_metadata(started: &ToolCallStarted) -> Map<String, Value> {
    object(json!({
        "tool_name": started.name,
        "tool_call_id": started.tool_call_id,
        "arguments": started.arguments.as_str(),
        "class": started.class,
        "origin": started.origin,
        "span_id": span_id(started.effect_id),
    }))
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
