//! What must hold of a run after every step, and at its end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use neuraxis_core::{
    Attempt, Effect, EffectId, FinishReason, Limits, Message, Purpose, Record, RecordBody,
    RunStatus, RunTree, RunUsage, Step, ToolClass, ToolStatus,
};

use super::plan::RunPlan;
use super::world::World;
use crate::support::{assert_gives_back, assert_tells_messages, assert_valid};

/// What must hold after every step.
pub(super) fn hold(world: &World, step: &Step) {
    records_are_in_order(step, &world.records);
    calls_are_journaled(&world.records);
    requests_are_valid(world, step);
    status_fits_what_is_open(world, step);
    the_log_is_the_run(world);
    the_run_is_plain_data(&world.tree);
}

/// What must hold of a run that has ended.
pub(super) fn hold_at_the_end(world: &World, plan: &RunPlan) {
    let outcome = world
        .records
        .iter()
        .filter_map(|record| match &record.body {
            RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => Some(outcome),
            _ => None,
        });
    let outcomes: Vec<_> = outcome.collect();
    assert_eq!(outcomes.len(), 1, "a run ends once");
    let last = &world.records.last().unwrap().body;
    assert!(matches!(
        last,
        RecordBody::Final(_) | RecordBody::RunFailed(_)
    ));
    assert_eq!(outcomes[0].status(), world.status());
    usage_adds_up(&outcomes[0].usage, &usage_of(&world.records));

    let most = plan.spec.root.limits.max_turns.unwrap();
    assert!(
        outcomes[0].turns <= most,
        "{} turns of {most}",
        outcomes[0].turns
    );
    let calls = model_calls(&world.records);
    // The last answer and its retry come on top.
    assert!(
        calls <= most * Limits::MODEL_CALLS_PER_TURN + 2,
        "{calls} model calls"
    );
    let tools = plan.spec.root.limits.max_tool_calls.unwrap_or(u32::MAX);
    assert!(tool_calls(&world.records) <= tools);
    history_is_valid_but_for_what_was_handed_over(world);
}

fn records_are_in_order(step: &Step, records: &[Arc<Record>]) {
    for (record, seq) in records.iter().zip(1..) {
        assert_eq!(record.seq.0, seq, "seq has a gap");
    }
    let indexes: Vec<_> = records
        .iter()
        .filter_map(|record| record.content_index)
        .collect();
    assert!(indexes.is_sorted(), "content_index goes back: {indexes:?}");
    for (place, record) in step.records.iter().enumerate() {
        assert_eq!(
            record.active_ms.is_some(),
            place == 0,
            "only the cause has a time"
        );
    }
}

/// Every call that runs was journaled before, has one result, and runs again only if its class allows.
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

/// Whatever is sent to a model is a valid history, and all of the conversation.
fn requests_are_valid(world: &World, step: &Step) {
    for effect in &step.effects {
        if let Effect::CallModel(call) = effect {
            let sent = call.request.messages.messages();
            assert_valid(sent);
            assert_eq!(sent, world.tree.messages());
        }
    }
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
    assert_tells_messages(&world.records, &world.tree, world.before);
}

fn the_run_is_plain_data(tree: &RunTree) {
    let text = serde_json::to_string(tree).unwrap();
    let read: RunTree = serde_json::from_str(&text).unwrap();
    assert!(read == *tree, "a run changed by being written and read");
}

fn history_is_valid_but_for_what_was_handed_over(world: &World) {
    let handed_over = world.records.iter().any(|record| match &record.body {
        RecordBody::Final(outcome) => outcome.finish_reason == FinishReason::ClientTools,
        _ => false,
    });
    if handed_over {
        let messages = world.tree.messages();
        let is_reply = |message: &Arc<Message>| message.tool_calls().next().is_some();
        let reply = messages.iter().rposition(is_reply).unwrap();
        assert_valid(&messages[..reply]);
        let open = messages[reply].tool_calls().count();
        assert!(
            messages.len() - reply - 1 < open,
            "every call has its result"
        );
    } else {
        assert_valid(world.tree.messages());
    }
}

/// The numbers are the sum of what is on record; the labels are no better, and worse where an attempt was lost.
fn usage_adds_up(told: &RunUsage, recorded: &RunUsage) {
    let counts = |usage: &neuraxis_core::Usage| {
        [
            usage.prompt,
            usage.completion,
            usage.total,
            usage.reasoning,
            usage.cached,
            usage.action,
        ]
    };
    for (told, recorded) in counts(&told.total).iter().zip(counts(&recorded.total)) {
        assert_eq!(told.tokens, recorded.tokens);
        assert!(told.label >= recorded.label);
    }
    for (role, recorded) in &recorded.roles {
        let told = counts(&told.roles[role]).map(|count| count.tokens);
        assert_eq!(told, counts(recorded).map(|count| count.tokens));
    }
}

fn usage_of(records: &[Arc<Record>]) -> RunUsage {
    let mut usage = RunUsage::default();
    for record in records {
        match &record.body {
            RecordBody::LlmCall(call) => usage.add(&call.served_by, call.reply.usage),
            RecordBody::LlmFailed(failed) => {
                if let Some(used) = &failed.error.usage {
                    usage.add(&failed.served_by, **used);
                }
            }
            _ => {}
        }
    }
    usage
}

fn model_calls(records: &[Arc<Record>]) -> u32 {
    let mut effects = BTreeSet::new();
    for record in records {
        match &record.body {
            RecordBody::LlmCall(call) => effects.insert(call.effect_id),
            RecordBody::LlmFailed(failed) if failed.purpose != Purpose::LastAnswer => {
                effects.insert(failed.effect_id)
            }
            _ => false,
        };
    }
    u32::try_from(effects.len()).unwrap()
}

fn tool_calls(records: &[Arc<Record>]) -> u32 {
    let calls = records.iter().filter_map(|record| match &record.body {
        RecordBody::ToolCall(call) => Some(call.effect_id),
        _ => None,
    });
    let distinct: BTreeSet<_> = calls.collect();
    u32::try_from(distinct.len()).unwrap()
}
