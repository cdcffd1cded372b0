//! `neuraxis runs replay`.

use std::io::BufReader;
use std::path::Path;

use anyhow::anyhow;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::core::Seq;
use neuraxis::core::log::describe::counted;
use neuraxis::engine::{
    FindError, LogFileError, RecordedRun, ReplayError, ReplayFailure, ReplayReport, Sessions,
    read_log_file,
};
use serde_json::{Value, json};

use crate::arguments::open_file;
use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::Format;
use crate::output::Output;

/// The maximum size of a file in bytes: a few of the longest runs.
const MAX_FILE_BYTES: u64 = 512 * 1024 * 1024;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs replay last
  neuraxis runs replay trip.jsonl
  neuraxis ask --format events \"What time is it?\" > run.jsonl; neuraxis runs replay run.jsonl";

/// Repeat a run from its log, without models and tools, and report any difference
///
/// Every recorded cause is given to the loop again, and every record is compared with the loop's result. No model is
/// called and no tool runs. The exit code is 1 if there is a difference, or if a log cannot be replayed, which is
/// reported with the reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// The run: its id, the beginning or end of its id, or last; or a file from `sessions export` or `--format events`
    #[arg(value_name = "RUN|FILE", add = ArgValueCompleter::new(completion::runs))]
    log: String,

    /// What to print: a report, or a JSON array with one report per run
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The result of a replay.
type Replayed = Result<ReplayReport, ReplayFailure>;

impl Replay {
    /// Returns whether the argument names a file.
    pub(super) fn is_of_a_file(&self) -> bool {
        Path::new(&self.log).is_file()
    }

    pub(super) fn run_on_file(self) -> Result<(), CommandError> {
        let runs = read_file(Path::new(&self.log))?;
        self.report(&runs)
    }

    pub(super) async fn run(self, sessions: &Sessions) -> Result<(), CommandError> {
        let run = lookup::run_if_any(sessions, &self.log).await?;
        let run = run.ok_or_else(|| self.missing())?;
        self.report(&[sessions.recorded_run(run.run_id).await?])
    }

    /// Returns the error for an argument that names no run. If it cannot be part of an id, it may have been meant as a
    /// file.
    fn missing(&self) -> CommandError {
        let is_of_id = |letter: char| letter.is_ascii_hexdigit() || letter == '-';
        if self.log.chars().all(is_of_id) {
            return FindError::NoRun(self.log.clone()).into();
        }
        let text = one_line(&self.log);
        CommandError::usage(anyhow!("there is no run and no file {text:?}"))
            .hint("`neuraxis runs list` lists your runs")
    }

    fn report(&self, runs: &[RecordedRun]) -> Result<(), CommandError> {
        let reports: Vec<_> = runs.iter().map(|run| (run, run.replay())).collect();
        let text = match self.format {
            Format::Text => reports
                .iter()
                .map(|(run, outcome)| in_text(run, outcome))
                .collect(),
            Format::Json => {
                let list: Value = reports
                    .iter()
                    .map(|(run, outcome)| in_json(run, outcome))
                    .collect();
                format!("{list:#}\n")
            }
        };
        Output::new().text(&text)?;
        let all = counted(reports.len() as u64, "run");
        let of =
            |is: fn(&Replayed) -> bool| reports.iter().filter(|(_, outcome)| is(outcome)).count();
        let differ = of(|outcome| matches!(outcome, Err(ReplayFailure::Differs(_))));
        let impossible = of(|outcome| matches!(outcome, Err(ReplayFailure::Impossible(_))));
        match (differ, impossible) {
            (0, 0) => Ok(()),
            (0, _) => Err(CommandError::failed(anyhow!(
                "{impossible} of {all} cannot be replayed"
            ))),
            _ => Err(CommandError::failed(anyhow!(
                "replaying {differ} of {all} gave different records"
            ))),
        }
    }
}

/// Reads the logs of a file.
fn read_file(path: &Path) -> Result<Vec<RecordedRun>, CommandError> {
    let shown = path.display();
    let file = open_file(path)?;
    let length = file.metadata().map_or(0, |about| about.len());
    if length > MAX_FILE_BYTES {
        let error = anyhow!("{shown} is longer than {MAX_FILE_BYTES} bytes");
        return Err(CommandError::failed(error).hint("import it, then replay one run at a time"));
    }
    read_log_file(BufReader::new(file)).map_err(|error| {
        let unreadable = |line, error: anyhow::Error| {
            let error = error.context(format!("cannot parse line {line} of {shown}"));
            CommandError::failed(error).hint("`neuraxis sessions export` writes such a file")
        };
        match error {
            LogFileError::Io { line, source } => {
                let what = format!("cannot read line {line} of {shown}");
                CommandError::failed(anyhow::Error::new(source).context(what))
            }
            LogFileError::Line { line, source } => unreadable(line, source.into()),
            LogFileError::OtherFormat { line, .. } => unreadable(line, error.into()),
            LogFileError::CutOff => {
                let error = anyhow::Error::new(error).context(format!("{shown} is incomplete"));
                CommandError::failed(error).hint("export it again with `neuraxis sessions export`")
            }
            LogFileError::Empty => CommandError::failed(anyhow!("{shown} holds no records")),
            error => CommandError::failed(error),
        }
    })
}

fn name(run: &RecordedRun) -> String {
    let run = run.run_id();
    run.map_or_else(|| "a run without records".to_owned(), |run| run.to_string())
}

fn in_text(run: &RecordedRun, outcome: &Replayed) -> String {
    let name = name(run);
    match outcome {
        Ok(report) => {
            let ReplayReport {
                records,
                steps,
                status,
                ..
            } = report;
            let status = status.as_str();
            format!("run {name}: identical, {records} records in {steps} steps, {status}\n")
        }
        Err(ReplayFailure::Impossible(why)) => {
            format!("run {name}: cannot be replayed\n  {}\n", one_line(why))
        }
        Err(ReplayFailure::Differs(ReplayError::Diverged {
            seq,
            place,
            expected,
            found,
        })) => format!(
            "run {name}: differs\n  record           {seq}{}\n  field            {}\n  replaying gives  {}\n  the log has      {}\n",
            kind_of(run, *seq),
            one_line(place),
            one_line(expected),
            one_line(found)
        ),
        Err(error) => {
            format!("run {name}: differs\n  {}\n", one_line(&error.to_string()))
        }
    }
}

fn kind_of(run: &RecordedRun, seq: Seq) -> String {
    let record = run.records.iter().find(|record| record.seq == seq);
    record
        .map(|record| format!(" ({})", record.body.kind()))
        .unwrap_or_default()
}

fn in_json(run: &RecordedRun, outcome: &Replayed) -> Value {
    let run = run.run_id();
    match outcome {
        Ok(report) => json!({
            "run_id": run,
            "outcome": "same",
            "records": report.records,
            "steps": report.steps,
            "status": report.status,
        }),
        Err(ReplayFailure::Impossible(why)) => json!({
            "run_id": run,
            "outcome": "cannot_be_replayed",
            "why": why,
        }),
        Err(error) => {
            let (seq, place, expected, found) = match error {
                ReplayFailure::Differs(ReplayError::Diverged {
                    seq,
                    place,
                    expected,
                    found,
                }) => (Some(seq), Some(place), Some(expected), Some(found)),
                _ => (None, None, None, None),
            };
            json!({
                "run_id": run,
                "outcome": "differs",
                "why": error.to_string(),
                "seq": seq,
                "field": place,
                "replaying_gives": expected,
                "log_has": found,
            })
        }
    }
}
