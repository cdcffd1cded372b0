//! The spans of model calls, tool calls and questions to users. One span covers all attempts of a call.

use std::sync::Arc;

use neuraxis_core::jiff::{SignedDuration, Timestamp};
use neuraxis_core::{
    AgentId, ApprovalDecided, ApprovalDecision, ApprovalRequested, Attempt, Cost, LlmCall,
    LlmFailed, Message, ModelRef, NextAttempt, Purpose, Record, RecordBody, Role, ToolCallFailed,
    ToolCallId, ToolCallStarted, ToolResult, Usage,
};
use opentelemetry::KeyValue;
use opentelemetry::trace::{Event, SpanKind, Status};
use opentelemetry_sdk::trace::SpanData;

use super::attributes::{identity, of_cost, of_reply, of_usage, provider, sum, word};
use super::{MAX_EVENTS, OpenAgent, RunSpans, events, time};
use crate::content;
use crate::names;

/// A model call with failed attempts and another attempt to come.
#[derive(Debug)]
pub(super) struct OpenModelCall {
    began: Timestamp,
    /// The usage of the failed attempts, if any of them reported it.
    usage: Option<Usage>,
    /// Their cost, as far as their prices are known.
    cost: Option<Cost>,
    failures: Vec<Event>,
    /// The record of the last failed attempt.
    last: Option<Arc<Record>>,
    /// The messages sent with that attempt, if content is exported.
    sent: Option<Vec<Arc<Message>>>,
}

/// A tool call that has begun.
#[derive(Debug)]
pub(super) struct OpenTool {
    span: u64,
    began: Timestamp,
    attempt: Attempt,
    arguments: Option<String>,
    failures: Vec<Event>,
}

/// A question that waits for a user.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    span: u64,
    agent: AgentId,
    name: String,
    began: Timestamp,
}

impl OpenModelCall {
    const fn of(began: Timestamp) -> Self {
        Self {
            began,
            usage: None,
            cost: None,
            failures: Vec::new(),
            last: None,
            sent: None,
        }
    }
}

impl RunSpans {
    pub(super) fn model_replied(
        &mut self,
        record: &Record,
        call: &LlmCall,
        sent: Option<&[Arc<Message>]>,
    ) -> SpanData {
        let open = self.models.remove(&call.effect_id);
        let open = open.unwrap_or_else(|| OpenModelCall::of(before(record.at, call.duration)));
        let mut used = call.reply.usage;
        if let Some(failed) = open.usage {
            used += failed;
        }
        let mut attributes = self.of_model_call(record, call.attempt, call.purpose);
        let role = &call.served_by;
        let model = self
            .endpoints
            .requested_model(role, None, Some(&call.reply.model));
        let name = self.add_requested_model(role, call.purpose, model, &mut attributes);
        of_reply(call, &mut attributes);
        of_usage(&used, &mut attributes);
        let label = call.cost_label;
        let paid = call.cost.map(|amount| Cost { amount, label });
        of_cost(sum(paid, open.cost), &mut attributes);
        if let Some(sent) = sent {
            let (system, said) = content::input(sent);
            if let Some(agent) = self.agents.get_mut(&record.agent)
                && record.agent != AgentId::ROOT
            {
                agent.input.get_or_insert_with(|| said.clone());
            }
            of_sent(system, said, &mut attributes);
            let answer = content::output(&call.reply);
            attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, answer));
        }
        let times = (time(open.began), time(record.at));
        let parent = record.agent.span_id(self.run);
        let mut span = self.span(call.effect_id.span_id(), parent, name, times);
        span.span_kind = SpanKind::Client;
        span.attributes = attributes;
        span.events = events(open.failures);
        span
    }

    pub(super) fn model_failed(
        &mut self,
        record: &Arc<Record>,
        failed: &LlmFailed,
        sent: Option<Vec<Arc<Message>>>,
    ) -> Option<SpanData> {
        let mut event = failure(record, &word(&failed.error.kind), failed.attempt);
        let role = &failed.served_by;
        event.attributes.push(of_role(role));
        let model = self
            .endpoints
            .requested_model(role, failed.model.as_deref(), None);
        event.attributes.extend(model.map(of_model));
        let open = self.models.entry(failed.effect_id);
        let began = before(record.at, failed.duration);
        let open = open.or_insert_with(|| OpenModelCall::of(began));
        if let Some(usage) = failed.error.usage.as_deref() {
            *open.usage.get_or_insert_default() += *usage;
        }
        let label = failed.cost_label;
        let paid = failed.cost.map(|amount| Cost { amount, label });
        open.cost = sum(open.cost, paid);
        if open.failures.len() < MAX_EVENTS {
            open.failures.push(event);
        }
        (open.last, open.sent) = (Some(Arc::clone(record)), sent);
        if failed.next == NextAttempt::Follows {
            return None;
        }
        let open = self.models.remove(&failed.effect_id)?;
        self.call_failed(open, record.at)
    }

    /// Ends the model calls that are open when an agent ends: some attempts failed, and the next was stopped.
    pub(super) fn calls_left(&mut self, record: &Record) -> Vec<SpanData> {
        let left = self.models.extract_if(|_, open| {
            let last = open.last.as_ref();
            last.is_some_and(|last| last.agent == record.agent)
        });
        let left: Vec<OpenModelCall> = left.map(|(_, open)| open).collect();
        left.into_iter()
            .filter_map(|open| self.call_failed(open, record.at))
            .collect()
    }

    /// Creates the span of a call in which no attempt returned a reply.
    fn call_failed(&self, open: OpenModelCall, ended: Timestamp) -> Option<SpanData> {
        let record = open.last?;
        let RecordBody::LlmFailed(failed) = &record.body else {
            return None;
        };
        let reason = word(&failed.error.kind);
        let mut attributes = self.of_model_call(&record, failed.attempt, failed.purpose);
        let role = &failed.served_by;
        let model = self
            .endpoints
            .requested_model(role, failed.model.as_deref(), None);
        let name = self.add_requested_model(role, failed.purpose, model, &mut attributes);
        if let Some(usage) = &open.usage {
            of_usage(usage, &mut attributes);
        }
        of_cost(open.cost, &mut attributes);
        attributes.push(KeyValue::new(names::ERROR_TYPE, reason.clone()));
        if let Some(sent) = open.sent {
            let (system, said) = content::input(&sent);
            of_sent(system, said, &mut attributes);
        }
        let times = (time(open.began), time(ended));
        let parent = record.agent.span_id(self.run);
        let id = failed.effect_id.span_id();
        let mut span = self.span(id, parent, name, times);
        span.span_kind = SpanKind::Client;
        span.attributes = attributes;
        span.events = events(open.failures);
        // A provider's error message may quote the request.
        span.status = Status::error(if self.view.is_some() {
            failed.error.to_string()
        } else {
            reason
        });
        Some(span)
    }

    fn of_model_call(&self, record: &Record, attempt: Attempt, purpose: Purpose) -> Vec<KeyValue> {
        let mut attributes = identity(&self.run_name, record.agent, self.conversation.as_ref());
        attributes.push(KeyValue::new(names::OPERATION, "chat"));
        attributes.push(KeyValue::new(names::ATTEMPTS, i64::from(attempt.0)));
        // These calls have settings of their own, which are not recorded.
        let has_own = matches!(purpose, Purpose::Compaction | Purpose::Routing);
        if let Some(spec) = self.spec_of(record.agent).filter(|_| !has_own) {
            let temperature = spec.temperature;
            attributes
                .extend(temperature.map(|it| KeyValue::new(names::TEMPERATURE, as_written(it))));
            let most = spec.max_output_tokens;
            attributes.extend(most.map(|it| KeyValue::new(names::MAX_TOKENS, i64::from(it))));
            let form = if spec.reply_format.is_text() {
                "text"
            } else {
                "json"
            };
            attributes.push(KeyValue::new(names::OUTPUT_TYPE, form));
        }
        attributes
    }

    /// Adds which model was requested and for what purpose, and returns the name of the span.
    fn add_requested_model(
        &self,
        role: &Role,
        purpose: Purpose,
        model: Option<&ModelRef>,
        attributes: &mut Vec<KeyValue>,
    ) -> String {
        attributes.push(of_role(role));
        attributes.push(KeyValue::new(names::PURPOSE, word(&purpose)));
        attributes.extend(self.endpoints.server_of(role));
        let Some(model) = model else {
            return "chat".to_owned();
        };
        attributes.push(KeyValue::new(names::PROVIDER, provider(&model.provider)));
        attributes.push(of_model(model));
        format!("chat {}", model.model)
    }

    pub(super) fn tool_started(&mut self, record: &Record, started: &ToolCallStarted) {
        let span = started.effect_id.span_id();
        let shows_content = self.view.is_some();
        let open = self.tools.entry(started.tool_call_id.clone());
        let open = open.or_insert_with(|| OpenTool {
            span,
            began: record.at,
            attempt: started.attempt,
            arguments: shows_content.then(|| content::json_of(&started.arguments)),
            failures: Vec::new(),
        });
        open.attempt = started.attempt;
        for agent in &started.agents {
            let tool = started.name.to_string();
            let spec = self.spec.as_deref();
            let mut agents = spec.into_iter().flat_map(|spec| &spec.agents);
            let spec = agents.find_map(|(name, spec)| (name.as_str() == tool).then_some(spec));
            let open = OpenAgent {
                name: spec.map_or_else(|| tool.clone(), |spec| spec.profile.name.clone()),
                role: spec.map(|spec| spec.role.clone()),
                tool: Some(tool),
                began: record.at,
                parent: span,
                input: None,
                events: Vec::new(),
            };
            self.agents.entry(*agent).or_insert(open);
        }
    }

    pub(super) fn tool_retried(&mut self, record: &Record, failed: &ToolCallFailed) {
        let event = failure(record, &word(&failed.failure), failed.attempt);
        if let Some(open) = self.tools.get_mut(&failed.tool_call_id)
            && open.failures.len() < MAX_EVENTS
        {
            open.failures.push(event);
        }
    }

    pub(super) fn tool_ended(&mut self, record: &Record, result: &ToolResult) -> SpanData {
        // A call that was refused never began.
        let open = self.tools.remove(&result.tool_call_id);
        let open = open.unwrap_or_else(|| OpenTool {
            span: digest(result.tool_call_id.as_str()),
            began: record.at,
            attempt: result.attempt.unwrap_or(Attempt(0)),
            arguments: None,
            failures: Vec::new(),
        });
        let mut attributes = identity(&self.run_name, record.agent, self.conversation.as_ref());
        attributes.push(KeyValue::new(names::OPERATION, "execute_tool"));
        attributes.push(KeyValue::new(names::TOOL_NAME, result.name.to_string()));
        let call = result.tool_call_id.as_str().to_owned();
        attributes.push(KeyValue::new(names::TOOL_CALL_ID, call));
        attributes.push(KeyValue::new(names::TOOL_TYPE, "function"));
        attributes.extend(self.described(record.agent, &result.name));
        attributes.extend(self.endpoints.mcp_call(&result.name));
        attributes.push(KeyValue::new(names::ATTEMPTS, i64::from(open.attempt.0)));
        let arguments = open.arguments;
        attributes.extend(arguments.map(|it| KeyValue::new(names::ARGUMENTS, it)));
        if self.view.is_some() {
            let value = content::json_of(&result.value);
            attributes.push(KeyValue::new(names::RESULT, value));
        }
        let name = format!("execute_tool {}", result.name);
        let times = (time(open.began), time(record.at));
        let parent = record.agent.span_id(self.run);
        let mut span = self.span(open.span, parent, name, times);
        if let Some(failure) = result.failure {
            let reason = word(&failure);
            attributes.push(KeyValue::new(names::ERROR_TYPE, reason.clone()));
            span.status = Status::error(reason);
        }
        span.attributes = attributes;
        span.events = events(open.failures);
        span
    }

    /// Returns the description of a tool that the model was given. It is part of the tool's definition, not
    /// conversation content.
    fn described(&self, agent: AgentId, tool: &str) -> Option<KeyValue> {
        let mut tools = self.spec_of(agent)?.tools.iter();
        let spec = tools.find(|spec| spec.name.as_str() == tool)?;
        let description = spec.description.to_string();
        (!description.is_empty()).then(|| KeyValue::new(names::TOOL_DESCRIPTION, description))
    }

    pub(super) fn approval_requested(&mut self, record: &Record, requested: &ApprovalRequested) {
        let question = OpenQuestion {
            span: requested.effect_id.span_id(),
            agent: record.agent,
            name: requested.name.to_string(),
            began: record.at,
        };
        self.questions
            .insert(requested.tool_call_id.clone(), question);
    }

    pub(super) fn approval_decided(
        &mut self,
        record: &Record,
        decided: &ApprovalDecided,
    ) -> Option<SpanData> {
        let decision = match decided.decision {
            ApprovalDecision::Approve { .. } => "approve",
            ApprovalDecision::Deny { .. } => "deny",
            ApprovalDecision::Expired => "expired",
        };
        self.question_ended(record, &decided.tool_call_id, Some(decision))
    }

    /// Ends the question about a call, if one is open. There is no decision if the call is given up, for example with
    /// its run.
    pub(super) fn question_ended(
        &mut self,
        record: &Record,
        call: &ToolCallId,
        decision: Option<&'static str>,
    ) -> Option<SpanData> {
        let question = self.questions.remove(call)?;
        let mut attributes = identity(&self.run_name, question.agent, self.conversation.as_ref());
        attributes.push(KeyValue::new(names::TOOL_NAME, question.name.clone()));
        let call = call.as_str().to_owned();
        attributes.push(KeyValue::new(names::TOOL_CALL_ID, call));
        attributes.extend(decision.map(|it| KeyValue::new(names::DECISION, it)));
        let name = format!("approval {}", question.name);
        let times = (time(question.began), time(record.at));
        let parent = question.agent.span_id(self.run);
        let mut span = self.span(question.span, parent, name, times);
        span.attributes = attributes;
        Some(span)
    }
}

fn failure(record: &Record, reason: &str, attempt: Attempt) -> Event {
    let attributes = vec![
        KeyValue::new(names::ERROR_TYPE, reason.to_owned()),
        KeyValue::new(names::ATTEMPTS, i64::from(attempt.0)),
    ];
    Event::new("neuraxis.attempt_failed", time(record.at), attributes, 0)
}

fn of_role(role: &Role) -> KeyValue {
    KeyValue::new(names::ROLE, role.as_str().to_owned())
}

fn of_model(model: &ModelRef) -> KeyValue {
    KeyValue::new(names::REQUEST_MODEL, model.model.to_string())
}

/// Adds the leading system message, if there is one, and the other messages.
fn of_sent(system: Option<String>, said: String, attributes: &mut Vec<KeyValue>) {
    attributes.push(KeyValue::new(names::INPUT_MESSAGES, said));
    attributes.extend(system.map(|system| KeyValue::new(names::SYSTEM, system)));
}

/// Returns the time that is `took` earlier.
fn before(at: Timestamp, took: std::time::Duration) -> Timestamp {
    let took = SignedDuration::try_from(took).unwrap_or_default();
    at.checked_sub(took).unwrap_or(at)
}

/// Returns a number derived from a text.
fn digest(text: &str) -> u64 {
    let hash = neuraxis_core::ContentHash::of(text.as_bytes()).to_string();
    let digits = hash.get(..16).unwrap_or_default();
    u64::from_str_radix(digits, 16).unwrap_or(1)
}

/// Returns the number as it was written, such as 0.7, instead of its exact `f32` value, 0.699999988….
fn as_written(number: f32) -> f64 {
    let written = number.to_string().parse();
    written.unwrap_or_else(|_| f64::from(number))
}

#[cfg(test)]
mod tests;
