//! Trace records: what happened in a run, in the form that dashboards and notebooks read.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, JsonText, LlmCall, Record, RecordBody, RunId, Transcript, whole_millis,
};
use neuraxis_ports::TraceSink;
use serde::Serialize;
use serde_json::{Value, json};

use crate::lazy_list::lazy_list;

/// Something that happened in a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TraceRecord {
    /// The kind of event.
    #[serde(rename = "type")]
    pub kind: TraceType,
    /// The time, in milliseconds since 1970.
    pub timestamp: i64,
    /// The details, as an object.
    pub data: Value,
}

/// The kinds of trace records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TraceType {
    /// A model was called: all messages, the reply and its reasoning.
    LlmCall,
    /// A model's reasoning before its reply.
    ReasoningContent,
    /// A tool call started.
    ToolCall,
    /// A tool call has its result.
    ToolResult,
    /// The turn limit was reached.
    MaxTurnsReached,
    /// The model was asked for its last answer.
    MaxTurnsPromptInjected,
}

/// What happened in a run, step by step: a list of trace records.
///
/// The list is computed from the run's records on first access: each model call includes all messages that were sent
/// with it, including media, and many callers only want the answer. It keeps the records in memory for as long as it
/// lives.
#[derive(Clone)]
pub struct Traces {
    history: Transcript,
    records: Vec<Arc<Record>>,
    read: OnceLock<Vec<TraceRecord>>,
}

impl Traces {
    /// The trace records of a run that no longer continues and that began with a history.
    pub(crate) const fn of(history: Transcript, records: Vec<Arc<Record>>) -> Self {
        Self {
            history,
            records,
            read: OnceLock::new(),
        }
    }

    fn made(&self) -> Vec<TraceRecord> {
        trace_records(&self.history, &self.records)
    }
}

lazy_list!(Traces, TraceRecord);

/// Reads the trace records of a run that began with a history.
#[must_use]
pub fn trace_records(history: &Transcript, records: &[Arc<Record>]) -> Vec<TraceRecord> {
    let mut view = RunView::after(history.clone());
    records
        .iter()
        .flat_map(|record| traced(&mut view, record))
        .collect()
}

fn traced(view: &mut RunView, record: &Arc<Record>) -> Vec<TraceRecord> {
    let sent = view.sent_with(record);
    view.apply(record);
    let trace = |kind, mut data: Value| {
        if record.agent != AgentId::ROOT
            && let Value::Object(data) = &mut data
        {
            data.insert("agent".to_owned(), json!(record.agent));
        }
        TraceRecord {
            kind,
            timestamp: record.at.as_millisecond(),
            data,
        }
    };
    match &record.body {
        RecordBody::LlmCall(call) => {
            let reasoning = call.reply.reasoning();
            let thought = (!reasoning.is_empty()).then(|| {
                let data = json!({ "content": reasoning, "turn": record.turn });
                trace(TraceType::ReasoningContent, data)
            });
            let called = trace(
                TraceType::LlmCall,
                json!({
                    "messages": sent,
                    "response": call.reply,
                    "reasoning_content": (!reasoning.is_empty()).then_some(&reasoning),
                    "purpose": call.purpose,
                    "model_role": call.served_by,
                    "turn": record.turn,
                    "duration_ms": whole_millis(call.duration),
                }),
            );
            let called = priced(called, call);
            std::iter::once(called).chain(thought).collect()
        }
        RecordBody::ToolCall(started) => vec![trace(
            TraceType::ToolCall,
            json!({
                "tool_call_id": started.tool_call_id,
                "name": started.name,
                "arguments": value(&started.arguments),
                "turn": record.turn,
            }),
        )],
        RecordBody::ToolResult(result) => vec![trace(
            TraceType::ToolResult,
            json!({
                "tool_call_id": result.tool_call_id,
                "name": result.name,
                "result": value(&result.value),
                "success": result.failure.is_none(),
                "duration_ms": result.duration.map(whole_millis),
                "turn": record.turn,
            }),
        )],
        RecordBody::MaxTurnsReached(reached) => {
            let data = json!({ "turns": reached.turns, "content": reached.content });
            vec![trace(TraceType::MaxTurnsReached, data)]
        }
        RecordBody::MaxTurnsPromptInjected(injected) => {
            let data = json!({ "message": injected.message });
            vec![trace(TraceType::MaxTurnsPromptInjected, data)]
        }
        _ => Vec::new(),
    }
}

/// Adds the cost of a call, if known.
fn priced(mut called: TraceRecord, call: &LlmCall) -> TraceRecord {
    if let (Some(cost), Value::Object(data)) = (call.cost, &mut called.data) {
        data.insert("cost_micro_usd".to_owned(), json!(cost));
        data.insert("cost_label".to_owned(), json!(call.cost_label));
    }
    called
}

/// Returns the JSON value of a text that claims to be JSON, or the text itself if it is not.
fn value(text: &JsonText) -> Value {
    text.decode()
        .unwrap_or_else(|_| Value::String(text.as_str().to_owned()))
}

/// Passes the trace records of all runs to a function, as they happen.
///
/// The function must not block.
pub struct TraceEmitter<F> {
    emit: F,
    runs: Mutex<HashMap<RunId, RunView>>,
}

impl<F: Fn(RunId, TraceRecord) + Send + Sync + 'static> TraceEmitter<F> {
    /// Creates a sink from a function.
    pub fn new(emit: F) -> Self {
        Self {
            emit,
            runs: Mutex::default(),
        }
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<RunId, RunView>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F> fmt::Debug for TraceEmitter<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceEmitter").finish_non_exhaustive()
    }
}

impl<F: Fn(RunId, TraceRecord) + Send + Sync + 'static> TraceSink for TraceEmitter<F> {
    fn begin(&self, run: RunId, history: &Transcript) {
        self.resume(run, history, &[]);
    }

    fn resume(&self, run: RunId, history: &Transcript, records: &[Arc<Record>]) {
        let view = RunView::after(history.clone()).with(records);
        self.runs().insert(run, view);
    }

    fn record(&self, record: &Arc<Record>) {
        let run = record.run_id;
        let traces = {
            let mut runs = self.runs();
            traced(runs.entry(run).or_default(), record)
        };
        for trace in traces {
            (self.emit)(run, trace);
        }
    }

    fn end(&self, run: RunId) {
        self.runs().remove(&run);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traces_are_read_only_on_first_access() {
        let traces = Traces::of(Transcript::default(), Vec::new());
        assert!(traces.read.get().is_none());
        assert!(traces.is_empty());
        assert!(traces.read.get().is_some());
    }
}
