//! The steps of a run, read from its records.

mod metadata;

use std::sync::{Arc, OnceLock};

use neuraxis_core::log::describe;
use neuraxis_core::{
    AgentId, Attempt, LlmCall, Record, RecordBody, ToolCallId, ToolCallStarted, ToolResult,
};

pub use self::metadata::StepMetadata;
use crate::feed::Feed;
use crate::lazy_list::lazy_list;
use crate::result::{OrchestratorStep, StepType};

/// What a run did, in order: a list of steps.
///
/// The list is computed from the run's records on first access, since many callers only want the answer. It keeps the
/// records in memory for as long as it lives.
#[derive(Clone)]
pub struct Steps {
    feed: Arc<Feed>,
    read: OnceLock<Vec<OrchestratorStep>>,
}

impl Steps {
    /// The steps of a run that no longer continues, from the records in its feed.
    pub(crate) const fn of(feed: Arc<Feed>) -> Self {
        Self {
            feed,
            read: OnceLock::new(),
        }
    }

    fn made(&self) -> Vec<OrchestratorStep> {
        self.feed.with_records(steps)
    }
}

lazy_list!(Steps, OrchestratorStep);

/// Reads the steps of a run from its records: one per model call, one per tool call, and what went wrong.
#[must_use]
pub fn steps(records: &[Arc<Record>]) -> Vec<OrchestratorStep> {
    let mut reader = Reader::default();
    // About half of all records become steps.
    reader.steps.reserve(records.len() / 2);
    for record in records {
        reader.read(record);
    }
    reader.steps
}

#[derive(Default)]
struct Reader {
    steps: Vec<OrchestratorStep>,
    /// The indexes of the steps whose calls have no result yet.
    open: Vec<usize>,
}

impl Reader {
    fn read(&mut self, record: &Arc<Record>) {
        let (kind, description) = match &record.body {
            RecordBody::LlmCall(call) => (StepType::LlmCall, describe_call(call).into()),
            RecordBody::LlmFailed(failed) => (
                StepType::Warning,
                format!("{} failed: {}", failed.served_by, failed.error).into(),
            ),
            RecordBody::ToolCall(started) => {
                if self.is_tried_again(record, started) {
                    return;
                }
                self.open.push(self.steps.len());
                (StepType::ToolCall, started.name.clone())
            }
            RecordBody::ToolFailed(failed) => return self.fail(record, &failed.tool_call_id),
            RecordBody::ToolResult(result) => return self.complete(record, result),
            RecordBody::Final(_) | RecordBody::RunFailed(_) => return self.end_agent(record),
            RecordBody::Plan(_) => (StepType::Plan, "the plan changed".into()),
            RecordBody::Summary(summary) => (StepType::Summary, summary.text.as_str().into()),
            RecordBody::Warning(warning) => (StepType::Warning, warning.message.as_str().into()),
            RecordBody::MaxTurnsReached(reached) => {
                (StepType::Warning, describe::max_turns(reached).into())
            }
            RecordBody::RoleDowngraded(downgraded) => {
                (StepType::Warning, describe::downgraded(downgraded).into())
            }
            RecordBody::Escalated(escalated) => {
                (StepType::Warning, describe::escalated(escalated).into())
            }
            RecordBody::LimitReached(reached) => {
                (StepType::Warning, describe::limit(reached.limit).into())
            }
            _ => return,
        };
        self.add(kind, description, record);
    }

    fn add(&mut self, kind: StepType, description: Arc<str>, record: &Arc<Record>) {
        self.steps.push(OrchestratorStep {
            kind,
            description,
            metadata: StepMetadata::new(Arc::clone(record)),
        });
    }

    /// Notes in the step of a call that an attempt failed and another follows.
    fn fail(&mut self, record: &Arc<Record>, call: &ToolCallId) {
        if let Some(step) = self.open_step(call) {
            step.metadata.fail(Arc::clone(record));
        }
    }

    /// If this is another attempt of a call that already has a step, adds it to that step and returns `true`.
    fn is_tried_again(&mut self, record: &Arc<Record>, started: &ToolCallStarted) -> bool {
        // Most calls are made only once, so skip the lookup.
        if started.attempt == Attempt(1) {
            return false;
        }
        let step = self.open_step(&started.tool_call_id);
        let is_known = step.is_some();
        if let Some(step) = step {
            step.metadata.try_again(Arc::clone(record));
        }
        is_known
    }

    /// Adds the outcome of a sub-agent to the step of the call that started it.
    fn end_agent(&mut self, record: &Arc<Record>) {
        if let Some(step) = self.step_that_started(record.agent) {
            step.metadata.agent_ended(Arc::clone(record));
        }
    }

    fn step_that_started(&mut self, agent: AgentId) -> Option<&mut OrchestratorStep> {
        let steps = &self.steps;
        let is_its = |place: &&usize| {
            let step = steps.get(**place);
            step.is_some_and(|step| step.metadata.started(agent))
        };
        let place = *self.open.iter().find(is_its)?;
        self.steps.get_mut(place)
    }

    fn open_step(&mut self, call: &ToolCallId) -> Option<&mut OrchestratorStep> {
        let steps = &self.steps;
        let is_its = |place: &&usize| {
            let step = steps.get(**place);
            step.is_some_and(|step| step.metadata.is_of(call))
        };
        let place = *self.open.iter().find(is_its)?;
        self.steps.get_mut(place)
    }

    /// Completes the step of a call; a call that was refused before it ran gets its step here.
    fn complete(&mut self, record: &Arc<Record>, result: &ToolResult) {
        if result.metadata.is_some()
            && record.agent != AgentId::ROOT
            && let Some(step) = self.step_that_started(record.agent)
        {
            step.metadata.agent_read(Arc::clone(record));
        }
        let description = match result.failure {
            Some(_) => format!("{} failed", result.name).into(),
            None => result.name.clone(),
        };
        let steps = &mut self.steps;
        let is_its = |place: &usize| {
            let step = steps.get(*place);
            step.is_some_and(|step| step.metadata.is_of(&result.tool_call_id))
        };
        let Some(open) = self.open.iter().position(is_its) else {
            return self.add(StepType::ToolCall, description, record);
        };
        let place = self.open.swap_remove(open);
        if let Some(step) = steps.get_mut(place) {
            step.description = description;
            step.metadata.complete(Arc::clone(record));
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
