//! `neuraxis runs resume`.

use std::io::Write;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::core::{CallStage, RunStatus, Verdict};
use neuraxis::engine::{RecheckedCall, ResumedBy};
use neuraxis::ports::RunSummary;
use neuraxis_app::{App, CassetteUse};

use crate::approve::{IfUnattended, safe_words};
use crate::call::headline;
use crate::command::ask::{Attended, Format, View, watch};
use crate::command::{lease_progress, lookup};
use crate::completion;
use crate::confirm;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::output::Output;
use crate::rows::plain_in_margin;
use crate::setup::{Loaded, Setup, with_app};
use crate::terminal;
use crate::wrap::broken;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs resume last
  neuraxis runs resume last --cancel";

/// Resume a run that was left behind
///
/// A run whose process died continues from its last record: completed model calls are not repeated, and finished tools
/// do not run again. A call that was in progress runs again only if that does no harm. A run that waits for an approval
/// asks for it again. A process that died keeps its run for the time set by store.lease_ms; this command waits for
/// that, and the run stays with a process that turns out to be alive. With --cancel, a live process is told to end the
/// run.
///
/// The log alone lets nothing run: every unfinished call is checked again before it runs. An imported run is only
/// resumed if you agree after seeing its open calls.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Resume {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
    id: String,

    /// End the run instead of resuming it; its history stays valid
    #[arg(long)]
    cancel: bool,

    /// Resume an imported run without being asked
    #[arg(long, conflicts_with = "cancel")]
    yes: bool,

    /// What to print: the answer, one JSON object with the whole result, or one JSON object per line for each event
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

impl Resume {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        // A question that survived the death of a process must not be denied because nobody is at the terminal now.
        let loaded = setup.load()?;
        let if_unattended = match loaded.config.store().is_in_memory() {
            true => IfUnattended::Deny,
            false => IfUnattended::Wait,
        };
        let mut attended = Attended::new(&loaded.config, if_unattended)?;
        let app = attended.app(&loaded, CassetteUse::Off).await?;
        with_app(app, async |app| {
            self.resume((app, &loaded), &mut attended).await
        })
        .await
    }

    async fn resume(
        self,
        (app, loaded): (&App, &Loaded),
        attended: &mut Attended,
    ) -> Result<(), CommandError> {
        let (runs, sessions) = (app.orchestrator.runs(), app.orchestrator.sessions());
        let run = lookup::run(&sessions, &self.id).await;
        let run = run.inspect_err(|_| loaded.warn_store_incomplete())?;
        let id = run.run_id;
        if run.records == 0 {
            lease_progress::abandon_unbegun(app, &run).await?;
            let session = run.session;
            let line = format!("run {id} had not started; session {session} is free again");
            return Ok(Output::new().sentence(&line)?);
        }
        if self.cancel {
            lease_progress::end(app, &run).await?;
            let line = match sessions.run(id).await?.status {
                RunStatus::Done => {
                    format!("run {id} finished before it could be cancelled")
                }
                _ => format!("run {id} has ended"),
            };
            return Ok(Output::new().sentence(&line)?);
        }
        lookup::check_unaltered(&sessions, &run.session).await?;
        let by = match runs.needs_user_to_resume(id).await? {
            true => {
                self.show_and_ask(app, &run).await?;
                ResumedBy::User
            }
            false => ResumedBy::Engine,
        };
        let handle = lease_progress::resume(app, id, by).await?;
        let view = View::new(self.format);
        watch(app, view, &handle, attended).await
    }

    /// Shows what a run from elsewhere would continue with, and asks the user to confirm.
    async fn show_and_ask(&self, app: &App, run: &RunSummary) -> Result<(), CommandError> {
        let id = run.run_id;
        let why = match run.imported {
            true => "was imported: its records were written elsewhere",
            false => "does not record which folder its tools worked in",
        };
        let calls = app.orchestrator.runs().open_calls(id).await?;
        let columns = terminal::error_columns().unwrap_or(usize::MAX);
        let open: String = match calls.is_empty() {
            true => "it has no open calls\n".to_owned(),
            false => calls.iter().map(|call| in_text(call, columns)).collect(),
        };
        let mut stderr = anstream::stderr();
        write!(stderr, "run {id} {why}\n{open}")?;
        if self.yes {
            return Ok(());
        }
        if !confirm::can_ask_user() {
            let error = anyhow!(
                "resuming run {id} requires your confirmation, but there is no terminal to ask on"
            );
            return Err(CommandError::usage(error).hint("review its open calls, then add --yes"));
        }
        // The list of calls may have scrolled off the screen.
        if !calls.is_empty() {
            let named = calls.iter().map(|call| in_short(call, columns));
            write!(stderr, "run {id} {why}\n{}", named.collect::<String>())?;
        }
        match confirm::ask_yes_no("Resume it?")? {
            true => Ok(()),
            false => Err(CommandError::failed(anyhow!("the run was not resumed"))),
        }
    }
}

/// Describes a call: its progress, what would run, and what the tool and the policy here say about it.
fn in_text(open: &RecheckedCall, columns: usize) -> String {
    let stage = match open.call.stage {
        CallStage::Begun | CallStage::Unchecked => "",
        CallStage::Ready => ", checked and ready to run",
        CallStage::Asking => ", waiting for approval",
    };
    let begun = match open.call.has_begun {
        true => "started, outcome unknown",
        false => "not started",
    };
    let class = open.class.map(|class| class.to_string());
    let class = class.unwrap_or_else(|| "no such tool".to_owned());
    let verdict = verdict(open);
    let ours = |line: &str| broken(line, columns, "      ") + "\n";
    let name = ours(&format!("  {}", safe_words(&open.call.name)));
    let arguments = plain_in_margin(open.call.arguments.as_str(), columns);
    let verdict = ours(&format!("    verdict here: {verdict}"));
    format!("{name}{arguments}    {begun}{stage}\n    class here: {class}\n{verdict}")
}

/// Names a call, with the verdict of the policy here, in a line or two.
fn in_short(open: &RecheckedCall, columns: usize) -> String {
    let call = safe_words(&headline(&open.call.name, open.call.arguments.as_str()));
    broken(
        &format!("  {call}{DOT}{}", verdict(open)),
        columns,
        "      ",
    ) + "\n"
}

/// Returns the verdict of the policy here about a call.
fn verdict(open: &RecheckedCall) -> String {
    match &open.verdict {
        Verdict::Allow => "allow".to_owned(),
        Verdict::Ask { reason, .. } => format!("ask: {}", safe_words(reason)),
        Verdict::Deny { reason, .. } => format!("deny: {}", safe_words(reason)),
    }
}
