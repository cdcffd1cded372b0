//! `neuraxis runs steer`.

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::RunStatus;
use neuraxis::engine::Sessions;
use neuraxis::ports::RunSummary;

use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs steer last \"Leave out what is older than a year.\"
  neuraxis runs steer 0199f3a1 \"In German, please.\"";

/// Say something to a run that is at work
///
/// The message joins its conversation once the tool calls that are under way have their results, and the model goes on from
/// it. Whichever process drives the run hears it within some seconds. One that waits for an approval, or was left behind by
/// its process, hears it when it goes on.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Steer {
    /// The run: its id, the beginning or the end of it, or last
    #[arg(add = ArgValueCompleter::new(completion::runs))]
    id: String,

    /// The message
    text: String,
}

impl Steer {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        if self.text.trim().is_empty() {
            return Err(CommandError::usage(anyhow!("the message is empty")));
        }
        let run = lookup::run(sessions, &self.id).await?;
        let id = run.run_id;
        if run.ended_at.is_some() {
            let error = CommandError::failed(anyhow!("run {id} has ended"));
            let session = &run.session;
            let hint = format!("`neuraxis ask --session {session} TEXT` goes on from its answer");
            return Err(error.hint(hint));
        }
        sessions.steer(id, self.text).await?;
        Ok(Output::new().sentence(&what_follows(&run))?)
    }
}

/// Says when a run hears a message.
fn what_follows(run: &RunSummary) -> String {
    let id = run.run_id;
    if run.leased_until.is_some() {
        return format!("run {id} is told");
    }
    match run.status {
        RunStatus::Waiting => format!(
            "run {id} hears it once it goes on: `neuraxis approvals show {id}` shows what it waits for"
        ),
        _ => format!(
            "run {id} hears it once it goes on: `neuraxis runs resume {id}`, or the server, takes it up"
        ),
    }
}
