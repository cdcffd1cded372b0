//! The spans of one run, built from its records: real times, and ids that derive from those of the run, its agents and
//! its effects.
//!
//! A span is created when it ends. What is open when a process dies is also open in the records, and ends in the
//! process that resumes the run.

mod attributes;
mod calls;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::log::RunView;
use neuraxis_core::{
    AgentId, AgentSpec, EffectId, Record, RecordBody, Role, RunId, RunOutcome, RunSpec, RunStarted,
    RunStatus, ToolCallId, TraceContext, Transcript,
};
use opentelemetry::trace::{
    Event, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue, StringValue};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

pub(crate) use self::attributes::provider;
pub use self::attributes::word;
use self::attributes::{finish_reasons, identity};
use self::calls::{OpenModelCall, OpenQuestion, OpenTool};
use crate::content;
use crate::endpoints::Endpoints;
use crate::names;

/// The maximum number of events in a span; later events are only in the records.
const MAX_EVENTS: usize = 128;

/// Distinguishes the ids of commits from those of agents and effects.
const COMMIT: u64 = 1 << 63;

/// The state of one run: what is known about it, and its open spans.
#[derive(Debug)]
pub(crate) struct RunSpans {
    scope: InstrumentationScope,
    run: RunId,
    /// The run's id and its session's id as used in all its spans, built once.
    run_name: StringValue,
    conversation: Option<StringValue>,
    trace: TraceContext,
    spec: Option<Arc<RunSpec>>,
    agents: HashMap<AgentId, OpenAgent>,
    models: HashMap<EffectId, OpenModelCall>,
    tools: HashMap<ToolCallId, OpenTool>,
    questions: HashMap<ToolCallId, OpenQuestion>,
    /// The conversation, if content is exported.
    view: Option<RunView>,
    endpoints: Arc<Endpoints>,
}

/// An agent that has not ended.
#[derive(Debug)]
struct OpenAgent {
    name: String,
    role: Option<Role>,
    /// The tool that started it.
    tool: Option<String>,
    began: Timestamp,
    parent: u64,
    /// Its first input, if content is exported.
    input: Option<String>,
    events: Vec<Event>,
}

impl RunSpans {
    /// Creates the state of a run of which only the id and the preceding history are known; `history` is given if
    /// content is exported.
    pub(crate) fn new(
        scope: InstrumentationScope,
        run: RunId,
        history: Option<Transcript>,
        endpoints: Arc<Endpoints>,
    ) -> Self {
        Self {
            scope,
            run,
            run_name: shared(&run.to_string()),
            conversation: None,
            trace: TraceContext::of_run(run),
            spec: None,
            agents: HashMap::new(),
            models: HashMap::new(),
            tools: HashMap::new(),
            questions: HashMap::new(),
            view: history.map(RunView::after),
            endpoints,
        }
    }

    /// Applies a record, and returns the spans that end with it.
    pub(crate) fn record(&mut self, record: &Arc<Record>) -> Vec<SpanData> {
        let sent = self.view.as_ref().and_then(|view| view.sent_with(record));
        if let Some(view) = &mut self.view {
            view.apply(record);
        }
        match &record.body {
            RecordBody::RunStarted(started) => {
                self.started(record, started);
                Vec::new()
            }
            RecordBody::LlmCall(call) => vec![self.model_replied(record, call, sent.as_deref())],
            RecordBody::LlmFailed(failed) => {
                let ended = self.model_failed(record, failed, sent);
                ended.into_iter().collect()
            }
            RecordBody::ToolCall(started) => {
                self.tool_started(record, started);
                Vec::new()
            }
            RecordBody::ToolFailed(failed) => {
                self.tool_retried(record, failed);
                Vec::new()
            }
            RecordBody::ToolResult(result) => {
                let question = self.question_ended(record, &result.tool_call_id, None);
                let tool = self.tool_ended(record, result);
                question.into_iter().chain([tool]).collect()
            }
            RecordBody::ApprovalRequested(requested) => {
                self.approval_requested(record, requested);
                Vec::new()
            }
            RecordBody::ApprovalDecided(decided) => {
                self.approval_decided(record, decided).into_iter().collect()
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                let mut ended = self.calls_left(record);
                ended.extend(self.agent_ended(record, outcome));
                ended
            }
            _ => {
                self.record_event(record);
                Vec::new()
            }
        }
    }

    /// Returns the span of a commit that has just ended.
    pub(crate) fn committed(
        &mut self,
        records: &[Arc<Record>],
        took: Duration,
    ) -> Option<SpanData> {
        let (first, last) = (records.first()?, records.last()?);
        if let RecordBody::RunStarted(started) = &first.body {
            // The commit is reported before the record is.
            self.trace_of(started);
        }
        let count = i64::try_from(records.len()).unwrap_or(i64::MAX);
        let mut attributes = identity(&self.run_name, AgentId::ROOT, None);
        attributes.push(KeyValue::new(names::DB_OPERATION, "commit"));
        attributes.push(KeyValue::new(names::RECORDS, count));
        let id = AgentId::ROOT.span_id(self.run) ^ (COMMIT | first.seq.0);
        let began = time(last.at);
        let mut span = self.span(
            id,
            AgentId::ROOT.span_id(self.run),
            "store commit".to_owned(),
            (began, began + took),
        );
        span.span_kind = SpanKind::Client;
        span.attributes = attributes;
        Some(span)
    }

    fn trace_of(&mut self, started: &RunStarted) {
        if let Some(trace) = &started.spec.trace {
            self.trace.clone_from(trace);
        }
    }

    fn started(&mut self, record: &Record, started: &RunStarted) {
        self.trace_of(started);
        let root = &started.spec.root;
        let own = AgentId::ROOT.span_id(self.run);
        let agent = OpenAgent {
            name: root.profile.name.clone(),
            role: Some(root.role.clone()),
            tool: None,
            began: record.at,
            // If no caller supplied a trace, the trace context names this span itself.
            parent: if self.trace.span_id == own {
                0
            } else {
                self.trace.span_id
            },
            input: None,
            events: Vec::new(),
        };
        self.agents.insert(AgentId::ROOT, agent);
        let session = started.spec.session_id.as_ref();
        self.conversation = session.map(|session| shared(session.as_str()));
        self.spec = Some(Arc::clone(&started.spec));
    }

    /// Returns the name of an agent and when it began; `None` if it is not known.
    pub(crate) fn agent(&self, id: AgentId) -> Option<(&str, Timestamp)> {
        let agent = self.agents.get(&id)?;
        Some((&agent.name, agent.began))
    }

    /// Returns the specification of an agent.
    fn spec_of(&self, agent: AgentId) -> Option<&AgentSpec> {
        let spec = self.spec.as_deref()?;
        match &self.agents.get(&agent)?.tool {
            None => Some(&spec.root),
            Some(tool) => {
                let mut agents = spec.agents.iter();
                agents.find_map(|(name, spec)| (name.as_str() == tool).then_some(spec))
            }
        }
    }

    fn agent_ended(&mut self, record: &Record, outcome: &RunOutcome) -> Option<SpanData> {
        let agent = self.agents.remove(&record.agent)?;
        let mut attributes = identity(&self.run_name, record.agent, self.conversation.as_ref());
        attributes.push(KeyValue::new(names::OPERATION, "invoke_agent"));
        attributes.push(KeyValue::new(names::AGENT_NAME, agent.name.clone()));
        attributes.push(KeyValue::new(names::TURNS, i64::from(outcome.turns)));
        let reason = word(&outcome.finish_reason);
        attributes.push(KeyValue::new(names::FINISH, reason.clone()));
        let finish = content::finish_of_agent(&outcome.finish_reason);
        attributes.push(finish_reasons(finish));
        if let Some(role) = &agent.role {
            attributes.push(KeyValue::new(names::ROLE, role.as_str().to_owned()));
            let requested = self.endpoints.requested_model(role, None, None);
            let requested =
                requested.map(|it| KeyValue::new(names::REQUEST_MODEL, it.model.to_string()));
            attributes.extend(requested);
        }
        if self.view.is_some() {
            let spec = self
                .spec
                .as_deref()
                .filter(|_| record.agent == AgentId::ROOT);
            let input = match spec {
                Some(spec) => Some(content::input(&spec.messages).1),
                None => agent.input,
            };
            attributes.extend(input.map(|input| KeyValue::new(names::INPUT_MESSAGES, input)));
            let answer = content::answer(&outcome.content, &outcome.finish_reason);
            attributes.push(KeyValue::new(names::OUTPUT_MESSAGES, answer));
        }
        let own = record.agent.span_id(self.run);
        let name = format!("invoke_agent {}", agent.name);
        let times = (time(agent.began), time(record.at));
        let mut span = self.span(own, agent.parent, name, times);
        span.parent_span_is_remote = record.agent == AgentId::ROOT && agent.parent != 0;
        if outcome.status() != RunStatus::Done {
            attributes.push(KeyValue::new(names::ERROR_TYPE, reason.clone()));
            span.status = Status::error(reason);
        }
        span.attributes = attributes;
        span.events = events(agent.events);
        Some(span)
    }

    /// Adds a record as an event to the span of its agent.
    fn record_event(&mut self, record: &Record) {
        let kind = record.body.kind();
        let reason = match &record.body {
            RecordBody::ContextTrimmed(_)
            | RecordBody::Resumed(_)
            | RecordBody::Waiting(_)
            | RecordBody::Steered(_)
            | RecordBody::Cancelled(_)
            | RecordBody::HistoryRepaired(_)
            | RecordBody::MaxTurnsReached(_) => None,
            RecordBody::Warning(warning) => Some(warning.code.clone()),
            RecordBody::LimitReached(reached) => Some(word(&reached.limit)),
            RecordBody::RoleDowngraded(downgraded) => Some(downgraded.to.as_str().to_owned()),
            RecordBody::Escalated(escalated) => {
                let to = escalated.role.as_ref().map_or("person", Role::as_str);
                Some(to.to_owned())
            }
            _ => return,
        };
        let reason = reason.map(|reason| KeyValue::new(names::REASON, reason));
        let event = Event::new(
            format!("neuraxis.{kind}"),
            time(record.at),
            reason.into_iter().collect(),
            0,
        );
        if let Some(agent) = self.agents.get_mut(&record.agent)
            && agent.events.len() < MAX_EVENTS
        {
            agent.events.push(event);
        }
    }

    fn span(
        &self,
        id: u64,
        parent: u64,
        name: String,
        (start_time, end_time): (SystemTime, SystemTime),
    ) -> SpanData {
        SpanData {
            span_context: context(&self.trace.at(id)),
            parent_span_id: SpanId::from(parent),
            parent_span_is_remote: false,
            span_kind: SpanKind::Internal,
            name: name.into(),
            start_time,
            // The clock may be set back between two records.
            end_time: end_time.max(start_time),
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// Converts a trace context to the SDK's type.
pub(crate) fn context(trace: &TraceContext) -> SpanContext {
    let flags = if trace.sampled {
        TraceFlags::SAMPLED
    } else {
        TraceFlags::NOT_SAMPLED
    };
    let state = trace.state.as_deref();
    let state: Option<TraceState> = state.and_then(|state| state.parse().ok());
    SpanContext::new(
        TraceId::from(trace.trace_id),
        SpanId::from(trace.span_id),
        flags,
        false,
        state.unwrap_or_default(),
    )
}

/// Creates a string that all spans containing it share.
fn shared(text: &str) -> StringValue {
    StringValue::from(Arc::<str>::from(text))
}

fn events(all: Vec<Event>) -> SpanEvents {
    let mut events = SpanEvents::default();
    events.events = all;
    events
}

/// Converts a time to the SDK's type; times before 1970 become 1970.
fn time(at: Timestamp) -> SystemTime {
    let nanoseconds = u64::try_from(at.as_nanosecond()).unwrap_or_default();
    UNIX_EPOCH + Duration::from_nanos(nanoseconds)
}
