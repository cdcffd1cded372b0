//! What is reported to the user about a run that waits.

use std::sync::Arc;

use anyhow::anyhow;
use neuraxis::OrchestratorResult;
use neuraxis::core::log::RunView;
use neuraxis::core::{AskCause, PendingKind, Record};

use crate::error::CommandError;

/// How to postpone a decision, in commands that have an option for it.
pub(super) const WITH_OPTION: &str = "add --wait to decide later with `neuraxis approvals`";

/// How to postpone a decision in a conversation that is not at a terminal.
pub(super) const WITHOUT_OPTION: &str =
    "use `neuraxis ask --wait` to decide later with `neuraxis approvals`";

/// Returns the error for a call that was denied because nobody could be asked, with how to get it allowed. Offers no
/// way to postpone the decision if nothing may wait, because the data policy keeps out of the log what the run would
/// need.
pub(super) fn denied_unattended(
    how_to_postpone: Option<&str>,
    causes: &[AskCause],
) -> CommandError {
    let and_why = match how_to_postpone {
        Some(_) => "",
        None => ", and the data policy does not let calls wait",
    };
    let error = anyhow!("a call was denied because nobody could be asked for approval{and_why}");
    CommandError::denied(error).hint(how_to_allow(how_to_postpone, causes))
}

/// Returns how to get a call allowed that was denied because nobody could be asked, depending on why governance asked.
fn how_to_allow(how_to_postpone: Option<&str>, causes: &[AskCause]) -> String {
    let asks = |cause| causes.contains(&cause);
    let why = if asks(AskCause::UntrustedContent) {
        "no rule can change that, because untrusted content is the cause: the mode's `after_untrusted` decides about \
         such calls, and `open_world = false` in [trust.NAME] declares that a server's tool brings in no such content \
         (`neuraxis help policy`)"
    } else if asks(AskCause::Layer) {
        "no rule can change that, because a layer above the mode asks, such as a project's own file: change that \
         layer (`neuraxis help policy`)"
    } else if asks(AskCause::Rule) {
        "no allow rule can change that, because a rule asks: change that rule (`neuraxis help rules`)"
    } else if asks(AskCause::UnclearRule) {
        "no allow rule can change that, because what the call does cannot be determined for certain (`neuraxis help rules`)"
    } else {
        let how_to_postpone = how_to_postpone.map_or_else(String::new, |how| format!("{how}, "));
        return format!(
            "ask at a terminal to decide there, {how_to_postpone}or allow it with a rule (`neuraxis help rules`)"
        );
    };
    let how_to_postpone = how_to_postpone.map_or_else(String::new, |how| format!(", or {how}"));
    format!("ask at a terminal to decide there{how_to_postpone}; {why}")
}

/// The maximum number of calls that are named.
const MAX_NAMED: usize = 4;

/// Returns the error for a run that waits: for what, and how to answer it.
pub(super) fn of(result: &OrchestratorResult, records: &[Arc<Record>]) -> CommandError {
    let run = result.run_id;
    let of_kind = |kind: PendingKind| {
        let pending = result.pending.iter();
        pending.filter(|pending| pending.kind == kind).count()
    };
    let (approvals, results) = (
        of_kind(PendingKind::Approval),
        of_kind(PendingKind::ClientTool),
    );
    let what = match (approvals, results) {
        (0, _) => "the results of tools that its client runs".to_owned(),
        (1, _) => "your approval of a call".to_owned(),
        (calls, _) => format!("your approval of {calls} calls"),
    };
    let error = CommandError::waiting(anyhow!("run {run} waits for {what}"));
    if approvals == 0 {
        return error;
    }
    let error = error.hint(format!(
        "`neuraxis approvals show {run}` shows what would run"
    ));
    let calls = result
        .pending
        .iter()
        .filter(|pending| pending.kind == PendingKind::Approval);
    let view = RunView::of(records);
    let names = calls.filter_map(|pending| {
        let mut open = view.open_approvals();
        let asked = open.find(|asked| asked.request.effect_id == pending.effect_id)?;
        Some(asked.request.question(run))
    });
    let names: Vec<String> = names.take(MAX_NAMED).collect();
    if let [name] = names.as_slice() {
        return error.hint(format!(
            "`neuraxis approvals approve {run} {name}` or `neuraxis approvals deny {run} {name} --reason WHY` lets it continue"
        ));
    }
    let hints = names.iter().map(|name| {
        format!("`neuraxis approvals approve {run} {name}` (or deny) decides one of them")
    });
    hints.fold(error, CommandError::hint)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allow_rule_is_proposed_only_when_the_mode_alone_asks() {
        for (causes, is_proposed) in [
            (&[AskCause::Mode][..], true),
            (&[AskCause::Layer], false),
            (&[AskCause::Mode, AskCause::Layer], false),
            (&[AskCause::Rule], false),
            (&[AskCause::UnclearRule], false),
            (&[AskCause::Mode, AskCause::UntrustedContent], false),
        ] {
            for how_to_postpone in [Some(WITH_OPTION), None] {
                let hint = how_to_allow(how_to_postpone, causes);
                assert_eq!(hint.contains("allow it with a rule"), is_proposed, "{hint}");
                assert_eq!(hint.contains("--wait"), how_to_postpone.is_some(), "{hint}");
            }
        }
    }
}
