//! The port to the user who approves calls.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{ApprovalDecision, AskApproval, Question};

use crate::question::QuestionReply;
use crate::tool::TurnContext;

/// Decides whether a call that needs approval may run.
///
/// **Retries.** None: an answer is final. **Cancel safety.** Dropping the future withdraws the question. **Order.**
/// Several questions of one run may be open at the same time. **Blocking.** The approver is asked in the task of the
/// run and must not block its thread; use `tokio::task::spawn_blocking` for blocking work.
#[async_trait]
pub trait Approver: Debug + Send + Sync + 'static {
    /// Asks about one call and shows exactly the given arguments. The call belongs to the given turn of the agent and
    /// its request, whose owner may be the one to ask.
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply;

    /// Returns whether questions can be answered at all, now or later. If not, every call that is asked about is
    /// denied, and building an orchestrator warns of tools that can never run for this reason.
    fn can_answer(&self) -> bool {
        true
    }

    /// Returns whether the next process to start should ask again about a call that waits. An approver that never
    /// answers by itself does not need to be asked twice, and its runs keep waiting undisturbed.
    fn asks_again_after_restart(&self) -> bool {
        true
    }

    /// Answers a question that a tool asks during a call, such as one from an MCP server. Declines by default. Until
    /// the answer comes, the time limits of the call and of its run are paused, and the call does not count toward the
    /// limit on parallel tools.
    async fn answer(&self, _question: &Question) -> QuestionReply {
        QuestionReply::Declined
    }
}

/// The outcome of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApproverReply {
    /// The call was decided.
    Decided {
        /// Whether the call may run, and with which arguments.
        decision: ApprovalDecision,
        /// Who decided, if known.
        by: Option<String>,
    },
    /// The question cannot be answered, now or later: the call is denied.
    Nobody,
    /// The answer will come in another way; until then the run waits. A run that is not stored cannot wait: for it this
    /// is the same as [`Nobody`](Self::Nobody).
    Later,
}
