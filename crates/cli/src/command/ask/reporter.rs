//! Tells on standard error what a run is doing: which model, which tool, how long; and what the user should know.

use std::collections::HashMap;

use neuraxis::Event;
use neuraxis::core::log::{checklist, describe};
use neuraxis::core::{
    ApprovalDecided, ApprovalDecision, LimitKind, LimitReachedRecord, LiveBody, LlmCall,
    LlmErrorKind, LlmFailed, NextAttempt, ProgressSteps, Record, RecordBody, ToolCallId,
    ToolFailure, ToolResult,
};

use super::tail::Tail;
use crate::progress::Progress;
use crate::quantities::brief;

const THINKING: &str = "waiting for the model";
const LOADING: &str = "the model server is still loading the model";

/// Follows a run and tells about it.
#[derive(Debug)]
pub(super) struct Reporter {
    pub(super) progress: Progress,
    /// The tools that run.
    running: HashMap<ToolCallId, String>,
    /// Why a person had to approve a call, and what came of that.
    asked: HashMap<ToolCallId, String>,
    /// Why a model failed last: nobody needs to read the same again and again.
    failure: Option<String>,
    /// It was told that the time is up.
    is_time_up: bool,
    /// What the model thinks, as far as it shows.
    thought: Tail,
    /// What the tools that run print.
    printed: HashMap<ToolCallId, Tail>,
}

impl Reporter {
    pub(super) fn new() -> Self {
        Self {
            progress: Progress::new(),
            running: HashMap::new(),
            asked: HashMap::new(),
            failure: None,
            is_time_up: false,
            thought: Tail::default(),
            printed: HashMap::new(),
        }
    }

    /// Takes an event of the run.
    pub(super) fn hear(&mut self, event: &Event) {
        match event {
            Event::Record(record) => self.record(record),
            Event::Live(live) => self.live(&live.body),
        }
    }

    fn live(&mut self, body: &LiveBody) {
        match body {
            LiveBody::ToolStart { tool_call_id, name } => {
                self.running.insert(tool_call_id.clone(), name.to_string());
                self.progress.activity(&format!("running {name}"));
            }
            LiveBody::ToolProgress {
                tool_call_id,
                name,
                steps,
                ..
            } => {
                let tool = self.running.get(tool_call_id).map_or("", String::as_str);
                let steps = steps.map(counted).unwrap_or_default();
                self.progress
                    .activity(&format!("running {tool}: {name}{steps}"));
            }
            LiveBody::ToolOutput { tool_call_id, text } => {
                let tool = self.running.get(tool_call_id).map_or("", String::as_str);
                let printed = self.printed.entry(tool_call_id.clone()).or_default();
                printed.push(text);
                let line = printed.line();
                self.progress.activity(&format!("running {tool}: {line}"));
            }
            LiveBody::ReasoningDelta { text } => {
                self.thought.push(text);
                let line = self.thought.line();
                self.progress.activity(&format!("thinking: {line}"));
            }
            _ => {}
        }
    }

    fn record(&mut self, record: &Record) {
        match &record.body {
            RecordBody::RunStarted(_) => self.progress.activity(THINKING),
            RecordBody::LlmCall(call) => {
                self.thought = Tail::default();
                self.progress.done(&asked_model(call));
            }
            RecordBody::LlmFailed(failed) => self.model_failed(failed),
            RecordBody::ApprovalRequested(asked) => {
                let reason = asked.reason.clone();
                self.asked.insert(asked.tool_call_id.clone(), reason);
            }
            RecordBody::ApprovalDecided(decided) => self.decided(decided),
            RecordBody::ToolResult(result) => {
                self.tool_ended(result);
                self.progress.activity(THINKING);
            }
            RecordBody::Plan(changed) => {
                let list = checklist(&changed.plan).unwrap_or_default();
                for step in list.lines() {
                    self.progress.done(step);
                }
            }
            RecordBody::Warning(warning) => self.progress.warn(&warning.message),
            RecordBody::RoleDowngraded(downgraded) => {
                let what = describe::downgraded(downgraded);
                let reason = &downgraded.reason;
                self.progress.warn(&format!("{what}: {reason}"));
            }
            RecordBody::Escalated(escalated) => {
                self.progress.warn(&describe::escalated(escalated));
            }
            RecordBody::ContextTrimmed(trimmed) => {
                let messages = describe::trimmed(trimmed);
                self.progress
                    .warn(&format!("left out {messages}, so that the rest fits"));
            }
            RecordBody::MaxTurnsReached(reached) => {
                let limit = describe::max_turns(reached);
                self.progress.warn(&format!("{limit}: one last answer"));
            }
            RecordBody::LimitReached(reached) => self.limit_reached(reached),
            _ => {}
        }
    }

    /// The time is up twice where the last answer takes too long, which is told once.
    fn limit_reached(&mut self, reached: &LimitReachedRecord) {
        let last = match reached.prompt {
            Some(_) => ": one last answer",
            None => "",
        };
        if reached.limit == LimitKind::Deadline && self.is_time_up {
            return;
        }
        self.is_time_up |= reached.limit == LimitKind::DeadlineReserve;
        let limit = describe::limit(reached.limit);
        self.progress.warn(&format!("{limit}{last}"));
    }

    fn decided(&mut self, decided: &ApprovalDecided) {
        let Some(why) = self.asked.get_mut(&decided.tool_call_id) else {
            return;
        };
        match &decided.decision {
            ApprovalDecision::Approve { .. } => {
                self.asked.remove(&decided.tool_call_id);
            }
            ApprovalDecision::Deny { reason } => {
                why.push_str(" Denied");
                let reason = reason.iter().flat_map(|reason| [": ", reason]);
                why.extend(reason);
            }
            ApprovalDecision::Expired => why.push_str(" Nobody decided in time"),
        }
    }

    fn model_failed(&mut self, failed: &LlmFailed) {
        if failed.error.kind == LlmErrorKind::Cancelled {
            return;
        }
        let is_waited_for =
            failed.error.kind == LlmErrorKind::Loading && failed.next == NextAttempt::Follows;
        let next = match failed.next {
            NextAttempt::Follows if is_waited_for => "; waiting for it",
            NextAttempt::Follows => "; trying again",
            NextAttempt::None => "",
        };
        // What follows the first line, such as a comparison, is shown when the run ends.
        let error = failed.error.to_string();
        let error = error.lines().next().unwrap_or_default();
        let what = if self.has_reported(error) {
            "the same failure again"
        } else {
            error
        };
        let served_by = &failed.served_by;
        self.progress.warn(&format!("{served_by}: {what}{next}"));
        self.failure = Some(error.to_owned());
        if is_waited_for {
            // What is shown counts the time from now on.
            self.progress.hide();
            self.progress.activity(LOADING);
        }
    }

    /// Tells whether a failure was the last to be reported.
    pub(super) fn has_reported(&self, error: &str) -> bool {
        self.failure
            .as_deref()
            .is_some_and(|reported| error.ends_with(reported))
    }

    fn tool_ended(&mut self, result: &ToolResult) {
        self.running.remove(&result.tool_call_id);
        self.printed.remove(&result.tool_call_id);
        let name = &result.name;
        let took = result
            .duration
            .map(|duration| format!(" · {}", brief(duration)));
        let took = took.unwrap_or_default();
        let Some(failure) = result.failure else {
            self.progress.done(&format!("{name}{took}"));
            return;
        };
        let error = result.value.error_message();
        let error = error.unwrap_or_else(|| result.value.to_string());
        if matches!(failure, ToolFailure::Denied | ToolFailure::ApprovalExpired) {
            let why = self.asked.remove(&result.tool_call_id);
            let why = why.unwrap_or(error);
            self.progress.warn(&format!("{name} was not run: {why}"));
        } else {
            self.progress
                .done(&format!("{name}{took} · failed: {error}"));
        }
    }
}

fn asked_model(call: &LlmCall) -> String {
    let LlmCall {
        served_by,
        reply,
        duration,
        ..
    } = call;
    let asked_for = describe::asks_for(reply.calls().count());
    let asked_for = asked_for.map_or_else(String::new, |asks| format!(" · {asks}"));
    format!(
        "{served_by} ({}) · {}{asked_for}",
        reply.model,
        brief(*duration)
    )
}

fn counted(steps: ProgressSteps) -> String {
    match steps.total {
        Some(total) => format!(" ({} of {total})", steps.done),
        None => format!(" ({})", steps.done),
    }
}
