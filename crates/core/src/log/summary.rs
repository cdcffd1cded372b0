//! A short summary of a run's log.
//!
//! Small plain data: a store folds each record into the summary of its run and keeps the summary beside the records.
//! Lists, budgets and the session's next run then do not have to read the records. Conversations are not included; see
//! [`RunView`](super::RunView).

use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::clip::clip;
use crate::decision::Taint;
use crate::effect::Purpose;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::ids::{AgentId, ToolCallId};
use crate::input::{ApprovalDecision, NextAttempt};
use crate::json::{JsonText, is_default};
use crate::metrics::{RunMeter, SessionMetrics};
use crate::record::{Pending, PendingKind, Record, RecordBody, is_withheld};
use crate::tool::ToolKind;

use super::tally::Tally;

/// Maximum number of characters of a user's message in a summary.
const MAX_TEXT_CHARS: usize = 120;

/// A short summary of the records of one run. [Apply](Self::apply) records in order, from the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct LogSummary {
    /// The number of records.
    pub records: u64,
    /// The run's status.
    pub status: RunStatus,
    /// Why it ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finish_reason: Option<FinishReason>,
    /// What it is waiting for, if it waits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Pending>,
    /// The time of its first record.
    pub started_at: Option<Timestamp>,
    /// The latest time of any record, not necessarily the last one, because the clocks of different machines may
    /// differ.
    pub last_at: Option<Timestamp>,
    /// When it ended, if it did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The turns of the answering agent: those it began; after it has ended, those that counted.
    pub turns: u32,
    /// The beginning of the user's message, at most 120 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The plan, if the run changed the session's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plan: Option<JsonText>,
    /// The untrusted content that it began with or that its results introduced, as a later run of the session sees it.
    pub taint: Taint,
    /// Its usage so far.
    pub meter: RunMeter,
    /// What it did by model, role, tool and agent.
    #[serde(skip_serializing_if = "Tally::is_empty")]
    pub tally: Tally,
    /// Whether the run waits if anything is pending when a step ends.
    #[serde(skip_serializing_if = "is_default")]
    waits: bool,
    /// For each agent with such calls, the number of calls of its last reply that have no result yet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    open_calls: Vec<(AgentId, u32)>,
    /// The last call that began in the step, and what the run waited for until then, if it waited.
    #[serde(skip_serializing_if = "Option::is_none")]
    before_call: Option<(ToolCallId, Vec<Pending>)>,
}

impl Default for LogSummary {
    fn default() -> Self {
        Self {
            records: 0,
            status: RunStatus::Running,
            finish_reason: None,
            pending: Vec::new(),
            started_at: None,
            last_at: None,
            ended_at: None,
            turns: 0,
            text: None,
            plan: None,
            taint: Taint::default(),
            meter: RunMeter::default(),
            tally: Tally::default(),
            waits: false,
            open_calls: Vec::new(),
            before_call: None,
        }
    }
}

impl LogSummary {
    /// Returns the summary of a run, from all of its records in order.
    #[must_use]
    pub fn of(records: &[Arc<Record>]) -> Self {
        let mut summary = Self::default();
        records.iter().for_each(|record| summary.apply(record));
        summary
    }

    /// Returns the run's usage: calls, tokens, money, time.
    #[must_use]
    pub const fn metrics(&self) -> &SessionMetrics {
        self.meter.used()
    }

    /// Returns the beginning of the user's message, if there is text in it that a data policy let into the log.
    #[must_use]
    pub fn readable_text(&self) -> Option<&str> {
        let text = self.text.as_deref()?;
        (!text.trim().is_empty() && !is_withheld(text)).then_some(text)
    }

    /// Returns whether the user's message is longer than the beginning of it that is kept here.
    #[must_use]
    pub fn is_text_clipped(&self) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        text.chars().count() > MAX_TEXT_CHARS
    }

    /// Applies the run's next record.
    pub fn apply(&mut self, record: &Record) {
        self.records = record.seq.0;
        self.started_at.get_or_insert(record.at);
        self.last_at = self.last_at.max(Some(record.at));
        self.meter.read(record);
        self.tally.read(record);
        self.taint.read(record);
        if record.agent == AgentId::ROOT {
            self.turns = self.turns.max(record.turn.0);
        }
        let is_next_step = record.active_ms.is_some();
        if is_next_step {
            self.before_call = None;
            self.waits &= !self.pending.is_empty();
        }
        match &record.body {
            RecordBody::RunStarted(started) => {
                self.text = started.spec.user_text().as_deref().map(beginning);
            }
            RecordBody::Plan(changed) => self.plan = Some(changed.plan.clone()),
            RecordBody::Waiting(waiting) => {
                self.waits = true;
                self.pending.clone_from(&waiting.pending);
            }
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => {
                self.end(record, outcome);
            }
            _ => self.follow(record),
        }
        if self.ended_at.is_none() {
            self.status = match self.waits && !self.pending.is_empty() {
                true => RunStatus::Waiting,
                false => RunStatus::Running,
            };
        }
    }

    fn end(&mut self, record: &Record, outcome: &RunOutcome) {
        self.open_calls.retain(|(agent, _)| *agent != record.agent);
        if record.ends_the_run() {
            self.end_wait();
            self.status = outcome.status();
            self.ended_at = Some(record.at);
            self.turns = outcome.turns;
            self.finish_reason = Some(outcome.finish_reason.clone());
        }
    }

    /// Tracks what is open. A run that waits records this once, not again for further requests while it waits. It is in
    /// progress again when it does anything else, which is not always a record of its own: for example when a call is
    /// checked, or the last call of a batch has its result.
    fn follow(&mut self, record: &Record) {
        match &record.body {
            RecordBody::LlmCall(call) => {
                let calls = match call.purpose {
                    Purpose::Turn => call.reply.calls().count(),
                    Purpose::Gather => 1,
                    _ => 0,
                };
                self.open(record.agent, u32::try_from(calls).unwrap_or(u32::MAX));
                self.end_wait();
            }
            RecordBody::LlmFailed(failed) => {
                let gathers = failed.purpose == Purpose::Gather && failed.next == NextAttempt::None;
                self.open(record.agent, u32::from(gathers));
                self.end_wait();
            }
            RecordBody::Verdict(_) | RecordBody::Advised(_) | RecordBody::Resumed(_) => {
                self.end_wait();
            }
            RecordBody::ApprovalRequested(asked) => self.wait_for(Pending {
                effect_id: asked.effect_id,
                tool_call_id: asked.tool_call_id.clone(),
                kind: PendingKind::Approval,
                expires_at: asked.expires_at,
            }),
            RecordBody::ApprovalDecided(decided) => {
                self.answered(&decided.tool_call_id);
                if let ApprovalDecision::Approve { .. } = decided.decision {
                    self.end_wait();
                }
            }
            RecordBody::ToolCall(call) if call.kind == ToolKind::Client => {
                self.wait_for(Pending {
                    effect_id: call.effect_id,
                    tool_call_id: call.tool_call_id.clone(),
                    kind: PendingKind::ClientTool,
                    expires_at: None,
                });
            }
            RecordBody::ToolCall(call) => {
                let waited_for = std::mem::take(&mut self.pending);
                self.before_call =
                    (!waited_for.is_empty()).then(|| (call.tool_call_id.clone(), waited_for));
                self.end_wait();
            }
            RecordBody::ToolResult(result) => {
                // An agent with nothing to do gets its result in the step that begins its call: nothing was at work.
                let before = &mut self.before_call;
                let before = before.take_if(|(call, _)| *call == result.tool_call_id);
                if let Some((_, waited_for)) = before {
                    self.waits = true;
                    self.pending = waited_for;
                }
                self.answered(&result.tool_call_id);
                if self.is_batch_over(record.agent) {
                    self.end_wait();
                }
            }
            _ => {}
        }
    }

    fn open(&mut self, agent: AgentId, calls: u32) {
        if calls > 0 {
            self.open_calls.push((agent, calls));
        }
    }

    /// Counts a result of an agent's call; returns `true` if it was the last of the batch.
    fn is_batch_over(&mut self, agent: AgentId) -> bool {
        let mut open = self.open_calls.iter_mut();
        let Some((_, calls)) = open.find(|(of, _)| *of == agent) else {
            return true;
        };
        *calls = calls.saturating_sub(1);
        let is_over = *calls == 0;
        self.open_calls.retain(|(_, calls)| *calls > 0);
        is_over
    }

    fn wait_for(&mut self, pending: Pending) {
        if self.waits {
            self.pending.push(pending);
        }
    }

    fn answered(&mut self, call: &ToolCallId) {
        self.pending.retain(|pending| pending.tool_call_id != *call);
    }

    fn end_wait(&mut self) {
        self.waits = false;
        self.pending.clear();
    }
}

fn beginning(text: &str) -> String {
    // Text columns of some databases cannot hold NUL.
    clip(text, MAX_TEXT_CHARS).replace('\0', "\u{FFFD}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lagging_clock_does_not_move_the_last_time_of_a_run_backward() {
        let log = include_str!("../../tests/golden/parallel_agents.jsonl");
        let records = log.lines().map(|line| Record::from_json(line).unwrap());
        let mut records: Vec<Record> = records.collect();
        let mut summary = LogSummary::default();
        records.iter().for_each(|record| summary.apply(record));
        let latest = summary.last_at;
        let mut late = records.pop().unwrap();
        late.at = Timestamp::UNIX_EPOCH;
        summary.apply(&late);
        assert_eq!(summary.last_at, latest);
        assert!(latest > Some(Timestamp::UNIX_EPOCH));
    }
}
