//! Sessions as JSON Lines: the format, and checking a file of it without keeping anything.
//!
//! A session is a line that describes it, a line for each record of its runs, and a line that ends it. Every line holds
//! where the hash chain of the session stands after it, so that a changed line is told by its number.
//!
//! Not for what waits in inboxes, nor for leases: these belong to the store that the session was in. Nor for the long outputs
//! of calls: an archive holds what models read of them, as the records do, and is read by every version as before.

mod reader;

use std::io::{self, BufRead};

use neuraxis_core::jiff::Timestamp;
use neuraxis_core::{ContentHash, RunId, SessionId, Transcript};
use neuraxis_ports::ChainHead;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

pub use reader::{ArchiveEntry, ArchiveReader};

/// The version of the format that this code writes and reads.
pub const ARCHIVE_FORMAT: u32 = 1;

/// The most bytes of a line: twice what a whole run may have, since a session may begin with a long conversation.
pub(super) const MAX_LINE_BYTES: u64 = 100 * 1024 * 1024;

/// A line of an archive, but one with a record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// A session begins.
    Session {
        format: u32,
        id: SessionId,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        owner: Option<String>,
        created_at: Timestamp,
        #[serde(default, skip_serializing_if = "Transcript::is_empty")]
        seed: Transcript,
        head: ContentHash,
    },
    /// The session ends.
    SessionEnd {
        runs: u64,
        records: u64,
        head: ContentHash,
    },
}

/// A line with a record. Not one of the others, since a tagged enum would not keep the record's bytes.
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

/// A session that an archive holds.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArchivedSession {
    /// The session.
    pub id: SessionId,
    /// How many runs it has.
    pub runs: u64,
    /// The run that has not ended, if there is one.
    pub unfinished: Option<RunId>,
    /// Where its hash chain ends.
    pub head: ChainHead,
}

/// What is wrong with an archive, and in which line.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {fault}")]
#[non_exhaustive]
pub struct ArchiveError {
    /// Which line, from 1.
    pub line: u64,
    /// What is wrong. Not the source: it is told already.
    pub fault: ArchiveFault,
}

/// What is wrong with a line of an archive.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArchiveFault {
    /// It cannot be read.
    #[error("it cannot be read: {0}")]
    Io(#[from] io::Error),
    /// It is longer than any line may be.
    #[error("it is longer than {most} bytes")]
    TooLong {
        /// The most bytes.
        most: u64,
    },
    /// It is not one of the lines that there are.
    #[error("it is not a line of an exported session: {0}")]
    Unknown(serde_json::Error),
    /// It was written by a version that writes otherwise.
    #[error("it has format {found}; this version reads format {ours}")]
    OtherFormat {
        /// The format of the file.
        found: u32,
        /// The format that is read.
        ours: u32,
    },
    /// Something else had to come here.
    #[error("{expected} had to come here")]
    OutOfPlace {
        /// What had to come, such as `a session`.
        expected: &'static str,
    },
    /// A record does not follow the one before.
    #[error("record {found} stands where record {expected} of its run had to come")]
    Gap {
        /// The number that had to come.
        expected: u64,
        /// The number that came.
        found: u64,
    },
    /// The line, or one before it, is not what was exported.
    #[error("it was changed, or lines before it were changed, removed or moved")]
    Changed,
    /// A record that is as it was exported says something that this version would not say so.
    #[error("its record holds what this version does not know")]
    Foreign,
    /// A record that is as it was exported cannot be read by this version.
    #[error("its record holds what this version does not know: {0}")]
    UnknownRecord(serde_json::Error),
    /// The file ends in the middle of a session.
    #[error("the file was cut off before this line: the session does not end")]
    CutOff,
}

impl ArchiveFault {
    /// Tells whether a newer version than this one may have written the line so: its JSON is whole, and says what this one does not
    /// know.
    #[must_use]
    pub fn may_be_newer(&self) -> bool {
        match self {
            Self::Foreign | Self::UnknownRecord(_) => true,
            Self::OtherFormat { found, ours } => found > ours,
            Self::Unknown(error) => error.is_data(),
            _ => false,
        }
    }
}

/// Reads an archive to its end and returns what it holds.
///
/// # Errors
///
/// An [`ArchiveError`] that names the first line that is not as it should be.
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
