//! A run of this API from its beginning to its end: who leaves ends it.

use std::sync::Arc;

use neuraxis::core::{Message, Record, ToolCall, run_messages};
use neuraxis::engine::RequestError;
use neuraxis::{Events, FinishReason, OrchestratorResult, RunHandle, RunStatus, UserRequest};

use crate::limits::Limited;
use crate::problem::Problem;
use crate::refusal::{internal, with_causes};
use crate::turns::{no_result, start};

/// Why a run ended whose client has left.
const LEFT: &str = "the client went away";

/// A run that is cancelled when it is dropped before its end.
#[derive(Debug)]
pub(super) struct Held {
    handle: RunHandle,
    limited: Limited,
}

/// What a run came to.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) result: OrchestratorResult,
    /// The calls that are the client's to run.
    pub(super) calls: Vec<ToolCall>,
}

/// Begins a run. In a task of its own, so that a client that leaves in the middle leaves nothing half begun behind.
pub(super) async fn begin(
    limited: &Limited,
    request: UserRequest,
) -> Result<(Held, Events), Problem> {
    limited.check(&request.channel, &request.mode)?;
    let place = limited.place()?;
    let limited = limited.clone();
    let begun = tokio::spawn(async move {
        let orchestrator = limited.orchestrator().clone();
        let (handle, events) = start(orchestrator, request, Some(place)).await?;
        // Dropped with the answer of this task if nobody waits for it any more.
        Ok::<_, RequestError>((Held { handle, limited }, events))
    });
    let begun = begun.await;
    Ok(begun.map_err(|error| internal(&with_causes(&error)))??)
}

impl Held {
    /// Waits for the run to end, or to wait for somebody.
    pub(super) async fn ended(&self) -> Result<Ended, Problem> {
        let result = self.handle.result().await;
        let orchestrator = self.limited.orchestrator();
        let result = result.map_err(|why| no_result(orchestrator, &self.handle, &why))?;
        let calls = match result.finish_reason {
            Some(FinishReason::ClientTools) => handed_over(&self.handle.records()),
            _ => Vec::new(),
        };
        Ok(Ended { result, calls })
    }

    pub(super) const fn handle(&self) -> &RunHandle {
        &self.handle
    }

    /// Returns when the run began, in seconds since 1970.
    pub(super) fn created(&self) -> i64 {
        created(&self.handle.records())
    }
}

/// Returns when a run began, in seconds since 1970.
pub(super) fn created(records: &[Arc<Record>]) -> i64 {
    records.first().map_or(0, |first| first.at.as_second())
}

impl Drop for Held {
    fn drop(&mut self) {
        // One that has ended cannot be cancelled, and need not be.
        let _ = self.handle.cancel(LEFT);
    }
}

impl Ended {
    /// Tells whether there is anything to tell the client, be it a sentence that says why there is no answer.
    pub(super) const fn is_answered(&self) -> bool {
        matches!(self.result.status, RunStatus::Done | RunStatus::Waiting)
    }
}

/// Returns the calls at the end of a run that have no result.
pub(super) fn handed_over(records: &[Arc<Record>]) -> Vec<ToolCall> {
    let messages = run_messages(records);
    let is_answer = |message: &Arc<Message>| matches!(**message, Message::Assistant(_));
    let Some(last) = messages.iter().rposition(is_answer) else {
        return Vec::new();
    };
    let (said, after) = messages.split_at(last.saturating_add(1));
    let is_answered = |call: &ToolCall| {
        let mut after = after.iter().map(Arc::as_ref);
        after.any(|message| matches!(message, Message::Tool(tool) if tool.tool_call_id == call.id))
    };
    let calls = said.last().into_iter().flat_map(|said| said.tool_calls());
    calls.filter(|call| !is_answered(call)).cloned().collect()
}
