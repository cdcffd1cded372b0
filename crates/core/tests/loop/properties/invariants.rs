//! What must be true of a run after every step, and at its end.

mod agents;
mod ends;
mod offers;
mod usage;
mod views;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::{
    Attempt, Effect, EffectId, Message, Purpose, Record, RecordBody, RunStatus, Step, ToolClass,
    ToolStatus,
};

use super::world::World;
use crate::support::{assert_continues_as, assert_gives_back, assert_tells_messages, assert_valid};

pub(super) use ends::hold_at_the_end;

/// A log with at most this many records is replayed after every step; a longer one after some steps.
const FEW_RECORDS: usize = 80;
const SOME_STEPS: usize = 16;

/// Checks what must be true after every step.
pub(super) fn hold(world: &World, step: &Step) {
    records_are_in_order(step, &world.records);
    calls_are_journaled(&world.records);
    agents::are_a_tree(&world.records);
    agents::start_nothing_after_a_limit(world);
    agents::begin_no_turn_without_budget(world, step);
    content_indexes_count_up(world, step);
    requests_are_valid(world, step);
    offers::grow_at_their_end_and_hold_nothing_else(world, step);
    status_fits_what_is_open(world, step);
    if world.records.len() < FEW_RECORDS || world.steps.is_multiple_of(SOME_STEPS) {
        the_log_is_the_run(world);
        ends::leave_a_history_to_go_on_from(world);
    }
}

fn records_are_in_order(step: &Step, records: &[Arc<Record>]) {
    for (record, seq) in records.iter().zip(1..) {
        assert_eq!(record.seq.0, seq, "seq has a gap");
    }
    for (place, record) in step.records.iter().enumerate() {
        assert_eq!(
            record.active_ms.is_some(),
            place == 0,
            "only the cause has a time"
        );
    }
}

/// Every model call that begins gets the next number, each number belongs to one agent, and an agent's numbers never
/// decrease.
fn content_indexes_count_up(world: &World, step: &Step) {
    let mut owners = BTreeMap::new();
    let mut last = BTreeMap::new();
    for record in &world.records {
        if let Some(index) = record.content_index {
            assert_eq!(*owners.entry(index).or_insert(record.agent), record.agent);
            let before = last.insert(record.agent, index);
            assert!(before <= Some(index), "content_index goes back");
        }
    }
    let begins = step.effects.iter().filter_map(|effect| match effect {
        Effect::CallModel(call) if call.attempt == Attempt(1) => Some(call),
        _ => None,
    });
    for call in begins {
        let earlier = world.records.len() - step.records.len();
        let mut before = world.records[..earlier].iter();
        assert!(before.all(|record| record.content_index < Some(call.content_index)));
    }
}

/// Every call that runs was journaled first, has one result, and runs again only if its class allows.
fn calls_are_journaled(records: &[Arc<Record>]) {
    let mut started: BTreeMap<EffectId, Attempt> = BTreeMap::new();
    let mut by_call = BTreeMap::new();
    let mut results = BTreeSet::new();
    for record in records {
        match &record.body {
            RecordBody::ToolCall(call) => {
                assert_eq!(call.arguments.hash(), call.arguments_hash);
                assert!(
                    !results.contains(&call.tool_call_id),
                    "a call ran after its result"
                );
                let before = started.insert(call.effect_id, call.attempt);
                assert_eq!(before.unwrap_or_default().next(), call.attempt);
                assert!(before.is_none() || call.class != ToolClass::Irreversible);
                by_call.insert(call.tool_call_id.clone(), call.effect_id);
            }
            RecordBody::ToolResult(result) => {
                assert!(
                    results.insert(result.tool_call_id.clone()),
                    "a second result"
                );
                assert_eq!(by_call.get(&result.tool_call_id), result.effect_id.as_ref());
                assert_eq!(result.failure.is_none(), result.status == ToolStatus::Done);
                let is_error = result.value.as_str().starts_with("{\"error\":");
                assert_eq!(result.failure.is_some(), is_error);
            }
            _ => {}
        }
    }
}

/// Everything sent to a model is a valid history, and contains all of the conversation.
fn requests_are_valid(world: &World, step: &Step) {
    for effect in &step.effects {
        if let Effect::CallModel(call) = effect {
            let sent = call.request.messages.messages();
            assert_valid(sent);
            assert!(!sent.iter().any(is_half_written), "{sent:#?}");
            let conversation = world.tree.messages();
            match call.purpose {
                Purpose::SelfCheck => assert_eq!(&sent[..sent.len() - 1], conversation),
                Purpose::Compaction | Purpose::Routing => {}
                _ if call.agent.0 == 0 => assert_eq!(sent, conversation),
                _ => {}
            }
        }
    }
}

fn is_half_written(message: &Arc<Message>) -> bool {
    matches!(message.as_ref(), Message::Assistant(said) if said.parts.is_empty())
}

fn status_fits_what_is_open(world: &World, step: &Step) {
    assert_eq!(step.status, world.status());
    let asks = |effect: &Effect| matches!(effect, Effect::AskApproval(_));
    let at_work = world.open.iter().any(|effect| !asks(effect));
    match world.status() {
        RunStatus::Running => assert!(at_work, "a run at work asked for nothing"),
        RunStatus::Waiting => assert!(!at_work && world.has_open()),
        RunStatus::Done | RunStatus::Failed | RunStatus::Interrupted => {
            assert!(!world.has_open());
            assert_eq!(step.wake_at, None);
        }
    }
}

fn the_log_is_the_run(world: &World) {
    let mut unanswered = assert_gives_back(&world.history, &world.records, &world.tree);
    let mut open = world.open.clone();
    unanswered.sort_by_key(Effect::id);
    open.sort_by_key(Effect::id);
    assert_eq!(
        unanswered, open,
        "the log says that something else is unanswered"
    );
    views::say_what_the_run_says(world);
    let is_trim = |record: &Arc<Record>| matches!(record.body, RecordBody::ContextTrimmed(_));
    if !world.records.iter().any(is_trim) {
        assert_tells_messages(&world.records, &world.tree, world.before);
    }
    assert_continues_as(&world.history, &world.records, &world.tree);
}
