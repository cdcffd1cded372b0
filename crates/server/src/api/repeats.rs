//! Requests that are sent again because their answer was lost: a message for a run, a decision, and a result of a
//! client's tool. What they say may already be on record, and the run may have ended since.

use std::sync::Arc;

use neuraxis::IdempotencyKey;
use neuraxis::core::{
    ApprovalDecision, ApprovalRequested, ContentHash, InboxInput, InputId, Message, Record,
    RecordBody, RunId, Steered, ToolCallId, ToolKind, ToolOutcome,
};
use neuraxis::engine::{ResumeError, Runs};
use neuraxis::ports::StoreError;

use crate::problem::{IDEMPOTENCY_KEY_REUSED, Problem};

/// Adds a message to a run once, however often it is sent with the same key: the id of the input derives from the key,
/// and a store knows the inputs of a run even after its end.
pub(super) async fn steer_once(
    runs: &Runs,
    run: RunId,
    key: &IdempotencyKey,
    message: String,
    by: Option<String>,
) -> Result<InputId, Problem> {
    let id = InputId::new(format!("key-{}", ContentHash::of(key.as_str().as_bytes())));
    let steered = Steered::new(id.clone(), Arc::new(Message::user(message))).by(by);
    match runs.post(run, InboxInput::Steered(steered)).await {
        Err(ResumeError::Store(StoreError::InputReused { .. })) => {
            let detail = "this Idempotency-Key was used for another message to this run, or by another caller; resend \
                          the original request, or use a new key for a new message";
            let problem = Problem::new(&IDEMPOTENCY_KEY_REUSED, detail);
            Err(problem.with("differs", vec!["message"]))
        }
        posted => Ok(posted.map(|()| id)?),
    }
}

/// A question that was decided, with the decision.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settled<'a> {
    pub(super) request: &'a ApprovalRequested,
    pub(super) decision: &'a ApprovalDecision,
}

impl<'a> Settled<'a> {
    /// Returns the last decided question about a call.
    pub(super) fn of(records: &'a [Arc<Record>], call: &ToolCallId) -> Option<Self> {
        let mut latest_first = records.iter().rev();
        let decision = latest_first.find_map(|record| match &record.body {
            RecordBody::ApprovalDecided(decided) if decided.tool_call_id == *call => {
                Some(&decided.decision)
            }
            _ => None,
        })?;
        let request = latest_first.find_map(|record| match &record.body {
            RecordBody::ApprovalRequested(request) if request.tool_call_id == *call => {
                Some(request)
            }
            _ => None,
        })?;
        Some(Self { request, decision })
    }

    /// Returns the name of the decision.
    pub(super) const fn name(self) -> &'static str {
        match self.decision {
            ApprovalDecision::Approve { .. } => "approve",
            ApprovalDecision::Deny { .. } => "deny",
            ApprovalDecision::Expired => "expired",
        }
    }
}

/// Returns whether this result of a tool that the client runs is on record. A long result of which the record holds
/// only a part is not recognized.
pub(super) fn has_result(
    records: &[Arc<Record>],
    call: &ToolCallId,
    outcome: &ToolOutcome,
) -> bool {
    let mut is_of_client = false;
    records.iter().any(|record| match &record.body {
        RecordBody::ToolCall(started) if started.tool_call_id == *call => {
            is_of_client = started.kind == ToolKind::Client;
            false
        }
        RecordBody::ToolResult(result) if result.tool_call_id == *call => {
            let is_same = result.value == outcome.output.value && result.failure == outcome.failure;
            is_of_client && is_same
        }
        _ => false,
    })
}
