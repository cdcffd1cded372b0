//! The outcome of a run for the user: its text, and what is reported if that is not an answer.
//!
//! Only the text goes to standard output; why there is no answer is an error.

use std::sync::Arc;

use neuraxis::core::log::RunView;
use neuraxis::core::{
    FinishReason, LlmCall, LlmError, LlmErrorKind, Record, RecordBody, Reply, has_answered,
    last_reply, root_records,
};
use neuraxis::{OrchestratorResult, RunStatus};

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The text of the answer; may be empty.
    pub(super) text: String,
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
    /// Separates the text of a run from what is reported instead of an answer.
    pub(super) fn of(result: &OrchestratorResult, records: &[Arc<Record>]) -> Self {
        let reply = result.reply.as_str();
        let view = RunView::of(records);
        let content = view.outcome().map_or(reply, |outcome| &outcome.content);
        let answered = |text: &str| Self {
            text: text.to_owned(),
            instead: None,
            served: Served::Yes,
        };
        if result.answer.is_some() || result.status == RunStatus::Waiting {
            return answered(reply);
        }
        if last_reply(records).is_some_and(Reply::is_no_answer) {
            return Self {
                text: String::new(),
                instead: Some(content.trim().to_owned()),
                served: Served::No,
            };
        }
        let at_a_limit = result.finish_reason.as_ref();
        let at_a_limit = at_a_limit.is_some_and(FinishReason::ends_at_a_limit);
        if at_a_limit && !has_answered(records) {
            return Self {
                text: String::new(),
                instead: Some(reply.trim().to_owned()),
                served: Served::Yes,
            };
        }
        match &result.notice {
            None => answered(reply),
            Some(notice) => Self {
                text: content.to_owned(),
                instead: Some(notice.clone()),
                served: Served::Yes,
            },
        }
    }
}

/// Returns the model calls of the answering agent, in order.
pub(in crate::command) fn root_calls(
    records: &[Arc<Record>],
) -> impl DoubleEndedIterator<Item = &LlmCall> {
    root_records(records).filter_map(|record| match &record.body {
        RecordBody::LlmCall(call) => Some(&**call),
        _ => None,
    })
}

/// Returns what to do about a run that failed.
pub(super) fn what_to_do(records: &[Arc<Record>]) -> String {
    let view = RunView::of(records);
    let outcome = view.outcome();
    let failure = outcome.and_then(|outcome| outcome.model_failure(records));
    let failure = failure.map(|failed| &failed.error);
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
            let run = view.run_id().map(|run| run.to_string());
            let run = run.unwrap_or_else(|| "last".to_owned());
            let is_temporary = failure.is_some_and(LlmError::is_retryable);
            let continuation = view.session().filter(|_| is_temporary).map(|session| {
                format!("; the next message in session {session} continues from there")
            });
            let continuation = continuation.unwrap_or_default();
            format!("`neuraxis runs show {run}` shows all its steps{continuation}")
        }
    }
}
