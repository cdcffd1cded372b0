//! What remains when a run ends, breaks off or is cancelled.

use std::sync::Arc;

use neuraxis_core::{
    AgentId, Cancelled, Effect, FinishReason, Input, InputId, Message, Record, RecordBody,
    RunOutcome, RunTree, continued_history,
};

use super::{is_half_written, usage};
use crate::properties::world::World;
use crate::support::{assert_valid, spec};

/// Checks what must be true of a run that has ended.
pub(in crate::properties) fn hold_at_the_end(world: &World) {
    let last = world.records.last().unwrap();
    let ends = world
        .records
        .iter()
        .filter(|record| record.agent == AgentId::ROOT && outcome(record).is_some());
    assert_eq!(ends.count(), 1, "a run ends once");
    let told = outcome(last).unwrap();
    assert_eq!(last.agent, AgentId::ROOT, "and the root agent last");
    assert_eq!(told.status(), world.status());
    usage::adds_up(world);
    assert!(world.alive.is_empty(), "{:?} never ended", world.alive);
    history_is_valid_but_for_what_was_handed_over(world, told);
    super::the_log_is_the_run(world);
}

/// If it is cancelled or breaks off here, the run leaves a history that every provider accepts.
pub(super) fn leave_a_history_to_go_on_from(world: &World) {
    if !world.status().is_ended() {
        let mut run = world.tree.clone();
        let cancel = Cancelled::new(InputId::new("what if"), "what if");
        let step = run.advance(world.now(), Input::Cancelled(cancel)).unwrap();
        assert_valid(run.messages());
        assert!(!run.messages().iter().any(is_half_written));
        assert!(matches!(step.effects.last(), Some(Effect::Finish(_))));
    }
    let history = continued_history(&world.history, &world.records);
    let (next, _) = RunTree::start(spec(), history, world.now());
    assert_valid(next.messages());
    assert!(!next.messages().iter().any(is_half_written));
}

fn outcome(record: &Record) -> Option<&RunOutcome> {
    match &record.body {
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(outcome),
        _ => None,
    }
}

fn history_is_valid_but_for_what_was_handed_over(world: &World, told: &RunOutcome) {
    if told.finish_reason == FinishReason::ClientTools {
        let messages = world.tree.messages();
        let is_reply = |message: &Arc<Message>| message.tool_calls().next().is_some();
        let reply = messages.iter().rposition(is_reply).unwrap();
        assert_valid(&messages[..reply]);
        let open = messages[reply].tool_calls().count();
        let is_result = |message: &&Arc<Message>| matches!(***message, Message::Tool(_));
        let results = messages[reply..].iter().filter(is_result);
        assert!(results.count() < open, "every call has its result");
    } else {
        assert_valid(world.tree.messages());
    }
}
