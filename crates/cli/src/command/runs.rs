//! `neuraxis runs`: shows what happened when a message was handled.

mod cassette;
mod fork;
mod list;
mod outline;
mod output;
mod replay;
mod resume;
mod show;
mod steer;
mod tail;

use anstyle::{AnsiColor, Style};
use clap::{Args, Subcommand};
use neuraxis::core::BudgetKind;
use neuraxis::engine::Sessions;
use neuraxis::ports::RunSummary;
use neuraxis::{FinishReason, RunStatus};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::listing::{Item, Layout};
use crate::quantities::{moment, money};
use crate::setup::{Setup, with_store};
pub(in crate::command) use cassette::save as save_recording;
pub(in crate::command) use fork::role_of;

/// List, show and check runs, branch off from them, and resume those that were left behind
///
/// A run is one message handled end to end. An id may be given by its beginning or end, and last stands for the last
/// run.
#[derive(Debug, Args)]
#[command(arg_required_else_help = true, disable_help_subcommand = true)]
pub(crate) struct Runs {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Tail(tail::Tail),
    Output(output::RunOutput),
    Replay(replay::Replay),
    Fork(fork::Fork),
    Resume(resume::Resume),
    Steer(steer::Steer),
    Cassette(cassette::Cassette),
}

impl Runs {
    pub(crate) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        match self.command {
            Command::Fork(fork) => fork.run(setup).await,
            Command::Resume(resume) => resume.run(setup).await,
            Command::Cassette(cassette) => cassette.run(setup).await,
            Command::Replay(replay) if replay.is_of_a_file() => replay.run_on_file(),
            Command::List(list) => read(setup, async |sessions| list.run(sessions).await).await,
            Command::Show(show) => read(setup, async |sessions| show.run(sessions).await).await,
            Command::Tail(tail) => read(setup, async |sessions| tail.run(sessions).await).await,
            Command::Output(output) => {
                read(setup, async |sessions| output.run(sessions).await).await
            }
            Command::Replay(replay) => {
                read(setup, async |sessions| replay.run(sessions).await).await
            }
            Command::Steer(steer) => read(setup, async |sessions| steer.run(sessions).await).await,
        }
    }
}

/// Runs the subcommands that only need a store.
async fn read(
    setup: &Setup,
    work: impl AsyncFnOnce(&Sessions) -> Result<(), CommandError>,
) -> Result<(), CommandError> {
    with_store(setup.load()?.store().await?, work).await
}

/// The width of the column with a run's status and the reason why it ended.
const STATUS_AND_REASON_WIDTH: usize = 16;

/// The width of the columns between a run's id and its text: when it began, its status, its turns and its cost.
const MIDDLE: usize = 19 + 2 + STATUS_AND_REASON_WIDTH + 2 + 5 + 2 + 11;

/// Formats a run as a list item.
fn item(run: &RunSummary) -> Item {
    let status = status_and_reason_column(run);
    let started = run.started_at.map(moment).unwrap_or_default();
    let turns = run.turns;
    let cost = money(run.metrics().paid()).unwrap_or_default();
    Item {
        id: run.run_id.to_string(),
        middle: vec![
            format!("{started:<19}"),
            status,
            format!("{turns:>5}"),
            format!("{cost:>11}"),
        ],
        about: run.text.clone().unwrap_or_default(),
    }
}

/// Formats a run as a line of a table.
pub(super) fn run_in_text(run: &RunSummary) -> String {
    Layout::Whole.item(&item(run))
}

/// Formats a run as JSON.
pub(super) fn run_in_json(run: &RunSummary) -> Value {
    json!({
        "run_id": run.run_id,
        "session_id": run.session,
        "owner": run.owner,
        "status": run.status,
        "started_at": run.started_at,
        "ended_at": run.ended_at,
        "turns": run.turns,
        "finish_reason": run.finish_reason,
        "text": run.text,
        "pending": run.pending,
        "records": run.records,
        "used": run.metrics(),
    })
}

/// Returns the style of a status.
pub(super) const fn style_of(status: RunStatus) -> Style {
    match status {
        RunStatus::Done => AnsiColor::Green.on_default(),
        RunStatus::Failed => AnsiColor::Red.on_default(),
        RunStatus::Running | RunStatus::Waiting => AnsiColor::Yellow.on_default(),
        RunStatus::Interrupted => Style::new().dimmed(),
    }
}

/// Returns whether a run was ended because its model repeated itself.
pub(super) const fn is_a_loop(reason: &FinishReason) -> bool {
    let FinishReason::Budget(kind) = reason else {
        return false;
    };
    match kind {
        BudgetKind::RepeatedCalls | BudgetKind::UnknownTools => true,
        BudgetKind::ToolCalls
        | BudgetKind::Tokens
        | BudgetKind::Cost
        | BudgetKind::Time
        | BudgetKind::ModelCalls
        | BudgetKind::Log => false,
    }
}

/// Formats a run's status as a column, with why the run is done if not because its model answered.
fn status_and_reason_column(run: &RunSummary) -> String {
    let (style, status) = (style_of(run.status), run.status.as_str());
    let reason = run.finish_reason.as_ref();
    let reason = reason
        .filter(|reason| run.status == RunStatus::Done && **reason != FinishReason::Stop)
        .map(|reason| match is_a_loop(reason) {
            true => " (loop)".to_owned(),
            false => format!(" ({})", reason.name()),
        })
        .unwrap_or_default();
    let blanks = " ".repeat(STATUS_AND_REASON_WIDTH.saturating_sub(status.len() + reason.len()));
    format!("{style}{status}{style:#}{reason}{blanks}")
}

/// Formats a status as a column.
pub(super) fn status_column(status: Option<RunStatus>) -> String {
    let Some(status) = status else {
        return format!("{:<11}", "");
    };
    let (style, name) = (style_of(status), status.as_str());
    let blanks = " ".repeat(11_usize.saturating_sub(name.len()));
    format!("{style}{name}{style:#}{blanks}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_color_of_a_status_ends_with_its_word() {
        let column = status_column(Some(RunStatus::Done));
        assert!(column.ends_with("\u{1b}[0m       "), "{column:?}");
        assert_eq!(crate::wrap::width(&column), 11);
    }
}
