//! Flags that record what models say, or replay it.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use neuraxis::cassette::{self, CassetteConfig};
use neuraxis_app::CassetteUse;

/// Whether models are recorded, or replaced by a recording.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Record and replay")]
pub(in crate::command) struct CassetteArguments {
    /// Record what the models are asked and say to this file, which must not exist yet; secrets are left out
    #[arg(long, value_name = "FILE", conflicts_with = "replay")]
    record: Option<PathBuf>,

    /// Let this recording answer in place of the models; the tools still run
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,

    /// When the pieces of a replayed answer come
    #[arg(long, value_enum, default_value_t = Speed::Instant, requires = "replay")]
    speed: Speed,

    /// Fail if a recording was not replayed, or is wanted twice
    #[arg(long, requires = "replay")]
    strict: bool,

    /// Whether tools have to return what was recorded; ids, times and dates are not compared
    #[arg(long, value_enum, default_value_t = ToolResults::Ignore, requires = "replay")]
    tool_results: ToolResults,
}

/// When the pieces of a replayed answer come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Speed {
    /// As they came when they were recorded
    Recorded,
    /// At once
    Instant,
}

/// Whether the results of tools count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolResults {
    /// They have to be the same
    Compare,
    /// They may differ, but not in whether the call was denied
    Ignore,
}

impl CassetteArguments {
    /// Returns the file of the recording, if there is or is to be one.
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
