//! Options that record what models say, or replay it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use neuraxis::cassette::{self, CassetteConfig};
use neuraxis_app::CassetteUse;

/// Whether models are recorded, or replaced by a recording.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Record and replay")]
pub(in crate::command) struct CassetteArguments {
    /// Record the requests to the models and their replies in this new file, without secrets
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Let this recording answer instead of the models; tools still run
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// The timing of a replayed answer
    #[arg(long, value_enum, default_value_t = Speed::Instant, requires = "replay")]
    speed: Speed,

    /// Fail if a recording was not replayed, or was needed twice
    #[arg(long, requires = "replay")]
    strict: bool,

    /// Whether tools must return what was recorded; ids, times and dates are not compared
    #[arg(long, value_enum, default_value_t = ToolResults::Ignore, requires = "replay")]
    tool_results: ToolResults,
}

/// The timing of a replayed answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speed {
    /// The recorded timing
    Recorded,
    /// Without delay
    Instant,
}

/// Whether tool results are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolResults {
    /// They must be the same
    Compare,
    /// They may differ, but not in whether the call was denied
    Ignore,
}

impl CassetteArguments {
    /// Returns the file of the recording, if any.
    pub(in crate::command) fn file(&self) -> Option<&Path> {
        self.record.as_deref().or(self.replay.as_deref())
    }

    pub(in crate::command) fn chosen(&self) -> CassetteUse {
        if let Some(file) = &self.record {
            return CassetteUse::Record(file.clone());
        }
        let Some(file) = &self.replay else {
            return CassetteUse::Off;
        };
        let mut config = CassetteConfig::new(file);
        config.strict = self.strict;
        config.speed = match self.speed {
            Speed::Recorded => cassette::Speed::Recorded,
            Speed::Instant => cassette::Speed::Instant,
        };
        config.tool_results = match self.tool_results {
            ToolResults::Compare => cassette::ToolResults::Compare,
            ToolResults::Ignore => cassette::ToolResults::Ignore,
        };
        CassetteUse::Replay(config)
    }
}
