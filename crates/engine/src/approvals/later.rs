//! The approver for programs in which no user waits to be asked.

use neuraxis_core::AskApproval;
use neuraxis_ports::{Approver, ApproverReply, TurnContext, async_trait};

/// Leaves every question open, for use in a web application. The run is parked as waiting, and its questions stay in
/// the store. Answering a question later, from any process, makes the run continue.
///
/// [`Approvals::list`](crate::Approvals::list) and [`of_session`](crate::Approvals::of_session) return the open
/// questions, [`Approvals::decide`](crate::Approvals::decide) answers one, and [`Runs::attach`](crate::Runs::attach)
/// and [`Runs::result`](crate::Runs::result) lead back to the run. A question that is not answered within the policy's
/// `approval_expires` expires at the next call of [`Approvals::sweep`](crate::Approvals::sweep).
///
/// ```
/// use std::sync::Arc;
///
/// use neuraxis_core::{ApprovalDecision, Role, RunStatus};
/// use neuraxis_engine::{DecideLater, Orchestrator, UserRequest};
/// use neuraxis_memory::MemoryStore;
/// use neuraxis_testkit::{ScriptedModel, ScriptedTool, reply, spec};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new()
///     .then(reply::calls([("refund", r#"{"order":17}"#)]))
///     .then(reply::text("Refunded."));
/// let orchestrator = Orchestrator::builder()
///     .model(Role::REASONING, Arc::new(model))
///     .tool(Arc::new(ScriptedTool::echoing(spec("refund"))))
///     .store(Arc::new(MemoryStore::default()))
///     .approver(Arc::new(DecideLater))
///     .build()?;
/// let session = "customer-7".parse()?;
/// let result = orchestrator.handle(UserRequest::new(session, "Refund order 17.")).await?;
/// assert_eq!(result.status, RunStatus::Waiting);
///
/// // Another request of the web application, later.
/// let approvals = orchestrator.approvals();
/// let waiting = approvals.list().await?.remove(0);
/// let request = &waiting.request;
/// let seen = approvals
///     .decide(waiting.run_id, &request.tool_call_id, request.arguments_hash, ApprovalDecision::APPROVE, Some("ada".into()))
///     .await?;
/// // How it continues, word by word …
/// let mut words = orchestrator.runs().attach(waiting.run_id, seen).await?.text_stream();
/// assert_eq!(words.next().await.as_deref(), Some("Refunded."));
/// // … or its result.
/// assert_eq!(orchestrator.runs().result(waiting.run_id).await?.reply, "Refunded.");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy, Default)]
pub struct DecideLater;

#[async_trait]
impl Approver for DecideLater {
    async fn decide(&self, _ask: &AskApproval, _turn: &TurnContext) -> ApproverReply {
        ApproverReply::Later
    }

    fn asks_again_after_restart(&self) -> bool {
        false
    }
}
