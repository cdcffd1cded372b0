//! `neuraxis runs tail`.

use clap::{Args, ValueEnum};
use neuraxis::core::{Record, RecordBody, Seq};
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunFilter, RunSummary};

use super::outline::lines;
use crate::error::CommandError;
use crate::output::{Output, on_one_line};
use crate::progress::Progress;
use crate::wrap::broken;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs tail
  neuraxis runs tail 0199f3a1 --format events | jq -r .type";

/// What stands before the lines of an event but the first.
const MARGIN: &str = "               ";

/// Follow a run: what it did so far, and what it does, to its end
///
/// It may be at work in another process, such as a server. One that waits for an answer is followed until it goes on and
/// ends. Without an id, the newest run is followed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tail {
    /// The run, or the beginning of its id
    id: Option<String>,

    /// What to print: a line for what happens, or each record as a line of JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The form of what happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// Its records, one JSON object a line
    Events,
}

impl Tail {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let Some(run) = self.find(sessions).await? else {
            Progress::new().notice("there are no runs yet: `neuraxis chat` begins one");
            return Ok(());
        };
        let mut output = Output::new();
        if self.format == Format::Text {
            Progress::new().notice(&format!("run {} of session {}", run.run_id, run.session));
        }
        let mut followed = sessions.follow(run.run_id, Seq(0));
        loop {
            let record = match followed.next().await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    Progress::new().notice(&format!("the run could not be read: {error}"));
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.format {
                Format::Events => output.line(&on_one_line(&record.to_json()))?,
                Format::Text => {
                    if let Some(line) = in_text(&record) {
                        let columns = output.is_terminal().then(|| output.width());
                        let line = columns
                            .map_or_else(|| line.clone(), |most| broken(&line, most, MARGIN));
                        output.painted(&format!("{line}\n"))?;
                    }
                }
            }
        }
    }

    async fn find(&self, sessions: &Sessions) -> Result<Option<RunSummary>, CommandError> {
        match &self.id {
            Some(id) => Ok(Some(sessions.find_run(id).await?)),
            None => {
                let newest = RunFilter::default().limited_to(1);
                Ok(sessions.each_run(newest).next().await?)
            }
        }
    }
}

/// Describes what happened in a line, with when and to which agent, if it is worth one.
fn in_text(record: &Record) -> Option<String> {
    let what = match &record.body {
        RecordBody::ToolCall(call) => lines::call(call),
        RecordBody::ToolResult(result) => lines::not_started(result),
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => lines::end_of_agent(outcome),
        body => lines::of(record, body)?,
    };
    let at = record.at.strftime("%H:%M:%S");
    Some(format!("{at}  {:<4} {what}", record.agent.to_string()))
}
