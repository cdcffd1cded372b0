//! Sessions as JSON Lines: written whole, checked line by line, and kept again in another store.
//!
//! A session is a line that describes it, a line for each record of its runs, and a line that ends it. Every line holds
//! where the hash chain of the session stands after it, so that a changed line is told by its number.
//!
//! Not for what waits in inboxes, nor for leases: these belong to the store that the session was in.

mod line;
mod reader;
mod write;

use std::io::{self, BufRead};

use neuraxis_core::{RunId, SessionId};
use neuraxis_ports::{ChainHead, SessionStore, StoreError};

pub use reader::{ArchiveEntry, ArchiveReader};
pub use write::export_session;

use write::Importing;

/// The version of the format that this code writes and reads.
pub const ARCHIVE_FORMAT: u32 = 1;

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
    #[error("it is no line of an exported session: {0}")]
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
        /// What.
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
    /// A record says something that this version would not say so.
    #[error("its record holds what this version does not know")]
    Foreign,
    /// The file ends in the middle of a session.
    #[error("the file was cut off before this line: the session does not end")]
    CutOff,
}

/// Why an archive could not be kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The archive is not whole.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The store does not take it.
    #[error("session {session} cannot be kept")]
    Store {
        /// The session.
        session: SessionId,
        /// Why not.
        source: StoreError,
    },
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

/// Keeps the sessions of an archive in a store, under their own ids, but for those that `is_wanted` refuses. A run that
/// has not ended is left for somebody to take up.
///
/// A session of which the store has the beginning, such as an import that was cut off leaves, is completed. One of which
/// the store has more than the archive, or something else, is refused with [`StoreError::SessionExists`].
///
/// The archive should have been [checked](check_archive): what is wrong with a line is found only when it is reached, and
/// what came before it is kept by then.
///
/// # Errors
///
/// An [`ImportError`] that names the line, or the session that the store does not take. The runs that were kept by then
/// stay.
pub async fn import_archive<R: BufRead>(
    store: &dyn SessionStore,
    mut archive: ArchiveReader<R>,
    is_wanted: impl Fn(&SessionId) -> bool,
) -> Result<(), ImportError> {
    let mut importing = None;
    while let Some(entry) = archive.next_entry()? {
        match entry {
            ArchiveEntry::Session(session) => {
                importing = match is_wanted(&session.id) {
                    true => Some(Importing::begin(store, session).await?),
                    false => None,
                };
            }
            ArchiveEntry::Record(record) => {
                if let (Some(importing), Some(head)) = (&mut importing, archive.head()) {
                    importing.record(record, head).await?;
                }
            }
            ArchiveEntry::End(_) => {
                if let Some(importing) = importing.take() {
                    importing.end().await?;
                }
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
