//! Follows a run to its end: shows it, asks the user, stops it on Ctrl-C, and reports the outcome.

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
use crate::approve::user_name;
use crate::command::runs::is_a_loop;
use crate::error::CommandError;
use crate::interrupt::{Interrupt, Signal};
use crate::invocation::quoted;
use crate::progress;

/// Shown if the answer is empty.
const NO_ANSWER: &str = "the model ended without an answer: its reply is empty";

/// Shown if nothing could answer.
const NOTHING_SERVED: &str = "there is no answer: this needs a language model";

/// Shows a run until it ends; Ctrl-C ends it.
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
        true => view.json_only(),
        false => view,
    };
    let interrupt = Interrupt::watch({
        let run = run.clone();
        move |signal| cancel(&run, signal)
    });
    show(app, view, run, attended, &interrupt).await?;
    fail_if_denied_unattended(attended, run)
}

/// Returns whether a run was started with a schema for its answer, whichever command resumed it.
fn asks_for_json(run: &RunHandle) -> bool {
    let records = run.records();
    let started = records.first().and_then(|first| first.run_started());
    started.is_some_and(|started| started.spec.root.answer_schema().is_some())
}

/// Fails if a call was denied because nobody could be asked: whatever the run answered, it could not do what it was
/// meant to do.
pub(in crate::command) fn fail_if_denied_unattended(
    attended: &Attended,
    run: &RunHandle,
) -> Result<(), CommandError> {
    let Some(causes) = attended.denied_unattended(run) else {
        return Ok(());
    };
    let records = run.records();
    let started = records.first().and_then(|first| first.run_started());
    // A run whose data policy withholds something from the log cannot wait.
    let may_wait = started.is_none_or(|it| it.spec.data_policy() == DataPolicy::ALL);
    let how_to_postpone = may_wait.then_some(attended.how_to_postpone);
    Err(waiting::denied_unattended(how_to_postpone, &causes))
}

/// Shows a run until it ends, asks the user, and reports the outcome.
pub(in crate::command) async fn show(
    app: &App,
    view: View,
    run: &RunHandle,
    attended: &mut Attended,
    interrupt: &Interrupt,
) -> Result<(), CommandError> {
    let mut view = view.with_rule_roles(served_by_rules(app));
    let tools = app.orchestrator.tools();
    let asking = (&mut attended.prompter, &tools);
    if let Err(error) = view.follow(run, asking, interrupt).await {
        // Nothing reads the answer anymore. The run ends as on Ctrl-C: with a valid history.
        // A run that has already ended need not be cancelled.
        let _ = run.cancel("nobody reads the output");
        // The outcome is not reported to anyone.
        let _ = run.result().await;
        // The reason is that the terminal went away.
        return Err(interrupt.signal().map_or(error, CommandError::interrupted));
    }
    let result = match run.result().await {
        Ok(result) => result,
        Err(why) => return Err(unfinished_error(run, why)),
    };
    let records = run.records();
    let outcome = Outcome::of(&result, &records);
    view.finish(&result, &outcome)?;
    for notice in app.take_server_notices() {
        progress::notice(&notice);
    }
    match result.finish_reason {
        Some(FinishReason::Length) => progress::warn(&was_cut(run)),
        // If the whole answer was withheld, the answer says so.
        Some(FinishReason::ContentFilter) if !outcome.text.is_empty() => {
            progress::warn(WAS_WITHHELD);
        }
        Some(FinishReason::Refused) => progress::warn(WAS_REFUSED),
        Some(FinishReason::Stop) if is_call_as_text(&records) => progress::warn(CALL_AS_TEXT),
        _ => {}
    }
    check_outcome(&result, &outcome, interrupt, &records, |failure| {
        view.has_reported(failure)
    })
}

/// Returns the roles that are served by rules instead of a model.
pub(in crate::command) fn served_by_rules(app: &App) -> Vec<Role> {
    let rules = OfflineModel::new().info().model.provider;
    let models = app.orchestrator.models();
    let by_rules = models.filter(|(_, info)| info.model.provider == rules);
    by_rules.map(|(role, _)| role.clone()).collect()
}

/// Returns the error for a run that was left without an end.
fn unfinished_error(run: &RunHandle, why: NoResult) -> CommandError {
    let id = run.run_id();
    match why {
        // For example after a laptop was suspended. What happened to the run meanwhile is unknown here.
        NoResult::Unrecorded(StoreError::Stale(_)) => CommandError::failed(why).hint(format!(
            "`neuraxis runs show {id}` shows its state; if it has not ended, `neuraxis runs resume {id}` resumes it"
        )),
        NoResult::Unrecorded(StoreError::Full(_)) => CommandError::failed(why).hint(format!(
            "free some disk space where the database is; then `neuraxis runs resume {id}` resumes it"
        )),
        NoResult::Unrecorded(_) => {
            let hint = format!("`neuraxis runs resume {id}` resumes it");
            CommandError::failed(why).hint(hint)
        }
        _ => CommandError::failed(anyhow::anyhow!(
            "the run crashed: this is a bug in neuraxis"
        )),
    }
}

/// Shown if the answer is only part of what the model wrote.
const WAS_WITHHELD: &str = "the answer was cut off: the provider's content filter withheld the rest of it; rephrase the request";

/// Shown if the answer is the model's refusal.
const WAS_REFUSED: &str = "the model refused to answer; rephrase the request";

/// Shown if the answer contains a call that was not run.
const CALL_AS_TEXT: &str = "the answer contains a tool call written as text, which was not run: the model server does not recognize calls in this model's format";

/// Returns whether a run's answer contains a tool call that its model wrote as text. Calls in code blocks do not count,
/// since they are not meant to run.
fn is_call_as_text(records: &[Arc<Record>]) -> bool {
    last_reply(records).is_some_and(|reply| {
        let text = reply.text();
        !text.trim().is_empty() && !text.contains("```") && !is_last_answer(reply)
    })
}

/// Returns the message that a limit cut a run's answer, with the number of tokens if the provider reported it.
fn was_cut(run: &RunHandle) -> String {
    let records = run.records();
    let last = root_calls(&records).next_back();
    let tokens = last.map(|call| call.reply.usage.completion);
    let after = match tokens.filter(|count| count.label == CountLabel::Measured) {
        Some(count) => format!(" after {}", counted(count.tokens, "token")),
        None => String::new(),
    };
    format!(
        "the answer was cut off: the model reached its limit{after} (the model server's own, or the mode's max_output_tokens)"
    )
}

/// Cancels a run because of a signal. Only Ctrl-C is sent by the user at the terminal.
pub(in crate::command) fn cancel(run: &RunHandle, signal: Signal) {
    let by = (signal == Signal::Interrupt).then(user_name);
    // A run that has already ended cannot be cancelled, and need not be.
    let _ = run.clone().sent_by(by).cancel(signal.reason());
}

/// Returns an error unless the run gave an answer. A failure that was already reported is not repeated in it.
pub(super) fn check_outcome(
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
        && let Some(signal) = interrupt.signal()
    {
        return Err(CommandError::interrupted(signal));
    }
    if result.status == RunStatus::Waiting {
        return Err(waiting::of(result, records));
    }
    let reason = result.finish_reason.as_ref();
    if result.status == RunStatus::Done {
        let Some(instead) = outcome.instead.clone() else {
            return match outcome.text.trim().is_empty() {
                false => Ok(()),
                true => Err(CommandError::failed(anyhow::anyhow!(NO_ANSWER))
                    .hint("rephrase the request, or use another model: -m MODEL (`neuraxis models` lists them)")),
            };
        };
        if outcome.served == Served::No {
            let error = anyhow::anyhow!(instead).context(NOTHING_SERVED);
            return Err(CommandError::no_answer(error));
        }
        let error = anyhow::anyhow!(instead);
        return Err(match reason.is_some_and(is_a_limit) {
            true => CommandError::at_limit(error).hint(at_a_limit(records)),
            false => CommandError::failed(error),
        });
    }
    let reason = reason.map_or_else(
        || "the reason is unknown".to_owned(),
        FinishReason::to_string,
    );
    let what = outcome.instead.clone();
    let what = what.unwrap_or_else(|| "there is no answer".to_owned());
    let error = match is_known(&reason) || what.contains(&reason) {
        true => anyhow::anyhow!(what),
        false => anyhow::anyhow!(reason).context(what),
    };
    let error = CommandError::failed(error);
    Err(match result.status {
        // The run was cancelled from elsewhere on purpose.
        RunStatus::Interrupted => error,
        _ => error.hint(what_to_do(records)),
    })
}

/// Returns whether a limit ended a run, including the limit on the model's output. A model that repeated itself does
/// not count, since there is no limit to raise.
pub(super) fn is_a_limit(reason: &FinishReason) -> bool {
    let is_limit = reason.ends_at_a_limit() || *reason == FinishReason::Length;
    is_limit && !is_a_loop(reason)
}

/// Returns what to do about a limit. If a session or a day has used up its budget, no request has any left.
pub(super) fn at_a_limit(records: &[Arc<Record>]) -> String {
    let view = RunView::of(records);
    let spent = view.decision().and_then(|decided| decided.spent.as_ref());
    let what = match spent.map(|spent| spent.scope) {
        Some(BudgetScope::Session | BudgetScope::Day) => "raise the limit",
        Some(BudgetScope::Run) | None => "ask for less at once, or raise the limit",
    };
    format!("{what}: `{}` shows the limits", explain_command(records))
}

/// Returns the command that shows the limits of a run.
fn explain_command(records: &[Arc<Record>]) -> String {
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
