//! Runs as JSON Lines: one object per line, with the run, its session, the kind, the time in milliseconds and the data.

use std::borrow::Cow;
use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, LlmFailed, Record, RecordBody,
    RunId, RunOutcome, RunStatus, SessionId, Transcript, whole_millis,
};
use neuraxis_engine::{TraceEmitter, TraceRecord, TraceType, trace_records};
use neuraxis_otel::{JsonLines, Redact, word};
use neuraxis_ports::TraceSink;
use serde::Serialize;
use serde_json::{Map, Value, json};

/// Separates the envelope of a line from its data. In the envelope, only the session id is searched for patterns.
const DATA: &str = ",\"data\":";

/// The text before and after the session id.
const SESSION: (&str, &str) = (",\"session_id\":", ",\"type\":");

/// Returns a sink that writes the activity of runs to a file, with or without the content of messages.
pub(super) fn sink(lines: JsonLines, content: bool) -> Arc<dyn TraceSink> {
    let writer = Writer(Arc::new(Shared {
        lines,
        sessions: Mutex::default(),
    }));
    let traces: Arc<dyn TraceSink> = if content {
        let writer = writer.clone();
        Arc::new(TraceEmitter::new(move |run, trace| {
            writer.add(run, trace.kind, trace.timestamp, &trace.data);
        }))
    } else {
        Arc::new(WithoutContent(writer.clone()))
    };
    Arc::new(Lines {
        traces,
        writer,
        content,
    })
}

/// Removes secrets from the data, and from the session id, which clients choose. The kind of a line, its run and its
/// time contain no secrets, and programs read them.
pub(super) fn redact_data(redact: Redact) -> Redact {
    Redact::new(move |line| {
        let (envelope, data) = line.split_at(line.find(DATA)? + DATA.len());
        let data = data.strip_suffix('}')?;
        let clean = (redact_session(&redact, envelope), redact.json(data));
        if let (Cow::Borrowed(_), Cow::Borrowed(_)) = clean {
            return None;
        }
        Some(format!("{}{}}}", clean.0, clean.1))
    })
}

fn redact_session<'a>(redact: &Redact, envelope: &'a str) -> Cow<'a, str> {
    let (before, behind) = SESSION;
    let parts = envelope.split_once(before).and_then(|(start, rest)| {
        let (session, end) = rest.split_once(behind)?;
        Some((start, session, end))
    });
    let Some((start, session, end)) = parts else {
        return Cow::Borrowed(envelope);
    };
    match redact.json(session) {
        Cow::Owned(clean) => Cow::Owned(format!("{start}{before}{clean}{behind}{end}")),
        Cow::Borrowed(_) => Cow::Borrowed(envelope),
    }
}

/// Writes trace records and other events of a run: failures, approval questions, and how it ended.
#[derive(Debug)]
struct Lines {
    traces: Arc<dyn TraceSink>,
    writer: Writer,
    content: bool,
}

#[derive(Debug, Clone)]
struct Writer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    lines: JsonLines,
    /// The sessions of the active runs.
    sessions: Mutex<HashMap<RunId, SessionId>>,
}

#[derive(Serialize)]
struct Line<'a, Kind> {
    run_id: RunId,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a SessionId>,
    #[serde(rename = "type")]
    kind: Kind,
    timestamp: i64,
    data: &'a Value,
}

impl Writer {
    fn sessions(&self) -> MutexGuard<'_, HashMap<RunId, SessionId>> {
        let sessions = &self.0.sessions;
        sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers the session of a run.
    fn note(&self, record: &Record) {
        if let RecordBody::RunStarted(started) = &record.body
            && let Some(session) = &started.session_id
        {
            self.sessions().insert(record.run_id, session.clone());
        }
    }

    fn add(&self, run_id: RunId, kind: impl Serialize, timestamp: i64, data: &Value) {
        let session = self.sessions().get(&run_id).cloned();
        let line = Line {
            run_id,
            session_id: session.as_ref(),
            kind,
            timestamp,
            data,
        };
        // Lines consist of strings, numbers, lists and valid JSON text: encoding one cannot fail.
        self.0
            .lines
            .add(serde_json::to_string(&line).unwrap_or_default());
    }
}

impl TraceSink for Lines {
    fn begin(&self, run: RunId, history: &Transcript) {
        self.traces.begin(run, history);
    }

    fn resume(&self, run: RunId, history: &Transcript, records: &[Arc<Record>]) {
        for record in records {
            self.writer.note(record);
        }
        self.traces.resume(run, history, records);
    }

    fn record(&self, record: &Arc<Record>) {
        self.writer.note(record);
        self.traces.record(record);
        if let Some(data) = event_of(record, self.content) {
            let at = record.at.as_millisecond();
            let kind = record.body.kind();
            self.writer
                .add(record.run_id, kind, at, &Value::Object(data));
        }
    }

    fn end(&self, run: RunId) {
        self.traces.end(run);
        self.writer.sessions().remove(&run);
    }
}

/// Returns the event of a record that produces no trace record; `None` if the record is not an event.
fn event_of(record: &Record, content: bool) -> Option<Map<String, Value>> {
    let mut data = match &record.body {
        RecordBody::LlmFailed(failed) => llm_failed(failed, content),
        RecordBody::ApprovalRequested(asked) => approval_requested(asked, content),
        RecordBody::ApprovalDecided(decided) => approval_decided(decided, content),
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => ended(outcome, content),
        _ => return None,
    };
    data.insert("turn".to_owned(), json!(record.turn));
    if record.agent != AgentId::ROOT {
        data.insert("agent".to_owned(), json!(record.agent));
    }
    Some(data)
}

fn object(pairs: impl IntoIterator<Item = (&'static str, Value)>) -> Map<String, Value> {
    let pairs = pairs.into_iter();
    let present = pairs.filter(|(_, value)| !value.is_null());
    present
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

fn llm_failed(failed: &LlmFailed, content: bool) -> Map<String, Value> {
    object([
        ("model_role", json!(failed.served_by)),
        ("model", json!(failed.model)),
        ("purpose", json!(failed.purpose)),
        ("attempt", json!(failed.attempt)),
        ("error", json!(word(&failed.error.kind))),
        // A server's error about a request may quote it.
        ("message", json!(content.then_some(&failed.error.message))),
        ("next", json!(failed.next)),
        ("duration_ms", json!(whole_millis(failed.duration))),
        ("usage", json!(failed.error.usage)),
        ("cost_micro_usd", json!(failed.cost)),
    ])
}

fn approval_requested(request: &ApprovalRequested, content: bool) -> Map<String, Value> {
    let arguments = request.arguments.decode::<Value>().ok();
    object([
        ("tool_call_id", json!(request.tool_call_id)),
        ("name", json!(request.name)),
        ("arguments", json!(arguments.filter(|_| content))),
        ("reason", json!(content.then_some(&request.reason))),
        ("expires_at", json!(request.expires_at)),
    ])
}

fn approval_decided(decided: &ApprovalDecided, content: bool) -> Map<String, Value> {
    let (decision, reason) = match &decided.decision {
        ApprovalDecision::Approve { .. } => ("approve", None),
        ApprovalDecision::Deny { reason } => ("deny", reason.as_ref()),
        ApprovalDecision::Expired => ("expired", None),
    };
    object([
        ("tool_call_id", json!(decided.tool_call_id)),
        ("decision", json!(decision)),
        ("reason", json!(reason.filter(|_| content))),
        ("by", json!(decided.by.as_ref().filter(|_| content))),
    ])
}

fn ended(outcome: &RunOutcome, content: bool) -> Map<String, Value> {
    let has_failed = outcome.status() != RunStatus::Done;
    let failure = has_failed.then(|| outcome.finish_reason.to_string());
    object([
        ("status", json!(outcome.status())),
        ("finish_reason", json!(word(&outcome.finish_reason))),
        ("content", json!(content.then_some(&outcome.content))),
        ("error", json!(failure.filter(|_| content))),
        ("turns", json!(outcome.turns)),
        ("usage", json!(outcome.usage)),
    ])
}

/// Writes events without the content of messages.
#[derive(Debug)]
struct WithoutContent(Writer);

impl TraceSink for WithoutContent {
    fn record(&self, record: &Arc<Record>) {
        // The remaining fields of the record do not depend on earlier messages.
        let traces = trace_records(&Transcript::default(), slice::from_ref(record));
        for trace in traces.into_iter().filter_map(without_content) {
            let run = record.run_id;
            self.0.add(run, trace.kind, trace.timestamp, &trace.data);
        }
    }
}

/// Removes content from a record; `None` if nothing else is left.
fn without_content(mut trace: TraceRecord) -> Option<TraceRecord> {
    let content_keys: &[&str] = match trace.kind {
        TraceType::ReasoningContent => return None,
        TraceType::LlmCall => &["messages", "reasoning_content"],
        TraceType::ToolCall => &["arguments"],
        TraceType::ToolResult => &["result"],
        TraceType::MaxTurnsReached => &["content"],
        TraceType::MaxTurnsPromptInjected => &[],
        // The content of other kinds has not been reviewed.
        _ => return None,
    };
    if let Value::Object(data) = &mut trace.data {
        data.retain(|key, _| !content_keys.contains(&key.as_str()));
        if let Some(Value::Object(reply)) = data.get_mut("response") {
            reply.retain(|key, _| !matches!(key.as_str(), "parts" | "advice"));
        }
    }
    Some(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_redacted_in_data_but_not_in_the_fields_that_identify_a_line() {
        let redact = Redact::new(|text| {
            let digits = |letter: char| letter.is_ascii_digit();
            text.contains(digits).then(|| text.replace(digits, "#"))
        });
        let redact = redact_data(redact);
        let line = r#"{"run_id":"0190","type":"tool_call","timestamp":1700000000000,"data":{"name":"card 41","n":"x"}}"#;
        assert_eq!(
            redact.text(line),
            r##"{"run_id":"0190","type":"tool_call","timestamp":1700000000000,"data":{"name":"card ##","n":"x"}}"##
        );
        // Clients choose session ids.
        let line = r#"{"run_id":"0190","session_id":"case-41","type":"final","timestamp":17,"data":{"n":"x"}}"#;
        assert_eq!(
            redact.text(line),
            r##"{"run_id":"0190","session_id":"case-##","type":"final","timestamp":17,"data":{"n":"x"}}"##
        );
    }
}
