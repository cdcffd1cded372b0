//! Notes for the user about a case that was built from a run.

use std::collections::BTreeSet;
use std::sync::Arc;

use neuraxis::FinishReason;
use neuraxis::core::log::RunView;
use neuraxis::core::{ApprovalDecided, ApprovalDecision, Record, RecordBody, RunId};
use neuraxis::evals::Case;
use toml_edit::{DocumentMut, Item};

/// Returns the notes for the user who edits a case.
pub(super) fn notes(run: RunId, view: &RunView) -> Vec<String> {
    let mut notes = vec![format!("Created from run {run}.")];
    if view.finish().is_none() {
        notes.push("It had not ended".to_owned());
    }
    if let Some(outcome) = view.outcome() {
        if outcome.finish_reason != FinishReason::Stop {
            let reason = &outcome.finish_reason;
            notes.push(format!("It did not end normally: {reason}"));
        }
        if !outcome.content.trim().is_empty() {
            notes.push(format!("It answered: {}", outcome.content));
        }
    }
    notes
}

/// Returns the tools whose calls were approved, if any.
pub(super) fn approved(records: &[Arc<Record>]) -> Option<String> {
    let decided = records.iter().filter_map(|record| match &record.body {
        RecordBody::ApprovalDecided(decided) => Some(&**decided),
        _ => None,
    });
    let is_approved =
        |it: &&ApprovalDecided| matches!(it.decision, ApprovalDecision::Approve { .. });
    let calls: BTreeSet<_> = decided
        .filter(is_approved)
        .map(|it| &it.tool_call_id)
        .collect();
    let tools = records.iter().filter_map(|record| match &record.body {
        RecordBody::ApprovalRequested(asked) if calls.contains(&asked.tool_call_id) => {
            Some(&*asked.name)
        }
        _ => None,
    });
    let tools: BTreeSet<&str> = tools.collect();
    (!tools.is_empty()).then(|| Vec::from_iter(tools).join(", "))
}

/// Returns which of agent, role and plan the file's defaults add to a case that was asked without them.
pub(super) fn added_by_defaults(document: &DocumentMut, case: &Case) -> Vec<&'static str> {
    let defaults = document.get("defaults").and_then(Item::as_table_like);
    let own = [
        ("agent", case.agent.is_some()),
        ("role", case.role.is_some()),
        ("plan", case.plan.is_some()),
    ];
    let is_in_defaults = |key: &str| defaults.is_some_and(|defaults| defaults.contains_key(key));
    let own = own.into_iter().filter(|_| case.begins_a_run());
    own.filter(|(key, is_own)| !is_own && is_in_defaults(key))
        .map(|(key, _)| key)
        .collect()
}
