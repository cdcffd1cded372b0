//! Closes a log that no machine can continue: one of another version, with something withheld, or damaged.
//!
//! Runs that can be replayed do not need this: inputs that the machine accepts end them.

use std::sync::Arc;

use jiff::Timestamp;

use super::conversation::Conversation;
use super::view::RunView;
use crate::duration::whole_millis;
use crate::finish::{FinishReason, RunOutcome};
use crate::ids::{AgentId, CallIndex, InputId, RunId, Seq, Turn};
use crate::input::Cancelled;
use crate::interruption::Interruption;
use crate::outcome::{ToolFailure, ToolOutcome};
use crate::record::{Record, RecordBody, ToolResult};
use crate::texts::{ENDED_UNDECIDED, PROCESS_GONE};

/// The end of a log that is to be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEnd {
    /// The run.
    pub run_id: RunId,
    /// Its last record.
    pub last: Seq,
    /// The time of the closing.
    pub at: Timestamp,
}

/// Returns the records that close a log: that the run was ended and why; a result for every call that began and has
/// none, with an unknown outcome; a result for every call that still waited for a user's decision, saying that it never
/// ran; and the outcome of the run, as far as the readable records show it.
///
/// The run ends as interrupted, by the given cause; `why` says it to people. Replaying such a log fails at the same
/// place as before.
#[must_use]
pub fn closing_records(
    records: &[Arc<Record>],
    end: LogEnd,
    cause: Interruption,
    why: &str,
) -> Vec<Arc<Record>> {
    let view = RunView::of(records);
    let turn = Turn(view.turns());
    let mut closing = Closing {
        end,
        turn,
        records: Vec::new(),
    };
    let id = InputId::new(format!("closed-after-{}", end.last));
    let cancelled = RecordBody::Cancelled(Box::new(Cancelled::new(id, why)));
    closing.add(None, cancelled, Some(whole_millis(view.active())));
    for open in view.open_calls() {
        let unknown = ToolOutcome::failed(ToolFailure::OutcomeUnknown, PROCESS_GONE);
        let (call, name) = (open.call, open.call.name.clone());
        let result = ToolResult {
            effect_id: Some(call.effect_id),
            attempt: Some(call.attempt),
            ..ToolResult::of(call.tool_call_id.clone(), name, call.index, unknown)
        };
        let result = RecordBody::ToolResult(Box::new(result));
        closing.add(Some(open.record), result, None);
    }
    for request in &view.approval_requests {
        if let Some(result) = never_ran(&view, request) {
            closing.add(
                Some(request),
                RecordBody::ToolResult(Box::new(result)),
                None,
            );
        }
    }
    let outcome = RunOutcome {
        content: view.text().to_owned(),
        finish_reason: FinishReason::Interrupted(why.to_owned()),
        turns: turn.0,
        usage: view.metrics().usage.clone(),
        sources: Vec::new(),
        unheard: view
            .conversation(AgentId::ROOT)
            .map_or(0, Conversation::unheard),
        failed_call: None,
        interruption: Some(cause),
    };
    closing.add(None, RecordBody::Final(Box::new(outcome)), None);
    closing.records
}

/// Returns the result of a call that still waited for a user's decision. `None` for a call that had begun before its
/// run was resumed and its approval was requested again.
fn never_ran(view: &RunView, record: &Record) -> Option<ToolResult> {
    let RecordBody::ApprovalRequested(request) = &record.body else {
        return None;
    };
    let (id, name) = (&request.tool_call_id, Arc::clone(&request.name));
    if view.open_calls().any(|open| open.call.tool_call_id == *id) {
        return None;
    }
    let mut messages = view.conversation(record.agent)?.messages().iter().rev();
    let place =
        messages.find_map(|message| message.tool_calls().position(|call| call.id == *id))?;
    let index = CallIndex(u32::try_from(place).ok()?);
    let not_run = ToolOutcome::failed(ToolFailure::Cancelled, ENDED_UNDECIDED);
    Some(ToolResult::of(id.clone(), name, index, not_run))
}

struct Closing {
    end: LogEnd,
    turn: Turn,
    records: Vec<Arc<Record>>,
}

impl Closing {
    /// Adds a record of the root agent, or one that relates to an earlier record.
    fn add(&mut self, about: Option<&Record>, body: RecordBody, active_ms: Option<u64>) {
        let last = self.records.last().map_or(self.end.last, |last| last.seq);
        self.records.push(Arc::new(Record {
            seq: last.next(),
            content_index: about.and_then(|about| about.content_index),
            run_id: self.end.run_id,
            agent: about.map_or(AgentId::ROOT, |about| about.agent),
            turn: about.map_or(self.turn, |about| about.turn),
            at: self.end.at,
            active_ms,
            body,
        }));
    }
}
