//! Sessions as JSON Lines: the format, and checking such a file without storing anything.
//!
//! A session consists of a line that describes it, a line for each record of its runs, and a line that ends it. Every
//! line holds the head of the session's hash chain after that line, so that an altered line is found by its number.
//!
//! Not for the contents of inboxes, nor for leases: these belong to the store that the session was in. Nor for the long
//! outputs of calls: like the records, an archive holds only the part that models read, so every version can read it.

mod reader;

use std::io::{self, BufRead};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ContentHash, RunId, SessionId, Transcript};
use neuraxis_ports::{ChainHead, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use reader::{ArchiveEntry, ArchiveReader};

/// The version of the format that this code reads and writes.
pub const ARCHIVE_FORMAT: u32 = 1;

/// The maximum size of a line in bytes: twice the limit of a whole run, since a session may begin with a long
/// conversation.
pub(super) const MAX_LINE_BYTES: u64 = 100 * 1024 * 1024;

/// A line of an archive, except one with a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// The beginning of a session.
    Session {
        format: u32,
        id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        created_at: Timestamp,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        title: Option<String>,
        #[serde(default, skip_serializing_if = "Transcript::is_empty")]
        seed: Transcript,
        head: ContentHash,
    },
    /// The end of a session.
    SessionEnd {
        runs: u64,
        records: u64,
        head: ContentHash,
    },
}

/// A line with a record. Not a variant of `Line`, because a tagged enum would not keep the record's bytes.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RecordLine<'a> {
    #[serde(rename = "type")]
    pub(super) kind: &'a str,
    pub(super) head: ContentHash,
    #[serde(borrow)]
    pub(super) record: &'a RawValue,
}

/// The type of a line with a record.
pub(super) const RECORD: &str = "record";

/// A session in an archive.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchivedSession {
    /// The session.
    pub id: SessionId,
    /// The number of its runs.
    pub runs: u64,
    /// The run that has not ended, if there is one.
    pub unfinished: Option<RunId>,
    /// The head of its hash chain.
    pub head: ChainHead,
}

/// A fault in an archive, and its line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
#[non_exhaustive]
pub struct ArchiveError {
    /// The line number, starting at 1.
    pub line: u64,
    /// The fault. Not the error's source, since the message already includes it.
    pub fault: ArchiveFault,
}

/// A fault in a line of an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// The line cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// The line is longer than allowed.
    #[error("it is longer than {most} bytes")]
    TooLong {
        /// The maximum length in bytes.
        most: u64,
    },
    /// The line is not one of the known kinds.
    #[error("it is not a line of an exported session: {0}")]
    Unknown(serde_json::Error),
    /// The archive was written by a version with a different format.
    #[error("it has format {found}; this version reads format {ours}")]
    OtherFormat {
        /// The format of the file.
        found: u32,
        /// The format that this version reads.
        ours: u32,
    },
    /// The line is not what must come here.
    #[error("expected {expected} here")]
    OutOfPlace {
        /// What must come here, such as `a session`.
        expected: &'static str,
    },
    /// The title of the session is none that a session can have.
    #[error("the session's title is not valid: {0}")]
    InvalidTitle(StoreError),
    /// A record does not directly follow the previous one.
    #[error("expected record {expected} of the run here, found record {found}")]
    Gap {
        /// The expected number.
        expected: u64,
        /// The number found.
        found: u64,
    },
    /// The line, or an earlier one, is not what was exported.
    #[error("it was changed, or earlier lines were changed, removed or moved")]
    Changed,
    /// A record is unaltered, but this version would write it differently.
    #[error("its record contains something that this version does not know")]
    NotRoundTrippable,
    /// A record is unaltered, but this version cannot read it.
    #[error("its record contains something that this version does not know: {0}")]
    UnknownRecord(serde_json::Error),
    /// The file ends in the middle of a session.
    #[error("the file was cut off before this line: the end of the session is missing")]
    CutOff,
}

impl ArchiveFault {
    /// Returns `true` if a newer version than this one may have written the line: its JSON is valid, and contains
    /// something that this version does not know.
    #[must_use]
    pub fn may_be_newer(&self) -> bool {
        match self {
            Self::NotRoundTrippable | Self::UnknownRecord(_) => true,
            Self::OtherFormat { found, ours } => found > ours,
            Self::Unknown(error) => error.is_data(),
            _ => false,
        }
    }
}

/// Reads an archive to its end and returns the sessions in it.
///
/// # Errors
///
/// An [`ArchiveError`] that names the first faulty line.
pub fn check_archive<R: BufRead>(
    mut archive: ArchiveReader<R>,
) -> Result<Vec<ArchivedSession>, ArchiveError> {
    let mut sessions = Vec::new();
    while let Some(entry) = archive.next_entry()? {
        if let ArchiveEntry::End(session) = entry {
            sessions.push(session);
        }
    }
    Ok(sessions)
}
