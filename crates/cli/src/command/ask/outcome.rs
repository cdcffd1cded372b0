//! The outcome of a run for the user: what it said, and what is reported if that is not an answer.
//!
//! Only what it said goes to standard output; why there is no answer is an error.

use std::sync::Arc;

use neuraxis::core::log::RunView;
use neuraxis::core::{
    AgentId, FinishReason, LlmCall, LlmError, LlmErrorKind, Record, RecordBody, has_answered,
    last_reply,
};
use neuraxis::offline::OfflineModel;
use neuraxis::{OrchestratorResult, RunStatus};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What the run said; may be empty.
    pub(super) said: String,
    /// What is reported instead of an answer.
    pub(super) instead: Option<String>,
    /// Whether a model was available to answer.
    pub(super) served: Served,
}

/// Whether a model was available to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Served {
    /// A model was available, or a rule matched.
    Yes,
    /// No model was available, and no rule matched.
    No,
}

impl Outcome {
    /// Separates what a run said from what is reported instead of an answer.
    pub(super) fn of(result: &OrchestratorResult, records: &[Arc<Record>]) -> Self {
        let reply = result.reply.as_str();
        let view = RunView::of(records);
        let content = view.outcome().map_or(reply, |outcome| &outcome.content);
        let whole = |said: &str| Self {
            said: said.to_owned(),
            instead: None,
            served: Served::Yes,
        };
        if result.answer.is_some() || result.status == RunStatus::Waiting {
            return whole(reply);
        }
        if is_no_answer(records) {
            return Self {
                said: String::new(),
                instead: Some(content.trim().to_owned()),
                served: Served::No,
            };
        }
        let at_a_limit = result.finish_reason.as_ref();
        let at_a_limit = at_a_limit.is_some_and(FinishReason::ends_at_a_limit);
        if at_a_limit && !has_answered(records) {
            return Self {
                said: String::new(),
                instead: Some(reply.trim().to_owned()),
                served: Served::Yes,
            };
        }
        match reply.strip_prefix(content).map(str::trim) {
            Some("") | None => whole(reply),
            Some(notice) => Self {
                said: content.to_owned(),
                instead: Some(notice.to_owned()),
                served: Served::Yes,
            },
        }
    }
}

/// Returns the model calls of the answering agent, in order.
pub(in crate::command) fn root_calls(
    records: &[Arc<Record>],
) -> impl DoubleEndedIterator<Item = &LlmCall> {
    records.iter().filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) if record.agent == AgentId::ROOT => Some(&**call),
        _ => None,
    })
}

/// Returns whether the agent's last reply says that no rule matched and no model was available.
fn is_no_answer(records: &[Arc<Record>]) -> bool {
    last_reply(records).is_some_and(OfflineModel::is_no_answer)
}

/// Returns what to do about a run that failed.
pub(super) fn what_to_do(records: &[Arc<Record>]) -> String {
    let of_root = records.iter().rev();
    let of_root = of_root.filter(|record| record.agent == AgentId::ROOT);
    let mut failures = of_root.filter_map(|record| match &record.body {
        RecordBody::LlmFailed(failed) => Some(&failed.error),
        _ => None,
    });
    let failure = failures.next();
    match failure.map(|error| &error.kind) {
        Some(
            LlmErrorKind::Connection
            | LlmErrorKind::Unauthorized
            | LlmErrorKind::QuotaExhausted
            | LlmErrorKind::ModelNotFound
            | LlmErrorKind::InvalidResponse
            | LlmErrorKind::BadRequest,
        ) => "`neuraxis doctor` checks the models and says how to fix what it finds".to_owned(),
        Some(LlmErrorKind::NotRecorded) => {
            "record it again with --record, or ask what was recorded".to_owned()
        }
        _ => {
            let view = RunView::of(records);
            let run = view.run_id().map(|run| run.to_string());
            let run = run.unwrap_or_else(|| "last".to_owned());
            let passes = failure.is_some_and(LlmError::is_retryable);
            let goes_on = view.session().filter(|_| passes).map(|session| {
                format!("; the next message in session {session} continues from there")
            });
            let goes_on = goes_on.unwrap_or_default();
            format!("`neuraxis runs show {run}` shows all its steps{goes_on}")
        }
    }
}
