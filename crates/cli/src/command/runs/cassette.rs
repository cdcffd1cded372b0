//! `neuraxis runs cassette`.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use clap_complete::ArgValueCompleter;
use neuraxis::cassette::{self, CassetteError, RecordingOptions};
use neuraxis::engine::{Sessions, SystemClock};
use neuraxis::ports::Clock;
use neuraxis_app::{secrets_notice, secrets_of};

use crate::command::lookup;
use crate::completion;
use crate::error::CommandError;
use crate::output::Output;
use crate::progress;
use crate::setup::{Setup, with_store};

const EXAMPLES: &str = "\
Examples:
  neuraxis runs cassette last trip.cassette
  neuraxis ask --replay trip.cassette \"What time is it in Tokyo?\"";

/// Turn what the models said in a run into a recording
///
/// The recording answers instead of the models, with `neuraxis ask --replay` or as provider cassette. Its first line
/// lists what the run's records do not contain; this is also printed.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Cassette {
    /// The run: its id, the beginning or end of its id, or last
    #[arg(value_name = "RUN", add = ArgValueCompleter::new(completion::runs))]
    id: String,

    /// The file, which must not exist yet
    file: PathBuf,
}

impl Cassette {
    pub(super) async fn run(self, setup: &Setup) -> Result<(), CommandError> {
        let loaded = setup.load()?;
        let open = loaded.store().await?;
        let redactor = secrets_of(&loaded.config, &loaded.environment);
        with_store(open, async |sessions| self.write(sessions, redactor).await).await
    }

    async fn write(
        self,
        sessions: &Sessions,
        redactor: cassette::Redactor,
    ) -> Result<(), CommandError> {
        let run = lookup::run(sessions, &self.id).await?.run_id;
        let records = sessions.records(run).await?;
        let history = sessions.history_before(run).await?;
        let made = cassette::Cassette::from_records(history, &records, redactor.clone());
        let made = made.with_context(|| format!("run {run} cannot be turned into a recording"));
        let made = made.map_err(|error| {
            CommandError::failed(error).hint(format!("`neuraxis runs replay {run}` shows why"))
        })?;
        let saved = save(&made, &self.file, redactor)?;
        if let Some(notice) = secrets_notice(&saved, &self.file) {
            progress::warn(&notice);
        }
        let mut output = Output::new();
        let (file, exchanges) = (self.file.display(), saved.exchanges);
        output.line(&format!("{file}: {exchanges} exchanges; it does not hold:"))?;
        for missing in made.not_captured() {
            output.line(&format!("  {missing}"))?;
        }
        Ok(())
    }
}

/// Saves the recording of a run as a new file.
pub(in crate::command) fn save(
    recording: &cassette::Cassette,
    file: &Path,
    redactor: cassette::Redactor,
) -> Result<cassette::RecordingSummary, CommandError> {
    let options = RecordingOptions::new(SystemClock.now()).redactor(redactor);
    recording.save(file, options).map_err(|error| match error {
        CassetteError::Exists { .. } | CassetteError::Io { .. } => {
            CommandError::usage(error).hint("name a new file in an existing folder")
        }
        error => CommandError::failed(error),
    })
}
