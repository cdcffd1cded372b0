//! The details of a step for programs.

use std::sync::Arc;

use neuraxis_core::{
    AgentId, EffectId, JsonText, LlmCall, LlmFailed, Record, RecordBody, Role, ToolCallId,
    ToolCallStarted, ToolResult, whole_millis,
};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

/// A step for programs: `model_role`, `tool_name`, `span_id`, `error` and others. As JSON it is an object. For a call
/// that started sub-agents, `agents` has the outcome of each: its status, turns and usage, and under `tool_metadata`
/// the metadata that its tools returned with their results. The metadata that the step's own tool returned is the
/// step's `tool_metadata`.
///
/// It holds the step's records and reads them only when asked, since most callers never ask.
#[derive(Debug, Clone, PartialEq)]
pub struct StepMetadata {
    record: Arc<Record>,
    /// The result of a call, if it is not the first record of its step.
    result: Option<Arc<Record>>,
    /// The last failed attempt of a call that was followed by another.
    failed: Option<Arc<Record>>,
    /// The end records of the sub-agents that the call started, in the order in which they ended.
    agents: Vec<Arc<Record>>,
    /// The results with metadata of the calls of those agents, in the order in which they arrived.
    results_below: Vec<Arc<Record>>,
}

impl StepMetadata {
    pub(super) const fn new(record: Arc<Record>) -> Self {
        Self {
            record,
            result: None,
            failed: None,
            agents: Vec::new(),
            results_below: Vec::new(),
        }
    }

    /// Returns whether this is the step of a call that started an agent.
    pub(super) fn started(&self, agent: AgentId) -> bool {
        matches!(&self.record.body, RecordBody::ToolCall(started) if started.agents.contains(&agent))
    }

    /// Adds the end of an agent that the call started.
    pub(super) fn agent_ended(&mut self, end: Arc<Record>) {
        self.agents.push(end);
    }

    /// Adds a result with metadata of an agent that the call started.
    pub(super) fn agent_read(&mut self, result: Arc<Record>) {
        self.results_below.push(result);
    }

    /// Returns whether this is the step of a call that has no result yet.
    pub(super) fn is_of(&self, call: &ToolCallId) -> bool {
        let RecordBody::ToolCall(started) = &self.record.body else {
            return false;
        };
        self.result.is_none() && started.tool_call_id == *call
    }

    /// Adds a failed attempt that is followed by another.
    pub(super) fn fail(&mut self, failed: Arc<Record>) {
        self.failed = Some(failed);
    }

    /// Adds the start of another attempt.
    pub(super) fn try_again(&mut self, started: Arc<Record>) {
        self.record = started;
    }

    pub(super) fn complete(&mut self, result: Arc<Record>) {
        self.result = Some(result);
    }

    /// Returns one value, by its key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<Value> {
        self.to_map().remove(key)
    }

    /// Returns all values by key.
    #[must_use]
    pub fn to_map(&self) -> Map<String, Value> {
        let mut map = match &self.record.body {
            RecordBody::LlmCall(call) => of_call(call),
            RecordBody::LlmFailed(failed) => of_failed(failed),
            RecordBody::ToolCall(started) => of_started(started),
            RecordBody::ToolResult(result) => object(json!({
                "tool_name": result.name,
                "tool_call_id": result.tool_call_id,
            })),
            RecordBody::Warning(warning) => object(json!({ "error": warning.code })),
            RecordBody::MaxTurnsReached(_) => object(json!({ "error": "max_turns" })),
            RecordBody::RoleDowngraded(downgraded) => object(json!({
                "error": "role_downgraded",
                "model_role": downgraded.to,
                "from": downgraded.from,
                "to": downgraded.to,
                "reason": downgraded.reason,
            })),
            RecordBody::Escalated(escalated) => object(json!({
                "error": "escalated",
                "failures": escalated.failures,
                "to": escalated.role.as_ref().map_or("person", Role::as_str),
            })),
            RecordBody::LimitReached(reached) => object(json!({ "error": reached.limit })),
            _ => Map::new(),
        };
        map.insert("agent".to_owned(), json!(self.record.agent));
        if let Some(RecordBody::ToolFailed(failed)) = self.failed.as_ref().map(|it| &it.body) {
            map.insert("attempt".to_owned(), json!(failed.attempt.next()));
            map.insert(
                "retried_after".to_owned(),
                json!(failed.value.error_message()),
            );
        }
        if !self.agents.is_empty() {
            let agents = self.agents.iter().filter_map(|end| self.of_agent(end));
            let agents: Vec<Value> = agents.collect();
            map.insert("agents".to_owned(), json!(agents));
        }
        let result = self.result.as_ref().unwrap_or(&self.record);
        if let RecordBody::ToolResult(result) = &result.body {
            add_result(&mut map, result);
        }
        map
    }

    /// Returns the outcome of a sub-agent. Its answer is the result of the call, or a part of it.
    fn of_agent(&self, end: &Record) -> Option<Value> {
        let (RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)) = &end.body else {
            return None;
        };
        let mut agent = object(json!({
            "agent": end.agent,
            "status": outcome.status(),
            "finish_reason": outcome.finish_reason,
            "turns": outcome.turns,
            "usage": outcome.usage,
        }));
        let its = self.results_below.iter();
        let its = its.filter(|result| result.agent == end.agent);
        let metadata: Vec<Value> = its.filter_map(|result| of_result(result)).collect();
        if !metadata.is_empty() {
            agent.insert("tool_metadata".to_owned(), json!(metadata));
        }
        Some(Value::Object(agent))
    }
}

impl Serialize for StepMetadata {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_map().serialize(serializer)
    }
}

/// Returns the id of the trace span of an effect as 16 hexadecimal digits.
fn span_id(effect: EffectId) -> String {
    format!("{:016x}", effect.span_id())
}

fn of_call(call: &LlmCall) -> Map<String, Value> {
    object(json!({
        "model_role": call.served_by,
        "provider": call.reply.model.provider,
        "model": call.reply.model.model,
        "purpose": call.purpose,
        "attempt": call.attempt,
        "duration_ms": whole_millis(call.duration),
        "total_tokens": call.reply.usage.total.tokens,
        "span_id": span_id(call.effect_id),
    }))
}

fn of_failed(failed: &LlmFailed) -> Map<String, Value> {
    object(json!({
        "model_role": failed.served_by,
        "purpose": failed.purpose,
        "attempt": failed.attempt,
        "duration_ms": whole_millis(failed.duration),
        "error": failed.error.to_string(),
        "span_id": span_id(failed.effect_id),
    }))
}

fn of_started(started: &ToolCallStarted) -> Map<String, Value> {
    object(json!({
        "tool_name": started.name,
        "tool_call_id": started.tool_call_id,
        "arguments": started.arguments.as_str(),
        "class": started.class,
        "origin": started.origin,
        "span_id": span_id(started.effect_id),
    }))
}

/// Returns the metadata that a tool of a sub-agent returned with a result.
fn of_result(record: &Record) -> Option<Value> {
    let RecordBody::ToolResult(result) = &record.body else {
        return None;
    };
    let metadata: Value = result.metadata.as_ref()?.decode().ok()?;
    Some(json!({
        "tool_name": result.name,
        "tool_call_id": result.tool_call_id,
        "metadata": metadata,
    }))
}

fn add_result(map: &mut Map<String, Value>, result: &ToolResult) {
    map.insert("status".to_owned(), json!(result.status));
    if let Some(duration) = result.duration {
        map.insert("duration_ms".to_owned(), json!(whole_millis(duration)));
    }
    let metadata = result.metadata.as_ref();
    if let Some(Ok(metadata)) = metadata.map(JsonText::decode::<Value>) {
        map.insert("tool_metadata".to_owned(), metadata);
    }
    if let Some(failure) = result.failure {
        map.insert("error".to_owned(), json!(result.value.error_message()));
        map.insert("error_type".to_owned(), json!(failure));
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}
