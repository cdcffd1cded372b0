//! Takes runs up again: after a crash, or because somebody answered what a run waited for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    AgentId, ApprovalDecided, Attempt, Decision, EffectId, Input, InputError, InputId, Record,
    RecordBody, RestoreError, Resumed, RunId, RunStatus, RunTree, Seq, SessionId, ToolCallId,
    ToolFinished, ToolKind, ToolOutcome, Transcript,
};
use neuraxis_ports::StoreError;

/// What somebody brings a run that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer {
    /// A decision about a call.
    Approval(ApprovalDecided),
    /// The result of a tool that the caller runs.
    ToolResult {
        /// The call.
        call: ToolCallId,
        /// What came of it.
        outcome: ToolOutcome,
        /// How long it took.
        duration: Duration,
    },
}

/// Why a run cannot be taken up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResumeError {
    /// The run has ended.
    #[error("run {0} has ended")]
    Ended(RunId),
    /// No call of the run with this id waits for its client.
    #[error("call {0} is not waiting for a result")]
    NotWaiting(ToolCallId),
    /// The run waits, and no answer was brought.
    #[error("the run waits for answers and none was given")]
    NothingToDo,
    /// The records do not give back the run.
    #[error("the run cannot be read back from its records")]
    Restore(#[from] RestoreError),
    /// The run refuses what it is brought.
    #[error("the run refuses the answer")]
    Refused(#[from] InputError),
    /// The store could not do its part.
    #[error("the run could not be read or reserved")]
    Store(#[from] StoreError),
    /// The orchestrator has no store to read runs from.
    #[error("no session store was given: add one with `store`")]
    NoStore,
    /// The engine is shutting down.
    #[error("the engine is shutting down")]
    ShuttingDown,
}

/// A run read back from its records, and what it is to be told first.
#[derive(Debug)]
pub(crate) struct RestoredRun {
    pub(crate) tree: RunTree,
    pub(crate) records: Vec<Arc<Record>>,
    pub(crate) inputs: VecDeque<Input>,
}

impl RestoredRun {
    /// Reads a run back. Unless answers are all it waits for, it is told that it was taken up again.
    pub(crate) fn read(
        history: Transcript,
        records: Vec<Arc<Record>>,
        taken_up: Resumed,
        answers: Vec<Answer>,
    ) -> Result<Self, ResumeError> {
        let (tree, _) = RunTree::restore(history, &records)?;
        if tree.status().is_ended() {
            return Err(ResumeError::Ended(tree.run_id()));
        }
        let waits = tree.status() == RunStatus::Waiting;
        let resumed = (!waits).then_some(Input::Resumed(taken_up));
        let mut inputs: VecDeque<Input> = resumed.into_iter().collect();
        for answer in answers {
            inputs.push_back(input(&records, answer)?);
        }
        Ok(Self {
            tree,
            records,
            inputs,
        })
    }

    /// How long the run had been active when its last step was recorded.
    pub(crate) fn active(&self) -> Duration {
        let last = self
            .records
            .iter()
            .rev()
            .find_map(|record| record.active_ms);
        Duration::from_millis(last.unwrap_or_default())
    }
}

fn input(records: &[Arc<Record>], answer: Answer) -> Result<Input, ResumeError> {
    match answer {
        Answer::Approval(decided) => Ok(Input::ApprovalDecided(decided)),
        Answer::ToolResult {
            call,
            outcome,
            duration,
        } => {
            let (effect_id, attempt) =
                client_call(records, &call).ok_or(ResumeError::NotWaiting(call))?;
            Ok(Input::ToolFinished(ToolFinished {
                effect_id,
                attempt,
                outcome,
                duration,
            }))
        }
    }
}

/// Returns the effect that waits for a client's result of this call.
fn client_call(records: &[Arc<Record>], call: &ToolCallId) -> Option<(EffectId, Attempt)> {
    records.iter().rev().find_map(|record| match &record.body {
        RecordBody::ToolCall(started)
            if started.tool_call_id == *call && started.kind == ToolKind::Client =>
        {
            Some((started.effect_id, started.attempt))
        }
        _ => None,
    })
}

/// Returns the session that a run belongs to.
pub(crate) fn session_of(records: &[Arc<Record>]) -> Option<SessionId> {
    match &records.first()?.body {
        RecordBody::RunStarted(started) => started.session_id.clone(),
        _ => None,
    }
}

/// Returns what governance decided about a run.
pub(crate) fn decision_of(records: &[Arc<Record>]) -> Option<Decision> {
    records
        .iter()
        .take(2)
        .find_map(|record| match &record.body {
            RecordBody::Decision(decision) => Some((**decision).clone()),
            _ => None,
        })
}

pub(crate) fn has_ended(records: &[Arc<Record>]) -> bool {
    records.last().is_some_and(|record| {
        record.agent == AgentId::ROOT
            && matches!(record.body, RecordBody::Final(_) | RecordBody::RunFailed(_))
    })
}

/// Returns the id of a taking-up: one for each that the log has seen.
pub(crate) fn taken_up(records: &[Arc<Record>], reason: &str) -> Resumed {
    let after = records.last().map_or(Seq(0), |record| record.seq);
    Resumed {
        id: InputId::new(format!("resumed-after-{after}")),
        reason: reason.to_owned(),
    }
}
