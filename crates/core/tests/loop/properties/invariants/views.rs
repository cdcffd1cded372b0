//! The single reader of the log agrees with the machine after every step.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuraxis_core::log::{LogSummary, RunView};
use neuraxis_core::{
    AgentId, CallStage, OpenCall, Pending, Record, RecordBody, RunStatus, ToolCallId,
};

use crate::properties::world::World;

/// The view of the records agrees with the run.
pub(in crate::properties) fn say_what_the_run_says(world: &World) {
    let (run, view) = (&world.tree, RunView::after(world.history.clone()));
    let view = view.with(&world.records);
    assert_eq!(view.run_id(), Some(run.run_id()));
    // No record shows what begins because a sub-agent ends, so in doubt the view reports the run as at work.
    let has_ended = |record: &Arc<Record>| {
        matches!(record.body, RecordBody::Final(_) | RecordBody::RunFailed(_))
    };
    let in_doubt = world.records.iter().any(has_ended);
    if !in_doubt || run.status() != RunStatus::Waiting {
        assert_eq!(view.status(), run.status());
    }
    assert_eq!(view.last_seq(), run.seq());
    let root = view.conversation(AgentId::ROOT).unwrap();
    assert_eq!(root.messages(), run.messages());
    if view.status() == RunStatus::Waiting {
        assert_eq!(sorted(view.pending()), sorted(&run.pending()));
    } else {
        assert_eq!(view.pending(), []);
    }
    let open = run.open_calls();
    let those = |is_meant: fn(&OpenCall) -> bool| -> BTreeSet<ToolCallId> {
        let calls = open.iter().filter(|call| is_meant(call));
        calls.map(|call| call.tool_call_id.clone()).collect()
    };
    let asked = view.open_approvals();
    let asked: BTreeSet<ToolCallId> = asked
        .map(|asked| asked.request.tool_call_id.clone())
        .collect();
    assert_eq!(asked, those(|call| call.stage == CallStage::Asking));
    let begun = view.open_calls();
    let begun: BTreeSet<ToolCallId> = begun.map(|open| open.call.tool_call_id.clone()).collect();
    assert_eq!(begun, those(|call| call.has_begun));
    if let Some(outcome) = view.outcome() {
        assert_eq!(view.finish(), Some(&outcome.finish_reason));
        assert_eq!(view.turns(), run.turns());
        assert_eq!(*view.usage(), run.usage());
    }
    a_summary_is_plain_data_that_can_be_gone_on_with(world, &view);
}

/// A store keeps the summary as text, and continues from it with the next records.
fn a_summary_is_plain_data_that_can_be_gone_on_with(world: &World, view: &RunView) {
    let mut summary = LogSummary::default();
    for record in &world.records {
        let text = serde_json::to_string(&summary).unwrap();
        summary = serde_json::from_str(&text).unwrap();
        summary.apply(record);
    }
    assert_eq!(summary, *view.summary());
}

fn sorted(pending: &[Pending]) -> Vec<Pending> {
    let mut pending = pending.to_vec();
    pending.sort_by_key(|one| one.effect_id);
    pending
}
