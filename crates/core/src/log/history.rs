//! What a run adds to the conversation of its session, and the history that goes on from it.

use std::sync::Arc;

use super::view::RunView;
use crate::ids::{AgentId, Turn};
use crate::json::JsonText;
use crate::message::{Message, ToolCall};
use crate::record::{LimitKind, Record, RecordBody};
use crate::repair::repaired;
use crate::transcript::Transcript;

/// Returns the messages that a run added: those it was started with, its replies, and the results of its calls, whatever
/// it left out later to make room. Only the root agent's; sub-agents have conversations of their own. The records may
/// end with any step of the run.
#[must_use]
pub fn run_messages(records: &[Arc<Record>]) -> Vec<Arc<Message>> {
    let view = RunView::untrimmed().with(records);
    let conversation = view.conversation(AgentId::ROOT);
    conversation.map_or_else(Vec::new, |root| root.without_prompt().to_vec())
}

/// Returns the history that goes on from a run: what it was given and what it added, without what it left out to make
/// room, with the summaries in its place. Results marked not to be kept leave their summaries.
///
/// ```
/// use neuraxis_core::{Transcript, continued_history};
///
/// // A session's history is made of its runs, one after the other.
/// # let runs: Vec<Vec<std::sync::Arc<neuraxis_core::Record>>> = Vec::new();
/// let history = runs.iter().fold(Transcript::default(), |history, run| continued_history(&history, run));
/// # assert!(history.is_empty());
/// ```
#[must_use]
pub fn continued_history(history: &Transcript, records: &[Arc<Record>]) -> Transcript {
    continued_by(history, &RunView::after(history.clone()).with(records))
}

fn continued_by(history: &Transcript, run: &RunView) -> Transcript {
    match run.conversation(AgentId::ROOT) {
        Some(root) => root.continued(),
        None => repaired(history.clone()).0,
    }
}

/// Adds what is known of the calls of a reply that have not all come to their end: what those brought that have, and that those
/// about which a person is asked were not run.
fn add_known_results(history: &mut Transcript, run: &RunView) {
    let Some(root) = run.conversation(AgentId::ROOT) else {
        return;
    };
    let held: Vec<_> = root.held().collect();
    if held.is_empty() && root.open_calls() == 0 {
        return;
    }
    let mut said = history.messages().iter().rev();
    let calling = said.find(|message| message.tool_calls().next().is_some());
    let calls: Vec<ToolCall> =
        calling.map_or_else(Vec::new, |it| it.tool_calls().cloned().collect());
    for call in calls {
        let is_its = |message: &Arc<Message>| match message.as_ref() {
            Message::Tool(result) => result.tool_call_id == call.id,
            _ => false,
        };
        let mut asked = run.open_approvals();
        if let Some(result) = held.iter().find(|message| is_its(message)) {
            history.push(Arc::clone(result));
        } else if asked.any(|it| it.agent == AgentId::ROOT && it.request.tool_call_id == call.id) {
            let why = JsonText::error("not run: nobody has decided about it");
            let result = Message::tool_result(call.id.clone(), Arc::clone(&call.name), why);
            history.push(result);
        }
    }
}

/// Returns the last turn that a run came to, the last after which another run can branch off. An answer to a limit, whose turn
/// does not count, is one, too.
#[must_use]
pub fn last_turn(records: &[Arc<Record>]) -> Turn {
    let of_root = records
        .iter()
        .filter(|record| record.agent == AgentId::ROOT);
    of_root.map(|record| record.turn).max().unwrap_or(Turn(0))
}

/// Returns the history at the end of a turn of a run, for another run to branch off from there. A turn the run never
/// came to gives all it said. Calls about which a person was asked and nobody has decided were not run; others of that turn without
/// a result are answered when the other run starts (loop rule 15).
#[must_use]
pub fn forked_history(history: &Transcript, records: &[Arc<Record>], turn: Turn) -> Transcript {
    let is_later = |record: &Arc<Record>| record.agent == AgentId::ROOT && record.turn > turn;
    let end = records.iter().position(is_later).unwrap_or(records.len());
    let shared = records.get(..end).unwrap_or_default();
    // What ended the run, be it an answer to a limit, is not part of the turn. A time that is only nearly up ends
    // nothing: the answer to the turn may still come.
    let ends = |record: &&Arc<Record>| {
        record.agent == AgentId::ROOT
            && match &record.body {
                RecordBody::MaxTurnsReached(_) => true,
                RecordBody::LimitReached(reached) => reached.limit != LimitKind::DeadlineReserve,
                _ => false,
            }
    };
    let end = shared.iter().position(|record| ends(&record));
    let shared = shared.get(..end.unwrap_or(shared.len()));
    let run = RunView::after(history.clone()).with(shared.unwrap_or_default());
    let mut forked = continued_by(history, &run);
    add_known_results(&mut forked, &run);
    forked
}
