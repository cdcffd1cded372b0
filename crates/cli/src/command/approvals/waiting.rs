//! Calls that wait for approval: how one is selected and described.

use anyhow::anyhow;
use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use clap_complete::ArgValueCompleter;
use neuraxis::core::AgentId;
use neuraxis::engine::{SystemClock, WaitingApproval};
use neuraxis::ports::Clock;
use neuraxis_app::App;

use crate::approve::{asking_agent, safe_words};
use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::quantities::moment;
use crate::wrap::broken;

/// Selects a call.
#[derive(Debug, Args)]
pub(super) struct CallSelector {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::waiting_runs))]
    run: String,

    /// Only this question: its name, as `approvals list` prints it
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    question: Option<String>,
}

impl CallSelector {
    /// Returns whether a question is named.
    pub(super) const fn names_question(&self) -> bool {
        self.question.is_some()
    }
}

/// Returns the selected calls: all that the run waits for, if no question is named.
pub(super) async fn several(
    app: &App,
    which: &CallSelector,
) -> Result<Vec<WaitingApproval>, CommandError> {
    let summary = lookup::run(&app.orchestrator.sessions(), &which.run).await?;
    let run = summary.run_id;
    let mut waiting = app.orchestrator.approvals().of_run(&summary).await?;
    if let Some(question) = &which.question {
        waiting.retain(|waiting| waiting.question() == *question);
    }
    if !waiting.is_empty() {
        return Ok(waiting);
    }
    let Some(question) = &which.question else {
        let error = anyhow!("run {run} is not waiting for an approval");
        return Err(CommandError::usage(error).hint(LIST));
    };
    let question = one_line(question);
    let error = anyhow!("run {run} is not waiting for an answer to question {question}");
    let hint = format!("`neuraxis approvals show {run}` shows what it asks now");
    Err(CommandError::failed(error).hint(hint))
}

/// Returns the selected question: the named one, or else the only one.
pub(super) async fn one(app: &App, which: &CallSelector) -> Result<WaitingApproval, CommandError> {
    let mut waiting = several(app, which).await?;
    match (waiting.pop(), waiting.len()) {
        (Some(only), 0) => Ok(only),
        (Some(last), others) => {
            let run = last.run_id;
            waiting.push(last);
            let names = waiting
                .iter()
                .take(MAX_NAMED)
                .map(WaitingApproval::question);
            let names: Vec<String> = names.collect();
            let names = names.join(", ");
            let error = anyhow!(
                "run {run} waits for your approval of {} calls: name one of {names}",
                others + 1
            );
            let hint = format!("`neuraxis approvals show {run}` shows them all");
            Err(CommandError::usage(error).hint(hint))
        }
        (None, _) => Err(CommandError::usage(anyhow!("nothing is waiting")).hint(LIST)),
    }
}

/// The maximum number of calls that an error names.
const MAX_NAMED: usize = 8;

const LIST: &str = "`neuraxis approvals list` shows what is waiting";

/// Returns a warning on a separate line if a call is not what was asked, or an empty string.
pub(super) fn alteration(waiting: &WaitingApproval, columns: usize) -> String {
    let altered = waiting.altered.iter();
    let warned = altered.map(|why| {
        let why = safe_words(why);
        let line = format!("ALTERED: this is not what was asked, and cannot be approved: {why}");
        broken(&line, columns, "    ") + "\n"
    });
    warned.collect()
}

/// Returns a line with the deadline for a decision, or an empty string if there is none.
pub(super) fn expiry(waiting: &WaitingApproval) -> String {
    let expired = waiting.expired_by(SystemClock.now());
    match (waiting.request.expires_at, expired) {
        (_, Some(at)) => format!("expired: {}; it will not run\n", moment(at)),
        (Some(at), None) => format!("expires: {}\n", moment(at)),
        (None, None) => String::new(),
    }
}

/// Describes each call in a few lines of this many columns.
pub(in crate::command) async fn in_text(
    app: &App,
    waiting: &[WaitingApproval],
    columns: usize,
) -> String {
    let mut text = String::new();
    // The calls of a run are adjacent, so its records are read once.
    let (mut read, mut records) = (None, Vec::new());
    for waiting in waiting {
        // The call itself does not say which sub-agent it belongs to.
        if waiting.agent != AgentId::ROOT && read != Some(waiting.run_id) {
            let found = app.orchestrator.sessions().records(waiting.run_id).await;
            (read, records) = (Some(waiting.run_id), found.unwrap_or_default());
        }
        let asked_by = match waiting.agent == AgentId::ROOT {
            true => None,
            false => asking_agent(&records, waiting.agent),
        };
        text.push_str(&one_in_text(waiting, asked_by, columns));
    }
    text
}

fn one_in_text(waiting: &WaitingApproval, asking_agent: Option<String>, columns: usize) -> String {
    let line = |line: String| broken(&line, columns, "    ");
    let asked = &waiting.request;
    let (session, since) = (&waiting.session_id, moment(waiting.requested_at));
    let whose = waiting
        .owner
        .iter()
        .map(|owner| format!(" of {}", safe_words(owner)));
    let whose: String = whose.collect();
    let indented = |line: String| match line.is_empty() {
        true => line,
        false => format!("  {line}"),
    };
    format!(
        "run {}\n  question {}\n{}\n{}{}\n{}\n{}\n{}{}",
        waiting.run_id,
        waiting.question(),
        line(format!("  session {session}{whose}, since {since}")),
        asking_agent.map_or_else(String::new, |asking_agent| line(format!(
            "  {asking_agent}"
        )) + "\n"),
        line(format!(
            "  call {}",
            safe_words(asked.tool_call_id.as_str())
        )),
        line(format!(
            "  {} {}",
            safe_words(&asked.name),
            safe_words(asked.arguments.as_str())
        )),
        line(format!("  why: {}", safe_words(&asked.reason))),
        indented(alteration(waiting, columns)),
        indented(expiry(waiting)),
    )
}
