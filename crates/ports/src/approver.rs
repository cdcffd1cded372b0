//! The port to the person who approves calls.

use std::fmt::Debug;

use async_trait::async_trait;
use neuraxis_core::{ApprovalDecision, AskApproval, Question};

use crate::question::QuestionReply;
use crate::tool::TurnContext;

/// Somebody who can be asked whether a call may run.
///
/// **Who repeats.** Nobody: an answer is final. **Cancel safety.** Dropping the future withdraws the question.
/// **Order.** Several questions of one run may be open at the same time. **Blocking.** It is asked in the task of the run and
/// must not block its thread: what blocks belongs into `tokio::task::spawn_blocking`.
#[async_trait]
pub trait Approver: Debug + Send + Sync + 'static {
    /// Asks about one call, showing exactly the arguments given. It is of this turn of the agent and of this request, whose
    /// owner may be the one to ask.
    async fn decide(&self, ask: &AskApproval, turn: &TurnContext) -> ApproverReply;

    /// Tells whether there is anybody to answer, now or later. Where there is not, every call that is asked about is denied,
    /// and building an orchestrator warns of tools that therefore never run.
    fn can_answer(&self) -> bool {
        true
    }

    /// Tells whether it wants to be asked anew, by the process that starts next, about a call that waits. One that never answers
    /// by itself need not hear of it twice, and its runs wait undisturbed.
    fn is_asked_anew(&self) -> bool {
        true
    }

    /// Answers a question that a tool asks in the middle of a call, such as one of an MCP server. Declines, unless somebody
    /// says otherwise. Until it has answered, neither the time of the call nor that of its run passes, and other tools have the
    /// place of the call.
    async fn answer(&self, _question: &Question) -> QuestionReply {
        QuestionReply::Declined
    }
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApproverReply {
    /// Somebody decided.
    Decided {
        /// Whether the call may run, and with which arguments.
        decision: ApprovalDecision,
        /// Who, where known.
        by: Option<String>,
    },
    /// Nobody can answer, now or later: the call is denied.
    Nobody,
    /// The answer will come another way; until then the run waits. One that is kept nowhere cannot: there it is [`Nobody`](Self::Nobody).
    Later,
}
