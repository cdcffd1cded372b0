//! Follows a run to its end: shows it, asks whoever sits here, lets Ctrl-C end it, and says how it went.

use std::sync::Arc;

use neuraxis::core::log::RunView;
use neuraxis::core::log::describe::counted;
use neuraxis::core::{
    AgentName, BudgetScope, CountLabel, DataPolicy, PlanName, Record, is_last_answer, last_reply,
};
use neuraxis::engine::NoResult;
use neuraxis::offline::OfflineModel;
use neuraxis::ports::{LlmClient, StoreError};
use neuraxis::{Channel, FinishReason, Mode, OrchestratorResult, Role, RunHandle, RunStatus};
use neuraxis_app::App;

use super::outcome::{Outcome, Served, root_calls, what_to_do};
use super::view::View;
use super::{Attended, schema, waiting};
use crate::command::runs::is_a_loop;
use crate::error::CommandError;
use crate::interrupt::Interrupt;
use crate::invocation::quoted;
use crate::progress;

/// What a user is told of an answer without a word.
const NO_ANSWER: &str = "the model ended without an answer: its reply is empty";

/// What a user is told where nothing could answer.
const NOTHING_SERVED: &str = "there is no answer: this takes a language model";

/// Shows a run up to its end, which Ctrl-C brings about.
pub(in crate::command) async fn watch(
    app: &App,
    view: View,
    run: &RunHandle,
    attended: &mut Attended,
) -> Result<(), CommandError> {
    for notice in &app.notices {
        progress::notice(notice);
    }
    let view = match asks_for_json(run) {
        true => view.of_json(),
        false => view,
    };
    let interrupt = Interrupt::watch({
        let run = run.clone();
        move |signal| cancel(&run, signal.reason())
    });
    show(app, view, run, attended, &interrupt).await?;
    unless_turned_away(attended, run)
}

/// Tells whether a run was begun to come to an answer of a form, whichever command goes on with it.
fn asks_for_json(run: &RunHandle) -> bool {
    let records = run.records();
    let started = records.first().and_then(|first| first.run_started());
    started.is_some_and(|started| started.spec.root.answer_schema().is_some())
}

/// Makes an error of a call that was denied because nobody could be asked: whatever the run answered then, it could not do
/// what it set out to do.
pub(in crate::command) fn unless_turned_away(
    attended: &Attended,
    run: &RunHandle,
) -> Result<(), CommandError> {
    let Some(causes) = attended.turned_away(run) else {
        return Ok(());
    };
    let records = run.records();
    let started = records.first().and_then(|first| first.run_started());
    // A run of which something is not kept waits for nobody.
    let may_wait = started.is_none_or(|it| it.spec.data_policy() == DataPolicy::ALL);
    let put_off = may_wait.then_some(attended.put_off);
    Err(waiting::turned_away(put_off, &causes))
}

/// Shows a run up to its end, asks whoever sits here, and says how it went.
pub(in crate::command) async fn show(
    app: &App,
    view: View,
    run: &RunHandle,
    attended: &mut Attended,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let mut view = view.holding_back(served_by_rules(app));
    let tools = app.orchestrator.tools();
    let asking = (&mut attended.prompter, &tools);
    if let Err(error) = view.follow(run, asking, interrupt).await {
        // Nobody reads the answer anymore. The run ends as it does on Ctrl-C: with a valid history.
        cancel(run, "nobody reads the output");
        // However it ended, nobody hears of it.
        let _ = run.result().await;
        // A terminal that went away is why.
        return Err(interrupt
            .happened()
            .map_or(error, CommandError::interrupted));
    }
    let result = match run.result().await {
        Ok(result) => result,
        Err(why) => return Err(left(run, why)),
    };
    let records = run.records();
    let outcome = Outcome::of(&result, &records);
    view.finish(&result, &outcome)?;
    for notice in app.take_server_notices() {
        progress::notice(&notice);
    }
    match result.finish_reason {
        Some(FinishReason::Length) => progress::warn(&was_cut(run)),
        // Of one that was withheld as a whole the answer says so.
        Some(FinishReason::ContentFilter) if !outcome.said.is_empty() => {
            progress::warn(WAS_WITHHELD);
        }
        Some(FinishReason::Refused) => progress::warn(WAS_REFUSED),
        Some(FinishReason::Stop) if is_call_as_text(&records) => progress::warn(CALL_AS_TEXT),
        _ => {}
    }
    verdict(&result, &outcome, interrupt, &records, |failure| {
        view.has_reported(failure)
    })
}

/// Returns the roles that no model serves, but the rules that stand in for one.
pub(in crate::command) fn served_by_rules(app: &App) -> Vec<Role> {
    let rules = OfflineModel::new().info().model.provider;
    let models = app.orchestrator.models();
    let by_rules = models.filter(|(_, info)| info.model.provider == rules);
    by_rules.map(|(role, _)| role.clone()).collect()
}

/// Says that a run was left without an end.
fn left(run: &RunHandle, why: NoResult) -> CommandError {
    let id = run.run_id();
    match why {
        // As after the sleep of a laptop. What became of it meanwhile is not known here.
        NoResult::Unrecorded(StoreError::Stale(_)) => CommandError::failed(why).hint(format!(
            "`neuraxis runs show {id}` shows how it stands; where it has not ended, `neuraxis runs resume {id}` goes on with it"
        )),
        NoResult::Unrecorded(_) => {
            let hint = format!("`neuraxis runs resume {id}` goes on with it");
            CommandError::failed(why).hint(hint)
        }
        _ => CommandError::failed(anyhow::anyhow!(
            "the run crashed: this is a defect of neuraxis"
        )),
    }
}

/// Says that what was shown is not all that the model wrote.
const WAS_WITHHELD: &str = "the answer was cut: the provider's content filter withheld the rest of it; put the request in other words";

/// Says that what was shown is the model's refusal.
const WAS_REFUSED: &str = "the model refused to answer; put the request in other words";

/// Says that what was shown is a call that nobody ran.
const CALL_AS_TEXT: &str = "the answer holds a tool call written as text, which was not run: the model server does not read calls as this model writes them";

/// Tells whether the answer of a run holds a tool call that its model wrote as text. What stands in a block of code is shown, and
/// not meant to be run.
fn is_call_as_text(records: &[Arc<Record>]) -> bool {
    last_reply(records).is_some_and(|reply| {
        let text = reply.text();
        !text.trim().is_empty() && !text.contains("```") && !is_last_answer(reply)
    })
}

/// Says that a limit cut the answer of a run, and after how many tokens, where the provider said so.
fn was_cut(run: &RunHandle) -> String {
    let records = run.records();
    let last = root_calls(&records).next_back();
    let tokens = last.map(|call| call.reply.usage.completion);
    let after = match tokens.filter(|count| count.label == CountLabel::Measured) {
        Some(count) => format!(" after {}", counted(count.tokens, "token")),
        None => String::new(),
    };
    format!(
        "the answer was cut: the model reached its limit{after} (the model server's own, or max_output_tokens of the mode)"
    )
}

/// Ends a run.
pub(in crate::command) fn cancel(run: &RunHandle, reason: &str) {
    // A run that has ended already needs no cancelling.
    let _ = run.cancel(reason);
}

/// Says how it went. A reason that is known already is not told again.
pub(super) fn verdict(
    result: &OrchestratorResult,
    outcome: &Outcome,
    interrupt: &Interrupt,
    records: &[Arc<Record>],
    is_known: impl FnOnce(&str) -> bool,
) -> Result<(), CommandError> {
    if let Some(fault) = schema::missed(result, outcome, records) {
        return Err(fault);
    }
    if result.status == RunStatus::Interrupted
        && let Some(signal) = interrupt.happened()
    {
        return Err(CommandError::interrupted(signal));
    }
    if result.status == RunStatus::Waiting {
        return Err(waiting::of(result, records));
    }
    let reason = result.finish_reason.as_ref();
    if result.status == RunStatus::Done {
        let Some(instead) = outcome.instead.clone() else {
            return match outcome.said.trim().is_empty() {
                false => Ok(()),
                true => Err(CommandError::failed(anyhow::anyhow!(NO_ANSWER))
                    .hint("put the request in other words, or let another model answer: -m MODEL (`neuraxis models` lists them)")),
            };
        };
        if outcome.served == Served::ByNothing {
            let error = anyhow::anyhow!(instead).context(NOTHING_SERVED);
            return Err(CommandError::no_answer(error));
        }
        let error = anyhow::anyhow!(instead);
        return Err(match reason.is_some_and(is_a_limit) {
            true => CommandError::at_limit(error).hint(at_a_limit(records)),
            false => CommandError::failed(error),
        });
    }
    let reason = reason.map_or_else(|| "for no reason".to_owned(), FinishReason::to_string);
    let what = outcome.instead.clone();
    let what = what.unwrap_or_else(|| "there is no answer".to_owned());
    let error = match is_known(&reason) || what.contains(&reason) {
        true => anyhow::anyhow!(what),
        false => anyhow::anyhow!(reason).context(what),
    };
    let error = CommandError::failed(error);
    Err(match result.status {
        // Whoever cancelled it elsewhere wanted that.
        RunStatus::Interrupted => error,
        _ => error.hint(what_to_do(records)),
    })
}

/// Tells whether a limit ended a run, that of the model's output included. That the model did the same again and again is none
/// that could be raised.
pub(super) fn is_a_limit(reason: &FinishReason) -> bool {
    let is_limit = reason.ends_at_a_limit() || *reason == FinishReason::Length;
    is_limit && !is_a_loop(reason)
}

/// Says what to do about a limit. Where a session or a day has used up its budget, there is nothing left for any request.
pub(super) fn at_a_limit(records: &[Arc<Record>]) -> String {
    let view = RunView::of(records);
    let spent = view.decision().and_then(|decided| decided.spent.as_ref());
    let what = match spent.map(|spent| spent.scope) {
        Some(BudgetScope::Session | BudgetScope::Day) => "raise the limit",
        Some(BudgetScope::Run) | None => "ask for less at once, or raise the limit",
    };
    format!("{what}: `{}` names the limits", explaining(records))
}

/// Returns the command that names the limits of a run.
fn explaining(records: &[Arc<Record>]) -> String {
    let view = RunView::of(records);
    let decision = view.decision();
    let mode = decision.map(|decided| decided.mode.as_str());
    let channel = decision.map(|decided| decided.channel.as_str());
    let agent = decision.and_then(|decided| decided.agent.as_ref());
    let plan = view.spec().and_then(|spec| spec.plan.as_ref());
    let options = [
        ("mode", mode.filter(|mode| *mode != Mode::MODERATE.as_str())),
        (
            "channel",
            channel.filter(|channel| *channel != Channel::CHAT.as_str()),
        ),
        ("agent", agent.map(AgentName::as_str)),
        ("plan", plan.map(PlanName::as_str)),
    ];
    let mut command = "neuraxis policy explain".to_owned();
    for (option, name) in options {
        if let Some(name) = name {
            command.push_str(&format!(" --{option} {}", quoted(name)));
        }
    }
    command
}
