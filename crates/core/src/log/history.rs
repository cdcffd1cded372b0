//! What a run adds to the conversation of its session, and the history that results for the next run.

use std::sync::Arc;

use super::view::RunView;
use crate::ids::{AgentId, Turn};
use crate::json::JsonText;
use crate::message::{Message, ToolCall};
use crate::record::{LOOP_VERSION, LimitKind, Record, RecordBody};
use crate::repair::repaired;
use crate::texts::{Texts, UNDECIDED};
use crate::transcript::Transcript;

/// Returns the messages that a run added: those it was started with, its replies, and the results of its calls,
/// including those it later left out to make room. Only the root agent's messages; sub-agents have separate
/// conversations. The records may end with any step of the run.
#[must_use]
pub fn run_messages(records: &[Arc<Record>]) -> Vec<Arc<Message>> {
    let view = RunView::untrimmed().with(records);
    let conversation = view.conversation(AgentId::ROOT);
    conversation.map_or_else(Vec::new, |root| root.without_prompt().to_vec())
}

/// Returns the history after a run: the history it was given and what it added. What it left out to make room is
/// missing, with the summaries in its place. Results marked as not to be kept leave their summaries.
///
/// ```
/// use neuraxis_core::{Transcript, continued_history};
///
/// // A session's history results from its runs, one after the other.
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
        None => repaired(history.clone(), Texts::of(LOOP_VERSION).results.lost).0,
    }
}

/// Adds what is known about a reply whose calls are not all settled: the results that arrived, and that the calls
/// waiting for a user's decision did not run.
fn add_known_results(history: &mut Transcript, run: &RunView) {
    let Some(root) = run.conversation(AgentId::ROOT) else {
        return;
    };
    let held: Vec<_> = root.held().collect();
    if held.is_empty() && root.open_calls() == 0 {
        return;
    }
    let mut latest_first = history.messages().iter().rev();
    let calling = latest_first.find(|message| message.tool_calls().next().is_some());
    let calls: Vec<ToolCall> =
        calling.map_or_else(Vec::new, |it| it.tool_calls().cloned().collect());
    for call in calls {
        let is_its = |message: &Arc<Message>| match message.as_ref() {
            Message::Tool(result) => result.tool_call_id == call.id,
            _ => false,
        };
        let mut approvals = run.open_approvals();
        if let Some(result) = held.iter().find(|message| is_its(message)) {
            history.push(Arc::clone(result));
        } else if approvals
            .any(|it| it.agent == AgentId::ROOT && it.request.tool_call_id == call.id)
        {
            let why = JsonText::error(UNDECIDED);
            let result = Message::tool_result(call.id.clone(), Arc::clone(&call.name), why);
            history.push(result);
        }
    }
}

/// Returns the last turn that a run reached, which is the last one that another run can branch off after. An answer at
/// a limit has a turn too, although that turn does not count.
#[must_use]
pub fn last_turn(records: &[Arc<Record>]) -> Turn {
    let turns = root_records(records).map(|record| record.turn);
    turns.max().unwrap_or(Turn(0))
}

/// Returns the records of the agent that answers the user, in order.
pub fn root_records(records: &[Arc<Record>]) -> impl DoubleEndedIterator<Item = &Record> {
    let records = records.iter().map(|record| &**record);
    records.filter(|record| record.agent == AgentId::ROOT)
}

/// Returns the history at the end of a turn of a run, for another run to branch off from there. For a turn that the run
/// never reached, returns the history of the whole run. Calls that still waited for a user's decision count as not run;
/// other calls of that turn without a result are answered when the other run starts (loop rule 15).
#[must_use]
pub fn forked_history(history: &Transcript, records: &[Arc<Record>], turn: Turn) -> Transcript {
    let is_later = |record: &Arc<Record>| record.agent == AgentId::ROOT && record.turn > turn;
    let end = records.iter().position(is_later).unwrap_or(records.len());
    let shared = records.get(..end).unwrap_or_default();
    // What ended the run, such as an answer at a limit, is not part of the turn. Reaching the reserve of a deadline
    // ends nothing: the answer to the turn may still come.
    let ends = |record: &&Arc<Record>| {
        record.agent == AgentId::ROOT
            && match &record.body {
                RecordBody::MaxTurnsReached(_) => true,
                RecordBody::LimitReached(reached) => match reached.limit {
                    LimitKind::DeadlineReserve => false,
                    LimitKind::Deadline | LimitKind::Budget(_) => true,
                },
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
