//! `neuraxis runs steer`.

use std::time::Duration;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::RunStatus;
use neuraxis::core::{InputId, RunId};
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunSummary, StoreError};

use crate::approve::user_name;
use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs steer last \"Leave out anything older than a year.\"
  neuraxis runs steer 9b7a5c31 \"In German, please.\"";

/// How many times to check whether a run took a message, and the pause between checks. A process looks for messages at
/// least every five seconds.
const LOOKS: u32 = 60;
const PAUSE: Duration = Duration::from_millis(100);

/// Send a message to a run in progress
///
/// The message joins the conversation once the tool calls in progress have their results, and the model continues from
/// it. The process that drives the run receives it within seconds, and this command waits for that. The exit code is 1
/// if the run ended before. A run that waits for an approval, or was left behind by its process, receives the message
/// when it continues.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Steer {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
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
            return Err(comes_too_late(&run, "has ended"));
        }
        let posted = sessions.steer_by(id, self.text, Some(user_name())).await?;
        let run = wait_until_taken(sessions, id).await?;
        if run.ended_at.is_some() && !is_on_record(sessions, id, &posted).await? {
            return Err(comes_too_late(&run, "ended before it received this"));
        }
        Ok(Output::new().sentence(&describe_delivery(&run))?)
    }
}

/// Waits until the run's process took the message or the run ended, but not indefinitely. Returns the run's state after
/// that.
async fn wait_until_taken(sessions: &Sessions, id: RunId) -> Result<RunSummary, StoreError> {
    for _ in 0..LOOKS {
        let run = sessions.run(id).await?;
        if !run.has_mail || run.leased_until.is_none() {
            return Ok(run);
        }
        tokio::time::sleep(PAUSE).await;
    }
    sessions.run(id).await
}

/// Returns whether a run took the message: what it has not taken when it ends is lost.
async fn is_on_record(
    sessions: &Sessions,
    id: RunId,
    posted: &InputId,
) -> Result<bool, StoreError> {
    let records = sessions.records(id).await?;
    let mut taken = records.iter().filter_map(|record| record.inbox_id());
    Ok(taken.any(|taken| taken == *posted))
}

fn comes_too_late(run: &RunSummary, why: &str) -> CommandError {
    let (id, session) = (run.run_id, &run.session);
    CommandError::failed(anyhow!("run {id} {why}")).hint(format!(
        "`neuraxis ask --session {session} TEXT` continues from its answer"
    ))
}

/// Describes when a run receives a message.
fn describe_delivery(run: &RunSummary) -> String {
    let id = run.run_id;
    if !run.has_mail {
        return format!("run {id} received the message");
    }
    if run.leased_until.is_some() {
        return format!(
            "run {id} has not received it yet; if its process has died, it receives it when it resumes"
        );
    }
    match run.status {
        RunStatus::Waiting => format!(
            "run {id} receives it when it resumes; `neuraxis approvals show {id}` shows what it is waiting for"
        ),
        _ => format!(
            "run {id} receives it when `neuraxis runs resume {id}` or the server resumes it"
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis::memory::MemoryStore;
    use neuraxis::ports::{RunLog as _, Session, SessionIndex as _};
    use neuraxis_testkit::{CountingIds, RunLog, START};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn steering_not_received_before_the_run_ended_is_an_error() {
        let store = Arc::new(MemoryStore::new());
        let session = Session::new("main".parse().unwrap(), START);
        store.create_session(&session).await.unwrap();
        let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
        let lease = store.begin_run(&session.id, log.run()).await.unwrap();
        store
            .commit(&lease, &[log.started("Hello?")])
            .await
            .unwrap();
        let sessions = Sessions::new(store.clone());
        let says = |text: &str| {
            let (id, text) = (log.run().to_string(), text.to_owned());
            Steer { id, text }.run(&sessions)
        };
        let takes = async {
            tokio::time::sleep(PAUSE).await;
            let posted = store.inbox(&lease).await.unwrap().swap_remove(0).id;
            store.settle(&lease, &[posted]).await.unwrap();
        };
        let (heard, ()) = tokio::join!(says("In German."), takes);
        heard.unwrap();
        let late = says("Stop.");
        let ends = async {
            tokio::time::sleep(PAUSE).await;
            store
                .commit(&lease, &[log.clone().finished("Hi.")])
                .await
                .unwrap();
        };
        let (late, ()) = tokio::join!(late, ends);
        let told = late.unwrap_err().render(None);
        assert!(told.contains("ended before it received this"), "{told}");
    }
}
