//! Writes a session to an archive, and from an archive to a store.

use std::io::{self, Write};
use std::sync::Arc;

use neuraxis_core::{ContentHash, Record, Seq, SessionId};
use neuraxis_ports::{ChainHead, RunLease, Session, SessionStore, StoreError};
use serde::Serialize;
use serde_json::value::RawValue;

use super::line::{RECORD, RecordLine, Written};
use super::{ARCHIVE_FORMAT, ImportError};

/// The most records of one commit, and about the most bytes: fewer transactions than steps, and little in memory.
const COMMIT_RECORDS: usize = 256;
const COMMIT_BYTES: u64 = 1024 * 1024;

/// Writes a session with all of its runs as JSON Lines, and returns where its hash chain ends. What was altered in the
/// store is not written as if it were not.
///
/// # Errors
///
/// What the store says about the session, such as [`StoreError::Damaged`], as the inner result; the outer one is what
/// went wrong with the output.
pub async fn export_session(
    store: &dyn SessionStore,
    id: &SessionId,
    out: &mut impl Write,
) -> io::Result<Result<ChainHead, StoreError>> {
    let read = async {
        let verified = store.verify(id, None).await?;
        Ok((verified, store.session(id).await?, store.runs(id).await?))
    };
    let (verified, session, runs) = match read.await {
        Ok(read) => read,
        Err(error) => return Ok(Err(error)),
    };
    let mut head = ChainHead::start(&session);
    write_line(out, &beginning(&session, head.hash))?;
    let mut written = 0;
    for run in &runs {
        let records = match store.records(run.run_id, Seq(0)).await {
            Ok(records) => records,
            Err(error) => return Ok(Err(error)),
        };
        for record in &records {
            let text = record.to_json();
            head = head.with(text.as_bytes());
            write_record(out, &text, head.hash)?;
        }
        written += u64::from(!records.is_empty());
    }
    let is_whole = runs.iter().all(|run| run.status.is_ended());
    if is_whole && head != verified {
        let why = format!("the records of session {id} are not written as they were kept");
        return Ok(Err(StoreError::Damaged(why)));
    }
    let end = Written::SessionEnd {
        runs: written,
        records: head.records,
        head: head.hash,
    };
    write_line(out, &end)?;
    Ok(Ok(head))
}

fn beginning(session: &Session, head: ContentHash) -> Written {
    Written::Session {
        format: ARCHIVE_FORMAT,
        id: session.id.clone(),
        owner: session.owner.clone(),
        created_at: session.created_at,
        seed: session.seed.clone(),
        head,
    }
}

fn write_record(out: &mut impl Write, text: &str, head: ContentHash) -> io::Result<()> {
    let record = serde_json::from_str::<&RawValue>(text)?;
    let kind = RECORD;
    write_line(out, &RecordLine { kind, head, record })
}

fn write_line(out: &mut impl Write, line: &impl Serialize) -> io::Result<()> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")
}

/// A session on its way into a store.
#[derive(Debug)]
pub(super) struct Importing<'a> {
    store: &'a dyn SessionStore,
    session: SessionId,
    lease: Option<RunLease>,
    /// Where the chain stands of what the store has already.
    there: ChainHead,
    /// How many records the archive has brought so far.
    brought: u64,
    /// What is not committed yet, all of one run.
    waiting: Vec<Arc<Record>>,
    bytes: u64,
}

impl<'a> Importing<'a> {
    pub(super) async fn begin(
        store: &'a dyn SessionStore,
        session: Session,
    ) -> Result<Self, ImportError> {
        let start = ChainHead::start(&session);
        let mut importing = Self {
            store,
            session: session.id.clone(),
            lease: None,
            there: start,
            brought: 0,
            waiting: Vec::new(),
            bytes: 0,
        };
        let created = match store.create_session(&session).await {
            Err(StoreError::SessionExists(id)) => store.verify(&id, None).await.map(Some),
            created => created.map(|()| None),
        };
        if let Some(there) = created.map_err(|source| importing.failed(source))? {
            if there.records == 0 && there != start {
                return Err(importing.another());
            }
            importing.there = there;
        }
        Ok(importing)
    }

    /// Keeps a record, after which the chain stands at `head`; nothing is done if the store has it.
    pub(super) async fn record(
        &mut self,
        record: Arc<Record>,
        head: ChainHead,
    ) -> Result<(), ImportError> {
        self.brought = head.records;
        if head.records <= self.there.records {
            return match head.records == self.there.records && head != self.there {
                true => Err(self.another()),
                false => Ok(()),
            };
        }
        let run = record.run_id;
        if self.lease.as_ref().is_none_or(|lease| lease.run != run) {
            self.commit().await?;
            let begun = self.store.begin_run(&self.session, run).await;
            let lease = begun.map_err(|source| self.failed(source))?;
            // At once: whatever becomes of the import, nobody but a person lets the run go on.
            let marked = self.store.mark_imported(&lease).await;
            marked.map_err(|source| self.failed(source))?;
            self.lease = Some(lease);
        }
        self.bytes += record.weight();
        self.waiting.push(record);
        if self.waiting.len() >= COMMIT_RECORDS || self.bytes >= COMMIT_BYTES {
            self.commit().await?;
        }
        Ok(())
    }

    pub(super) async fn end(mut self) -> Result<(), ImportError> {
        // What the store has beyond the archive, the archive cannot tell to be of the same session.
        if self.brought < self.there.records {
            return Err(self.another());
        }
        let has_ended = self.waiting.last().is_some_and(|last| last.ends_the_run());
        self.commit().await?;
        if let (Some(lease), false) = (&self.lease, has_ended) {
            match self.store.release(lease).await {
                // The last commit was the run's end.
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

    /// Says that the store has another session under the same id.
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
