//! Imports the sessions of an archive into a store, after all of the archive was checked.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::sync::Arc;

use neuraxis_core::{Record, RunId, SessionId};
use neuraxis_ports::{ChainHead, RunLease, RunStart, Session, SessionStore, StoreError};

use super::Sessions;
use super::archive::{ArchiveEntry, ArchiveError, ArchiveReader, ArchivedSession, check_archive};
use crate::runs::{HeldRun, LeaseWait, ResumeError};

/// The maximum number of records in one commit, and its approximate maximum size in bytes. This needs fewer
/// transactions than one per step, and little memory.
const COMMIT_RECORDS: usize = 256;
const COMMIT_BYTES: u64 = 1024 * 1024;

/// What happens to the runs of an archive that have not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum UnfinishedRuns {
    /// An archive with such a run is refused, because the run may be resumed where it comes from.
    #[default]
    Refused,
    /// The runs are imported, and a user can resume them here.
    Taken,
}

/// A session of an archive that was imported.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportedSession {
    /// The session.
    pub session: ArchivedSession,
    /// Whether an identical session existed before.
    pub was_there: bool,
}

/// Why an archive could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    /// The archive is faulty. Nothing was stored.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// The archive contains no session.
    #[error("it contains no session")]
    Empty,
    /// The archive contains a session twice. Nothing was stored.
    #[error("the file contains session {0} twice")]
    Twice(SessionId),
    /// The store has a different session with the same id, or more of it than the archive. Nothing was stored.
    #[error("a different session {0} already exists: nothing was imported")]
    Conflict(SessionId),
    /// A run has not ended, and such runs are refused. Nothing was stored.
    #[error("run {run} of session {session} has not ended")]
    Unfinished {
        /// The run.
        run: RunId,
        /// Its session.
        session: SessionId,
    },
    /// The store could not be checked for the sessions. Nothing was stored.
    #[error(transparent)]
    Check(StoreError),
    /// The archive cannot be read a second time.
    #[error("cannot read the file again")]
    Reread(#[source] io::Error),
    /// The store refuses a session. Runs that were stored before remain.
    #[error("session {session} cannot be stored")]
    Store {
        /// The session.
        session: SessionId,
        /// The store's error.
        source: StoreError,
    },
    /// A run of a session is held, and was not released.
    #[error(transparent)]
    Held(#[from] ResumeError),
}

/// What a store already has of the sessions of an archive.
#[derive(Debug, Default)]
struct Existing {
    /// The sessions that are identical in the store.
    same: BTreeSet<SessionId>,
    /// The sessions of which the store may have the beginning, each with the head of its chain there.
    parts: BTreeMap<SessionId, ChainHead>,
}

impl Sessions {
    /// Imports the sessions of an archive under their own ids, and returns them in the archive's order. The whole
    /// archive is checked first, line by line.
    ///
    /// A session that is identical in the store is left alone. If the store has only the beginning of a session, such
    /// as after an interrupted import, the session is completed. If another process holds a run that must be completed,
    /// or held it when it died, this waits for its lease: `pause` is called before each check, and an error from it
    /// ends the wait.
    ///
    /// # Errors
    ///
    /// An [`ImportError`], or the error of `pause`.
    pub async fn import<E: From<ImportError>>(
        &self,
        archive: &mut (impl Read + Seek),
        unfinished: UnfinishedRuns,
        mut pause: impl AsyncFnMut(&HeldRun) -> Result<(), E>,
    ) -> Result<Vec<ImportedSession>, E> {
        let (sessions, existing) = self.check(archive, unfinished).await?;
        let mut pause = async |held: &HeldRun| pause(held).await.map_err(Paused::Caller);
        let mut wait = LeaseWait::default();
        loop {
            let reader = again(archive)?;
            let is_wanted = |id: &SessionId| !existing.same.contains(id);
            match store_sessions(self.store.as_ref(), reader, is_wanted).await {
                Err(ImportError::Store {
                    source: StoreError::SessionBusy { run, .. },
                    ..
                }) => {
                    let free = wait.until_free(self.store.as_ref(), run, &mut pause);
                    free.await.map_err(Paused::into_error)?;
                }
                kept => break kept?,
            }
        }
        let mut imported = Vec::with_capacity(sessions.len());
        for session in sessions {
            let was_there = existing.same.contains(&session.id);
            if !was_there {
                let verified = self.store.verify(&session.id, Some(session.head.hash));
                verified.await.map_err(|source| ImportError::Store {
                    session: session.id.clone(),
                    source,
                })?;
            }
            imported.push(ImportedSession { session, was_there });
        }
        Ok(imported)
    }

    /// Checks that the archive is valid and that the store can accept it.
    async fn check(
        &self,
        archive: &mut (impl Read + Seek),
        unfinished: UnfinishedRuns,
    ) -> Result<(Vec<ArchivedSession>, Existing), ImportError> {
        let sessions = check_archive(again(archive)?)?;
        if sessions.is_empty() {
            return Err(ImportError::Empty);
        }
        let mut existing = Existing::default();
        let mut seen = BTreeSet::new();
        for session in &sessions {
            let id = &session.id;
            if !seen.insert(id) {
                return Err(ImportError::Twice(id.clone()));
            }
            match self.store.verify(id, None).await {
                Err(StoreError::NoSuchSession(_)) => {}
                Ok(head) if head == session.head => {
                    existing.same.insert(id.clone());
                    continue;
                }
                Ok(head) if head.records < session.head.records => {
                    existing.parts.insert(id.clone(), head);
                }
                Ok(_) | Err(StoreError::Damaged(_)) => {
                    return Err(ImportError::Conflict(id.clone()));
                }
                Err(error) => return Err(ImportError::Check(error)),
            }
            if let (Some(run), UnfinishedRuns::Refused) = (session.unfinished, unfinished) {
                let session = id.clone();
                return Err(ImportError::Unfinished { run, session });
            }
        }
        match part_of_another(again(archive)?, existing.parts.clone()) {
            Some(other) => Err(ImportError::Conflict(other)),
            None => Ok((sessions, existing)),
        }
    }
}

/// Why waiting for a lease ended without getting it.
enum Paused<E> {
    Caller(E),
    Held(ResumeError),
}

impl<E> From<ResumeError> for Paused<E> {
    fn from(error: ResumeError) -> Self {
        Self::Held(error)
    }
}

impl<E: From<ImportError>> Paused<E> {
    fn into_error(self) -> E {
        match self {
            Self::Caller(error) => error,
            Self::Held(error) => ImportError::Held(error).into(),
        }
    }
}

/// Reads an archive from the beginning.
fn again<R: Read + Seek>(archive: &mut R) -> Result<ArchiveReader<BufReader<&mut R>>, ImportError> {
    archive.rewind().map_err(ImportError::Reread)?;
    Ok(ArchiveReader::new(BufReader::new(archive)))
}

/// Returns a session in the store that is not the beginning of the archive's session with the same id, if there is one.
fn part_of_another<R: BufRead>(
    mut archive: ArchiveReader<R>,
    mut parts: BTreeMap<SessionId, ChainHead>,
) -> Option<SessionId> {
    let mut session = None;
    // The archive has already been read to its end once.
    while let (false, Ok(Some(entry))) = (parts.is_empty(), archive.next_entry()) {
        if let ArchiveEntry::Session(begun) = &entry {
            session = Some(begun.id.clone());
        }
        if let Some(id) = &session
            && archive.head().is_some()
            && parts.get(id) == archive.head().as_ref()
        {
            parts.remove(id);
        }
    }
    parts.into_keys().next()
}

/// Stores the sessions of an archive, except those that `is_wanted` rejects. A faulty line is found only when it is
/// reached; everything before it is stored by then.
pub(super) async fn store_sessions<R: BufRead>(
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

/// A session that is being imported.
#[derive(Debug)]
struct Importing<'a> {
    store: &'a dyn SessionStore,
    session: SessionId,
    lease: Option<RunLease>,
    /// The head of the chain that the store already has.
    stored: ChainHead,
    /// The number of records that the archive has supplied so far.
    supplied: u64,
    /// The records not committed yet, all of one run.
    waiting: Vec<Arc<Record>>,
    bytes: u64,
}

impl<'a> Importing<'a> {
    async fn begin(store: &'a dyn SessionStore, session: Session) -> Result<Self, ImportError> {
        let start = ChainHead::start(&session);
        let mut importing = Self {
            store,
            session: session.id.clone(),
            lease: None,
            stored: start,
            supplied: 0,
            waiting: Vec::new(),
            bytes: 0,
        };
        let created = match store.create_session(&session).await {
            Err(StoreError::SessionExists(id)) => store.verify(&id, None).await.map(Some),
            created => created.map(|()| None),
        };
        if let Some(stored) = created.map_err(|source| importing.failed(source))? {
            if stored.records == 0 && stored != start {
                return Err(importing.another());
            }
            importing.stored = stored;
        }
        Ok(importing)
    }

    /// Stores a record, after which the chain has the head `head`. Does nothing if the store already has the record.
    async fn record(&mut self, record: Arc<Record>, head: ChainHead) -> Result<(), ImportError> {
        self.supplied = head.records;
        if head.records <= self.stored.records {
            return match head.records == self.stored.records && head != self.stored {
                true => Err(self.another()),
                false => Ok(()),
            };
        }
        let run = record.run_id;
        if self.lease.as_ref().is_none_or(|lease| lease.run != run) {
            self.commit().await?;
            // Marked as imported from the start: whatever happens to the import, only a user can resume the run.
            let start = RunStart::new(self.session.clone(), run).imported();
            let begun = self.store.begin(&start).await;
            self.lease = Some(begun.map_err(|source| self.failed(source))?);
        }
        self.bytes += record.weight();
        self.waiting.push(record);
        if self.waiting.len() >= COMMIT_RECORDS || self.bytes >= COMMIT_BYTES {
            self.commit().await?;
        }
        Ok(())
    }

    async fn end(mut self) -> Result<(), ImportError> {
        // If the store has more than the archive, the archive cannot prove that the rest belongs to the same session.
        if self.supplied < self.stored.records {
            return Err(self.another());
        }
        let has_ended = self.waiting.last().is_some_and(|last| last.ends_the_run());
        self.commit().await?;
        if let (Some(lease), false) = (&self.lease, has_ended) {
            match self.store.release(lease).await {
                // The last commit ended the run.
                Ok(()) | Err(StoreError::Stale(_)) => {}
                Err(source) => return Err(self.failed(source)),
            }
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<(), ImportError> {
        let records = std::mem::take(&mut self.waiting);
        self.bytes = 0;
        match &self.lease {
            Some(lease) if !records.is_empty() => {
                let committed = self.store.commit(lease, &records).await;
                committed.map_err(|source| self.failed(source))
            }
            _ => Ok(()),
        }
    }

    /// Returns the error that the store has a different session with the same id.
    fn another(&self) -> ImportError {
        self.failed(StoreError::SessionExists(self.session.clone()))
    }

    fn failed(&self, source: StoreError) -> ImportError {
        ImportError::Store {
            session: self.session.clone(),
            source,
        }
    }
}
