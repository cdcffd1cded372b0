//! Everything that the records of a run show, updated record by record.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::conversation::Conversation;
use super::summary::LogSummary;
use crate::decision::Decision;
use crate::finish::{FinishReason, RunOutcome, RunStatus};
use crate::ids::{AgentId, RunId, Seq, SessionId, ToolName};
use crate::metrics::SessionMetrics;
use crate::record::{ApprovalRequested, Pending, Record, RecordBody, RunStarted, ToolCallStarted};
use crate::spec::RunSpec;
use crate::transcript::Transcript;
use crate::usage::RunUsage;

/// What the records of one run show, from the first to the last that was [applied](Self::apply). Accurate after every
/// complete step.
///
/// ```
/// use neuraxis_core::log::RunView;
/// use neuraxis_core::RunStatus;
///
/// # let records: Vec<std::sync::Arc<neuraxis_core::Record>> = Vec::new();
/// let view = RunView::of(&records);
/// assert_eq!(view.status(), RunStatus::Running);
/// assert!(view.open_approvals().next().is_none());
/// ```
#[derive(Debug, Clone, Default)]
pub struct RunView {
    pub(super) summary: LogSummary,
    /// The history that the run continues, as given.
    pub(super) history: Transcript,
    pub(super) trims: Trims,
    /// The first record.
    pub(super) started: Option<Arc<Record>>,
    pub(super) decision: Option<Arc<Decision>>,
    pub(super) agents: BTreeMap<AgentId, AgentView>,
    /// The records of the latest attempts of calls that have no result, in the order in which they began.
    pub(super) attempts: Vec<Arc<Record>>,
    /// The records of unanswered approval requests, in the order in which they were made.
    pub(super) approval_requests: Vec<Arc<Record>>,
    pub(super) outcome: Option<Arc<Record>>,
    /// A question to the user, not asked by a tool, that may end the answer.
    pub(super) question: Option<String>,
    /// The first record of the last step.
    pub(super) step: Seq,
    pub(super) active: Duration,
}

/// Whether messages that a run left out to make room are left out here too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Trims {
    #[default]
    Followed,
    Ignored,
}

/// What the records show about one agent.
#[derive(Debug, Clone)]
pub(super) struct AgentView {
    /// The tool that started the agent and identifies its spec; `None` for the agent that answers the user.
    pub(super) tool: Option<ToolName>,
    pub(super) conversation: Conversation,
    /// The step in which messages from outside joined, and how many: until the next step this may turn out to be wrong.
    pub(super) joined: (Seq, usize),
}

/// An approval request that has no answer yet.
#[derive(Debug, Clone, Copy)]
pub struct OpenApproval<'a> {
    /// The agent that calls.
    pub agent: AgentId,
    /// When it was made.
    pub at: Timestamp,
    /// The call with its arguments, why a user must decide, and until when.
    pub request: &'a ApprovalRequested,
}

/// An attempt of a tool call that began and has no result yet.
#[derive(Debug, Clone, Copy)]
pub struct OpenAttempt<'a> {
    /// Its record, for the agent, the turn and the batch.
    pub record: &'a Record,
    /// The tool, its arguments and the number of the attempt.
    pub call: &'a ToolCallStarted,
}

impl RunView {
    /// Creates a view of a run that continues the given history, before its first record. Only conversations need the
    /// history.
    #[must_use]
    pub fn after(history: Transcript) -> Self {
        Self {
            history,
            ..Self::default()
        }
    }

    /// Creates a view in which the root agent's conversation contains everything, including what was later left out.
    pub(super) fn untrimmed() -> Self {
        Self {
            trims: Trims::Ignored,
            ..Self::default()
        }
    }

    /// Returns the view of all these records of a run; its conversations begin without a history.
    #[must_use]
    pub fn of(records: &[Arc<Record>]) -> Self {
        Self::default().with(records)
    }

    /// Applies more records of the run.
    #[must_use]
    pub fn with(mut self, records: &[Arc<Record>]) -> Self {
        for record in records {
            self.apply(record);
        }
        self
    }

    /// Returns the summary that a store keeps beside the records.
    #[must_use]
    pub const fn summary(&self) -> &LogSummary {
        &self.summary
    }

    /// Returns the first record's content: the loop's version, the session, the spec.
    #[must_use]
    pub fn started(&self) -> Option<&RunStarted> {
        self.started.as_ref()?.run_started()
    }

    /// Returns the run's id; `None` before its first record.
    #[must_use]
    pub fn run_id(&self) -> Option<RunId> {
        self.started.as_ref().map(|record| record.run_id)
    }

    /// Returns the session that the run belongs to, if it belongs to one.
    #[must_use]
    pub fn session(&self) -> Option<&SessionId> {
        self.started()?.session_id.as_ref()
    }

    /// Returns the spec that the run was started with.
    #[must_use]
    pub fn spec(&self) -> Option<&Arc<RunSpec>> {
        self.started().map(|started| &started.spec)
    }

    /// Returns the folder that its tools work in, if they work on files.
    #[must_use]
    pub fn folder(&self) -> Option<&Arc<str>> {
        self.spec()?.folder.as_ref()
    }

    /// Returns what governance decided about the request, if it did.
    #[must_use]
    pub const fn decision(&self) -> Option<&Arc<Decision>> {
        self.decision.as_ref()
    }

    /// Returns the run's status.
    #[must_use]
    pub const fn status(&self) -> RunStatus {
        self.summary.status
    }

    /// Returns why the run ended, if it did.
    #[must_use]
    pub const fn finish(&self) -> Option<&FinishReason> {
        self.summary.finish_reason.as_ref()
    }

    /// Returns the result of the run, if it has ended.
    #[must_use]
    pub fn outcome(&self) -> Option<&RunOutcome> {
        match &self.outcome.as_ref()?.body {
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Returns what the run is waiting for, if it waits.
    #[must_use]
    pub fn pending(&self) -> &[Pending] {
        &self.summary.pending
    }

    /// Returns the calls that began and have no result, each with its latest attempt, in the order in which these
    /// began.
    pub fn open_calls(&self) -> impl Iterator<Item = OpenAttempt<'_>> {
        self.attempts
            .iter()
            .filter_map(|record| match &record.body {
                RecordBody::ToolCall(call) => Some(OpenAttempt { record, call }),
                _ => None,
            })
    }

    /// Returns the unanswered approval requests, in the order in which they were made. A run in progress may have some,
    /// too.
    pub fn open_approvals(&self) -> impl Iterator<Item = OpenApproval<'_>> {
        self.approval_requests
            .iter()
            .filter_map(|record| match &record.body {
                RecordBody::ApprovalRequested(request) => Some(OpenApproval {
                    agent: record.agent,
                    at: record.at,
                    request,
                }),
                _ => None,
            })
    }

    /// Returns the run's usage so far: calls, tokens, money, time.
    #[must_use]
    pub const fn metrics(&self) -> &SessionMetrics {
        self.summary.metrics()
    }

    /// Returns the tokens that the run used so far; after it has ended, the usage of its outcome.
    #[must_use]
    pub fn usage(&self) -> &RunUsage {
        let outcome = self.outcome().map(|outcome| &outcome.usage);
        outcome.unwrap_or(&self.metrics().usage)
    }

    /// Returns the turns that the answering agent began; after it has ended, those that counted.
    #[must_use]
    pub const fn turns(&self) -> u32 {
        self.summary.turns
    }

    /// Returns the text of the root agent's answers so far, separated by blank lines.
    #[must_use]
    pub fn text(&self) -> &str {
        self.conversation(AgentId::ROOT)
            .map_or("", Conversation::text)
    }

    /// Returns the conversation of an agent that has begun, including sub-agents that have ended.
    #[must_use]
    pub fn conversation(&self, agent: AgentId) -> Option<&Conversation> {
        self.agents.get(&agent).map(|agent| &agent.conversation)
    }

    /// Returns the last record's number; 0 before the first.
    #[must_use]
    pub const fn last_seq(&self) -> Seq {
        Seq(self.summary.records)
    }

    /// Returns how long the run had been active when its last step was recorded.
    #[must_use]
    pub const fn active(&self) -> Duration {
        self.active
    }
}
