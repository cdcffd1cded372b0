//! Errors of a cassette as a file. A replayed call fails with an `LlmError` instead.

use std::fmt;
use std::io;
use std::path::PathBuf;

use neuraxis_core::{RestoreError, Role};

/// Why a cassette cannot be written, read or finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CassetteError {
    /// The file already exists: by default, a recording replaces no file.
    #[error("{} already exists; a recording does not overwrite files", file.display())]
    Exists {
        /// The path of the cassette.
        file: PathBuf,
    },
    /// The file cannot be created, read or written.
    #[error("cannot {doing} {}", file.display())]
    Io {
        /// The path of the cassette.
        file: PathBuf,
        /// The verb for the failed operation: `create`, `read` or `write`.
        doing: &'static str,
        /// The error of the file system.
        source: io::Error,
    },
    /// The file is larger than allowed, or would become so.
    #[error("{} is larger than {limit} bytes", file.display())]
    TooLarge {
        /// The path of the cassette.
        file: PathBuf,
        /// The maximum size in bytes.
        limit: u64,
    },
    /// The requests would be too large to be read again, because each is compared with everything that it shares.
    #[error("{} ends here: with more exchanges, its requests would be too large to be replayed, because each includes \
             the content that it shares", file.display())]
    SharesTooMuch {
        /// The path of the cassette.
        file: PathBuf,
    },
    /// One exchange is too large to be kept in memory until it is written.
    #[error("{}, exchange {exchange}: larger than {limit} bytes, so it was not recorded", file.display())]
    ExchangeTooLarge {
        /// The path of the cassette.
        file: PathBuf,
        /// The number of the exchange, from 1.
        exchange: u32,
        /// The maximum size in bytes.
        limit: usize,
    },
    /// The file does not begin with the first line of a cassette.
    #[error("{}, line 1: not a cassette; expected {{\"cassette\":{{\"version\":…}}}}", file.display())]
    NotACassette {
        /// The path of the cassette.
        file: PathBuf,
    },
    /// The file was written in a newer format.
    #[error("{}, line 1: format version {found} is newer than {ours}, the newest supported version", file.display())]
    NewerVersion {
        /// The path of the cassette.
        file: PathBuf,
        /// The version in its first line.
        found: u32,
        /// The newest version that this program supports.
        ours: u32,
    },
    /// The file ends within an exchange.
    #[error("{}, line {line}, exchange {exchange}: the file ends within the exchange", file.display())]
    Truncated {
        /// The path of the cassette.
        file: PathBuf,
        /// The number of its last line, from 1.
        line: usize,
        /// The exchange that is cut off.
        exchange: u32,
    },
    /// A line is not valid at its position.
    #[error("{}, line {line}{}: {reason}", file.display(), within(*exchange))]
    Malformed {
        /// The path of the cassette.
        file: PathBuf,
        /// The number of the line, from 1.
        line: usize,
        /// The exchange it belongs to, if one has begun.
        exchange: Option<u32>,
        /// What is wrong with it.
        reason: String,
    },
    /// Recordings were never played, and the replay is strict.
    #[error("{}: {} never played: {}", file.display(), count(unused.len()), list(unused))]
    Unused {
        /// The path of the cassette.
        file: PathBuf,
        /// The recordings that were never played, in the order of the file.
        unused: Vec<UnusedRecording>,
    },
    /// The records of a run cannot be replayed.
    #[error("cannot convert the run to a cassette")]
    Run {
        /// The record that does not follow from those before it.
        source: RestoreError,
    },
}

/// A recording that was never played.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnusedRecording {
    /// Its number, from 1, in the order in which the calls began.
    pub exchange: u32,
    /// The line of the file where it begins; 0 if there is no file.
    pub line: usize,
    /// The role it was recorded for.
    pub role: Role,
}

impl fmt::Display for UnusedRecording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "exchange {} ({}, line {})",
            self.exchange, self.role, self.line
        )
    }
}

/// The maximum number of unused recordings that an error names.
const MOST_NAMED: usize = 10;

fn within(exchange: Option<u32>) -> String {
    exchange.map_or_else(String::new, |number| format!(", exchange {number}"))
}

fn count(recordings: usize) -> String {
    match recordings {
        1 => "1 recording was".to_owned(),
        many => format!("{many} recordings were"),
    }
}

fn list(unused: &[UnusedRecording]) -> String {
    let named = unused.iter().take(MOST_NAMED).map(ToString::to_string);
    let more = unused.len().saturating_sub(MOST_NAMED);
    let more = (more > 0).then(|| format!("and {more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}
