//! Whether a run gave an answer, for callers that want a `Result`.

use neuraxis_core::{FinishReason, RunStatus};
use serde::Serialize;

use super::{OrchestratorResult, PendingCall};
use crate::agent::Execution;

/// Why a run gave no answer. A run that reached a limit, or that ended with a question, has given one.
#[derive(Debug, Clone, PartialEq, Serialize, thiserror::Error)]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum NoAnswer {
    /// It failed: for example, no model answered, or a tool failed and the profile says to stop.
    #[error("{reply}")]
    Failed {
        /// The reason on record.
        finish_reason: FinishReason,
        /// The friendly sentence for the user: what went wrong and what to do.
        reply: String,
    },
    /// It was cancelled, or it could not be continued.
    #[error("{reply}")]
    Interrupted {
        /// The reason on record.
        finish_reason: FinishReason,
        /// The friendly sentence for the user, after any partial answer.
        reply: String,
    },
    /// It waits for users or for its client, and continues once they have answered.
    #[error("the run is waiting for {}: approvals, or results of the client's tools", answers(.pending))]
    Waiting {
        /// What it waits for.
        pending: Vec<PendingCall>,
    },
}

impl OrchestratorResult {
    /// Returns an error for a run without an answer, for use with `?`.
    ///
    /// A run always has a result, and a server shows its user [`reply`](Self::reply) whatever the outcome. A program
    /// that continues with the answer must not mistake an apology for one.
    ///
    /// # Errors
    ///
    /// [`NoAnswer`] if the run failed, was interrupted, or waits.
    pub fn into_result(self) -> Result<Self, NoAnswer> {
        match self.status {
            RunStatus::Done => Ok(self),
            RunStatus::Waiting | RunStatus::Running => Err(NoAnswer::Waiting {
                pending: self.pending,
            }),
            status => Err(unanswered(status, self.finish_reason, self.reply)),
        }
    }
}

impl Execution {
    /// Returns an error for a run without an answer, for use with `?`.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use neuraxis_core::{LlmError, LlmErrorKind, Role};
    /// use neuraxis_engine::Orchestrator;
    /// use neuraxis_testkit::ScriptedModel;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let refused = LlmError::new(LlmErrorKind::Unauthorized, "no such key");
    /// let model = ScriptedModel::new().then(refused);
    /// let agent = Orchestrator::builder().model(Role::REASONING, Arc::new(model)).build_agent()?;
    /// let done = agent.execute("You are brief.", "Hello!").await?;
    /// let error = done.into_result().unwrap_err();
    /// assert!(error.to_string().contains("check the key"), "{error}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`NoAnswer`] if the run failed or was interrupted.
    pub fn into_result(self) -> Result<Self, NoAnswer> {
        match self.status {
            RunStatus::Failed | RunStatus::Interrupted => Err(unanswered(
                self.status,
                Some(self.finish_reason),
                self.content,
            )),
            _ => Ok(self),
        }
    }
}

fn unanswered(status: RunStatus, reason: Option<FinishReason>, reply: String) -> NoAnswer {
    let finish_reason = reason.unwrap_or_else(|| FinishReason::Failed(reply.clone()));
    match status {
        RunStatus::Interrupted => NoAnswer::Interrupted {
            finish_reason,
            reply,
        },
        _ => NoAnswer::Failed {
            finish_reason,
            reply,
        },
    }
}

fn answers(pending: &[PendingCall]) -> String {
    match pending.len() {
        1 => "one answer".to_owned(),
        count => format!("{count} answers"),
    }
}
