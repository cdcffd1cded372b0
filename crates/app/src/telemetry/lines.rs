//! Trace records as JSON Lines: one object a line, with the run, the kind, the time in milliseconds and the data.

use std::slice;
use std::sync::Arc;

use neuraxis_core::{Record, RunId, Transcript};
use neuraxis_engine::{TraceEmitter, TraceRecord, TraceType, trace_records};
use neuraxis_otel::JsonLines;
use neuraxis_ports::TraceSink;
use serde::Serialize;
use serde_json::Value;

/// Returns a sink that writes trace records into a file, with or without what was said.
pub(super) fn sink(lines: JsonLines, content: bool) -> Arc<dyn TraceSink> {
    if !content {
        return Arc::new(WithoutContent(lines));
    }
    Arc::new(TraceEmitter::new(move |run, trace| {
        lines.add(line(run, &trace));
    }))
}

/// Writes what happened, and nothing of what was said.
#[derive(Debug)]
struct WithoutContent(JsonLines);

impl TraceSink for WithoutContent {
    fn record(&self, record: &Arc<Record>) {
        // What was said before matters to nothing that is left of the record.
        let traces = trace_records(&Transcript::default(), slice::from_ref(record));
        for trace in traces.into_iter().filter_map(without_content) {
            self.0.add(line(record.run_id, &trace));
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    run_id: RunId,
    #[serde(flatten)]
    trace: &'a TraceRecord,
}

fn line(run_id: RunId, trace: &TraceRecord) -> String {
    // Records are built of strings, numbers, lists and valid JSON texts: encoding one cannot fail.
    serde_json::to_string(&Line { run_id, trace }).unwrap_or_default()
}

/// Takes what was said out of a record; nothing is left of one that is only that.
fn without_content(mut trace: TraceRecord) -> Option<TraceRecord> {
    let said: &[&str] = match trace.kind {
        TraceType::ReasoningContent => return None,
        TraceType::LlmCall => &["messages", "reasoning_content"],
        TraceType::ToolCall => &["arguments"],
        TraceType::ToolResult => &["result"],
        TraceType::MaxTurnsReached => &["content"],
        TraceType::MaxTurnsPromptInjected => &[],
        // Nobody looked at what another kind holds.
        _ => return None,
    };
    if let Value::Object(data) = &mut trace.data {
        data.retain(|key, _| !said.contains(&key.as_str()));
        if let Some(Value::Object(reply)) = data.get_mut("response") {
            reply.retain(|key, _| !matches!(key.as_str(), "parts" | "advice"));
        }
    }
    Some(trace)
}
