//! `neuraxis runs tail`.

use clap::{Args, ValueEnum};
use clap_complete::ArgValueCompleter;
use neuraxis::core::log::checklist;
use neuraxis::core::{AgentId, Record, RecordBody, Seq};
use neuraxis::engine::Sessions;
use neuraxis::ports::{RunFilter, RunSummary};

use super::outline::lines;
use crate::call::{CallLog, named};
use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::glyphs::DOT;
use crate::harmless::{harmless, one_line};
use crate::invocation::again;
use crate::output::{Output, on_one_line};
use crate::progress;
use crate::wrap::broken;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs tail
  neuraxis runs tail last --format events | jq -r .type";

/// The indentation of an event's lines after the first.
const MARGIN: &str = "               ";

/// Follow a run: what it did so far, and what it does until it ends
///
/// The run may be in progress in another process, such as a server. A run that waits for an answer is followed until it
/// continues and ends. Without an id, the newest run is followed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Tail {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(add = ArgValueCompleter::new(completion::runs))]
    id: Option<String>,

    /// What to print: a line per event, or one line of JSON per record
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The output format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Human-readable text
    Text,
    /// Its records, one JSON object per line
    Events,
}

impl Tail {
    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let Some(run) = self.find(sessions).await? else {
            let none = "there are no runs yet; start one with `neuraxis chat`";
            progress::notice(&again(none));
            return Ok(());
        };
        let mut output = Output::new();
        if self.format == Format::Text {
            progress::notice(&format!("run {} of session {}", run.run_id, run.session));
        }
        let mut calls = CallLog::default();
        let mut followed = sessions.follow(run.run_id, Seq(0));
        loop {
            let record = match followed.next().await {
                Ok(Some(record)) => record,
                Ok(None) => return Ok(()),
                Err(error) if error.is_retryable() => {
                    progress::notice(&format!("cannot read the run: {error}"));
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            match self.format {
                Format::Events => output.line(&on_one_line(&record.to_json()))?,
                Format::Text => {
                    if let Some(line) = in_text(&record, &mut calls) {
                        let columns = output.columns().unwrap_or(usize::MAX);
                        let line = broken(&line, columns, MARGIN);
                        output.painted(&format!("{line}\n"))?;
                    }
                    if let Some(answer) = answer(&record) {
                        output.painted(&format!("\n{}\n", harmless(answer)))?;
                    }
                }
            }
        }
    }

    async fn find(&self, sessions: &Sessions) -> Result<Option<RunSummary>, CommandError> {
        match &self.id {
            Some(id) => Ok(Some(lookup::run(sessions, id).await?)),
            // This includes runs of evals, which may be in progress.
            None => {
                let filter = RunFilter::default().limited_to(1);
                Ok(sessions.each_run(filter).next().await?)
            }
        }
    }
}

/// Returns a run's answer from the record that ends it.
fn answer(record: &Record) -> Option<&str> {
    let (RecordBody::Final(outcome) | RecordBody::RunFailed(outcome)) = &record.body else {
        return None;
    };
    let is_of_run = record.agent == AgentId::ROOT;
    let answer = Some(outcome.content.trim_end());
    answer.filter(|answer| is_of_run && !answer.is_empty())
}

/// Describes an event in a line with its time and agent, if it deserves one. `calls` are the open calls.
fn in_text(record: &Record, calls: &mut CallLog) -> Option<String> {
    calls.add(record);
    let what = match &record.body {
        RecordBody::ToolCall(call) => named(&call.name, call.arguments.as_str()),
        RecordBody::ToolResult(result) => lines::ended(&calls.close(&result.tool_call_id), result),
        RecordBody::Plan(changed) => {
            let steps = checklist(&changed.plan).unwrap_or_default();
            let steps: Vec<String> = steps.lines().map(one_line).collect();
            format!("plan: {}", steps.join(DOT.as_str()))
        }
        RecordBody::Final(outcome) | RecordBody::RunFailed(outcome) => lines::end_of_agent(outcome),
        body => lines::of(record, body)?,
    };
    let at = record.at.strftime("%H:%M:%S");
    Some(format!("{at}  {:<4} {what}", record.agent.to_string()))
}
