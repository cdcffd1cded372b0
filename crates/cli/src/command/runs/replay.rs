//! `neuraxis runs replay`.

use std::path::Path;
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use neuraxis::core::{LOOP_VERSION, Record, RecordBody, Seq, Transcript};
use neuraxis::engine::{ReplayError, ReplayReport, replay};
use neuraxis::ports::SessionStore;
use serde_json::{Value, json};

use super::log_file;
use crate::command::lookup;
use crate::error::CommandError;
use crate::harmless::one_line;
use crate::listing::Format;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  neuraxis runs replay 0199f3a1
  neuraxis runs replay trip.jsonl
  neuraxis ask --format events \"What time is it?\" > run.jsonl; neuraxis runs replay run.jsonl";

/// Re-drive the loop from a run's log, and report any difference
///
/// Every recorded cause is given to the loop again, and every record compared with what the loop makes of it. No model is
/// asked and no tool is run. Exit code 1 if there is a difference, or if a log cannot be replayed, which is said with the
/// reason.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Replay {
    /// The run, or the beginning of its id; or a file that `sessions export` or `--format events` wrote
    #[arg(value_name = "RUN|FILE")]
    log: String,

    /// What to print: a report for people, or a JSON array with one for each run
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

/// The records of a run, and what it goes on from; or why nobody can tell.
pub(super) struct Log {
    pub(super) history: Result<Transcript, String>,
    pub(super) records: Vec<Arc<Record>>,
}

/// What came of a replay.
enum Replayed {
    Same(ReplayReport),
    Differs(ReplayError),
    Impossible(String),
}

impl Replay {
    /// Tells whether a file is meant.
    pub(super) fn is_of_a_file(&self) -> bool {
        Path::new(&self.log).is_file()
    }

    pub(super) fn run_on_file(self) -> Result<(), CommandError> {
        let logs = log_file::read(Path::new(&self.log))?;
        self.report(&logs)
    }

    pub(super) async fn run(self, store: &dyn SessionStore) -> Result<(), CommandError> {
        let run = lookup::run(store, &self.log).await?.run_id;
        let records = store.records(run, Seq(0)).await?;
        // Where something is withheld, its history does not lead to what is recorded either.
        let history = match cannot_be_replayed(&records) {
            Some(why) => Err(why),
            None => store
                .history_before(run)
                .await
                .map_err(|error| error.to_string()),
        };
        self.report(&[Log { history, records }])
    }

    fn report(&self, logs: &[Log]) -> Result<(), CommandError> {
        let reports: Vec<_> = logs.iter().map(|log| (log, log.replayed())).collect();
        let text = match self.format {
            Format::Text => reports
                .iter()
                .map(|(log, came)| in_text(log, came))
                .collect(),
            Format::Json => {
                let list: Value = reports
                    .iter()
                    .map(|(log, came)| in_json(log, came))
                    .collect();
                format!("{list:#}\n")
            }
        };
        Output::new().text(&text)?;
        let all = reports.len();
        let of = |is: fn(&Replayed) -> bool| reports.iter().filter(|(_, came)| is(came)).count();
        let differ = of(|came| matches!(came, Replayed::Differs(_)));
        let impossible = of(|came| matches!(came, Replayed::Impossible(_)));
        match (differ, impossible) {
            (0, 0) => Ok(()),
            (0, _) => Err(CommandError::failed(anyhow!(
                "{impossible} of {all} runs cannot be replayed"
            ))),
            _ => Err(CommandError::failed(anyhow!(
                "{differ} of {all} runs differ from what their causes lead to"
            ))),
        }
    }
}

impl Log {
    fn replayed(&self) -> Replayed {
        if let Some(why) = cannot_be_replayed(&self.records) {
            return Replayed::Impossible(why);
        }
        let history = match &self.history {
            Ok(history) => history,
            Err(why) => return Replayed::Impossible(why.clone()),
        };
        match replay(history, &self.records) {
            Ok(report) => Replayed::Same(report),
            Err(error @ (ReplayError::OtherVersion { .. } | ReplayError::OtherHistory { .. })) => {
                Replayed::Impossible(error.to_string())
            }
            Err(error) => Replayed::Differs(error),
        }
    }

    fn name(&self) -> String {
        let first = self.records.first();
        first.map_or_else(
            || "a run without records".to_owned(),
            |first| first.run_id.to_string(),
        )
    }
}

/// Says why a log cannot be replayed whatever it holds, if that is so.
fn cannot_be_replayed(records: &[Arc<Record>]) -> Option<String> {
    let RecordBody::RunStarted(started) = &records.first()?.body else {
        return None;
    };
    if started.loop_version != LOOP_VERSION {
        let found = started.loop_version;
        return Some(format!(
            "it was recorded by loop version {found}, and this is version {LOOP_VERSION}, which may decide otherwise"
        ));
    }
    let withheld = started.spec.withheld()?;
    Some(format!(
        "the data policy withheld {withheld}: a hash stands in its place, and nothing can be made of a hash"
    ))
}

fn in_text(log: &Log, came: &Replayed) -> String {
    let name = log.name();
    match came {
        Replayed::Same(report) => {
            let ReplayReport {
                records,
                steps,
                status,
                ..
            } = report;
            let status = status.as_str();
            format!("run {name}: the same, {records} records in {steps} steps, {status}\n")
        }
        Replayed::Impossible(why) => {
            format!("run {name}: cannot be replayed\n  {}\n", one_line(why))
        }
        Replayed::Differs(ReplayError::Diverged {
            seq,
            place,
            expected,
            found,
        }) => format!(
            "run {name}: differs\n  record           {seq}{}\n  field            {}\n  replaying gives  {}\n  the log has      {}\n",
            log.kind_of(*seq),
            one_line(place),
            one_line(expected),
            one_line(found)
        ),
        Replayed::Differs(error) => {
            format!("run {name}: differs\n  {}\n", one_line(&error.to_string()))
        }
    }
}

impl Log {
    fn kind_of(&self, seq: Seq) -> String {
        let record = self.records.iter().find(|record| record.seq == seq);
        record
            .map(|record| format!(" ({})", record.body.kind()))
            .unwrap_or_default()
    }
}

fn in_json(log: &Log, came: &Replayed) -> Value {
    let run = log.records.first().map(|first| first.run_id);
    match came {
        Replayed::Same(report) => json!({
            "run_id": run,
            "outcome": "same",
            "records": report.records,
            "steps": report.steps,
            "status": report.status,
        }),
        Replayed::Impossible(why) => json!({
            "run_id": run,
            "outcome": "cannot_be_replayed",
            "why": why,
        }),
        Replayed::Differs(error) => {
            let (seq, place, expected, found) = match error {
                ReplayError::Diverged {
                    seq,
                    place,
                    expected,
                    found,
                } => (Some(seq), Some(place), Some(expected), Some(found)),
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
