//! Follows a run to its end: shows it, asks whoever sits here, lets Ctrl-C end it, and says how it went.

use std::sync::Arc;

use neuraxis::core::log::describe::counted;
use neuraxis::core::{AgentId, CountLabel, Record, RecordBody};
use neuraxis::engine::NoResult;
use neuraxis::{Events, FinishReason, OrchestratorResult, RunHandle, RunStatus};
use neuraxis_app::App;

use super::view::View;
use super::{Attended, schema, waiting};
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::progress::Progress;

/// What a user is told of an answer without a word.
const NO_ANSWER: &str = "the model ended without an answer: its reply is empty";

/// Shows a run up to its end, which Ctrl-C brings about.
pub(in crate::command) async fn watch(
    app: &App,
    view: View,
    (handle, events): (&RunHandle, Events),
    attended: &mut Attended,
) -> Result<(), CommandError> {
    for notice in &app.notices {
        view.notice(notice);
    }
    let interrupt = Interrupt::watch({
        let handle = handle.clone();
        move |signal| cancel(&handle, signal.reason())
    });
    show(app, view, (handle, events), attended, &interrupt).await
}

/// Shows a run up to its end, asks whoever sits here, and says how it went.
pub(in crate::command) async fn show(
    app: &App,
    mut view: View,
    (handle, events): (&RunHandle, Events),
    attended: &mut Attended,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let tools = app.orchestrator.tools();
    let asking = (&mut attended.prompter, &tools);
    if let Err(error) = view.follow(handle, events, asking, interrupt).await {
        // Nobody reads the answer anymore. The run ends as it does on Ctrl-C: with a valid history.
        cancel(handle, "nobody reads the output");
        // However it ended, nobody hears of it.
        let _ = handle.result().await;
        // A terminal that went away is why.
        return Err(interrupt
            .happened()
            .map_or(error, CommandError::interrupted));
    }
    let result = match handle.result().await {
        Ok(result) => result,
        Err(why) => return Err(left(handle, why)),
    };
    view.finish(&result)?;
    for notice in app.take_server_notices() {
        view.notice(&notice);
    }
    if result.finish_reason == Some(FinishReason::Length) {
        Progress::new().warn(&was_cut(handle));
    }
    if let Some(causes) = attended.turned_away(handle) {
        view.notice(&waiting::how_to_allow(attended.put_off, &causes));
    }
    let records = || handle.records();
    verdict(&result, interrupt, records, |failure| {
        view.has_reported(failure)
    })
}

/// Says that a run was left without an end.
fn left(run: &RunHandle, why: NoResult) -> CommandError {
    match why {
        NoResult::Unrecorded(_) => {
            let hint = format!("`neuraxis runs resume {}` goes on with it", run.run_id());
            CommandError::failed(why).hint(hint)
        }
        _ => CommandError::failed(anyhow::anyhow!(
            "the run crashed: this is a defect of neuraxis"
        )),
    }
}

/// Says that a limit cut the answer of a run, and after how many tokens, where the provider said so.
fn was_cut(run: &RunHandle) -> String {
    let records = run.records();
    let mut calls = records
        .iter()
        .rev()
        .filter_map(|record| match &record.body {
            RecordBody::LlmCall(call) if record.agent == AgentId::ROOT => Some(call),
            _ => None,
        });
    let tokens = calls.next().map(|call| call.reply.usage.completion);
    let after = match tokens.filter(|count| count.label == CountLabel::Measured) {
        Some(count) => format!(" after {}", counted(count.tokens, "token")),
        None => String::new(),
    };
    format!(
        "the answer was cut: the model reached its limit{after} (the model server's own, or max_output_tokens of the mode)"
    )
}

/// Ends a run.
pub(in crate::command) fn cancel(handle: &RunHandle, reason: &str) {
    // A run that has ended already needs no cancelling.
    let _ = handle.cancel(reason);
}

/// Says how it went. A reason that is known already is not told again.
pub(super) fn verdict(
    result: &OrchestratorResult,
    interrupt: &Interrupt,
    records: impl FnOnce() -> Vec<Arc<Record>>,
    is_known: impl FnOnce(&str) -> bool,
) -> Result<(), CommandError> {
    if let Some(fault) = schema::missed(result) {
        return Err(fault);
    }
    if result.status == RunStatus::Done {
        return match result.reply.trim().is_empty() {
            false => Ok(()),
            true => Err(CommandError::failed(anyhow::anyhow!(NO_ANSWER)).hint(
                "put the request in other words, or let another model answer: where [models.ROLE] is configured, --set models.ROLE.model=NAME (`neuraxis models` lists them); add --format events to see every step",
            )),
        };
    }
    if result.status == RunStatus::Interrupted
        && let Some(signal) = interrupt.happened()
    {
        return Err(CommandError::interrupted(signal));
    }
    if result.status == RunStatus::Waiting {
        return Err(waiting::of(result, &records()));
    }
    let reason = result.finish_reason.as_ref();
    let reason = reason.map_or_else(|| "for no reason".to_owned(), FinishReason::to_string);
    let what = "the run did not come to an answer";
    let error = match is_known(&reason) {
        true => anyhow::anyhow!(what),
        false => anyhow::anyhow!(reason).context(what),
    };
    Err(CommandError::failed(error).hint("add --format events to see every step"))
}
