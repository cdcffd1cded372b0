//! Writes a session as JSON Lines.

use std::io::{self, Write};

use neuraxis_core::{ContentHash, RunId, Seq, SessionId};
use neuraxis_ports::{ChainHead, Session, StoreError};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Sessions;
use super::archive::{ARCHIVE_FORMAT, Line, RECORD, RecordLine};

/// An exported session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// The head of its hash chain.
    pub head: ChainHead,
    /// The run that has not ended. The archive holds its records so far.
    pub unfinished: Option<RunId>,
    /// The number of long results of tools of which the archive holds only what models read. They are
    /// [stored whole](Sessions::outputs) beside the records.
    pub shortened: u64,
}

/// Why a session could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output cannot be written.
    #[error("the archive cannot be written")]
    Output(#[from] io::Error),
    /// The store cannot supply the session, for example because of [`StoreError::Damaged`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// Writes a session with all of its runs as JSON Lines. A session that was altered in the store is not exported as
    /// if it were unaltered. Records that are stored during the export may or may not be included.
    ///
    /// # Errors
    ///
    /// An [`ExportError`]. In that case, the output is incomplete.
    pub async fn export(
        &self,
        id: &SessionId,
        out: &mut impl Write,
    ) -> Result<Exported, ExportError> {
        let written = self.write(id, out).await;
        if let Err(ExportError::Store(StoreError::NoSuchRun(_) | StoreError::Damaged(_))) = &written
        {
            // If the session was deleted while it was read, the data read last is missing.
            self.store.session(id).await?;
        }
        written
    }

    async fn write(&self, id: &SessionId, out: &mut impl Write) -> Result<Exported, ExportError> {
        let verified = self.store.verify(id, None).await?;
        let session = self.store.session(id).await?;
        let runs = self.store.runs(id).await?;
        let mut head = ChainHead::start(&session);
        // Records after the verified ones were stored in the meantime.
        let mut is_verified = head == verified;
        write_line(out, &beginning(&session, head.hash))?;
        let (mut written, mut shortened) = (0, 0_u64);
        for run in &runs {
            let records = self.store.records(run.run_id, Seq(0)).await?;
            for record in &records {
                let text = record.to_json();
                head = head.with(text.as_bytes());
                is_verified |= head == verified;
                write_record(out, &text, head.hash)?;
            }
            written += u64::from(!records.is_empty());
            let outputs = self.store.outputs(run.run_id).await?.len();
            shortened = shortened.saturating_add(u64::try_from(outputs).unwrap_or(u64::MAX));
        }
        if !is_verified {
            let why = format!("the records of session {id} differ from those that were stored");
            return Err(StoreError::Damaged(why).into());
        }
        let end = Line::SessionEnd {
            runs: written,
            records: head.records,
            head: head.hash,
        };
        write_line(out, &end)?;
        let unfinished = runs.iter().find(|run| !run.status.is_ended());
        Ok(Exported {
            head,
            unfinished: unfinished.map(|run| run.run_id),
            shortened,
        })
    }
}

fn beginning(session: &Session, head: ContentHash) -> Line {
    Line::Session {
        format: ARCHIVE_FORMAT,
        id: session.id.clone(),
        owner: session.owner.clone(),
        created_at: session.created_at,
        title: session.title.clone(),
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
