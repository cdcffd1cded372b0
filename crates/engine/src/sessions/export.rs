//! Writes a session as JSON Lines.

use std::io::{self, Write};

use neuraxis_core::{ContentHash, RunId, Seq, SessionId};
use neuraxis_ports::{ChainHead, Session, StoreError};
use serde::Serialize;
use serde_json::value::RawValue;

use super::Sessions;
use super::archive::{ARCHIVE_FORMAT, Line, RECORD, RecordLine};

/// A session that was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// Where its hash chain ends.
    pub head: ChainHead,
    /// The run that has not ended, of which the archive holds what there is so far.
    pub unfinished: Option<RunId>,
}

/// Why a session could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// The output does not take it.
    #[error("the archive cannot be written")]
    Output(#[from] io::Error),
    /// The store does not give it, such as with [`StoreError::Damaged`].
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Sessions {
    /// Writes a session with all of its runs as JSON Lines. What was altered in the store is not written as if it were not;
    /// what is kept while it is read may be in it or not.
    ///
    /// # Errors
    ///
    /// An [`ExportError`]; what was written by then is not whole.
    pub async fn export(
        &self,
        id: &SessionId,
        out: &mut impl Write,
    ) -> Result<Exported, ExportError> {
        let written = self.write(id, out).await;
        if let Err(ExportError::Store(StoreError::NoSuchRun(_) | StoreError::Damaged(_))) = &written
        {
            // One that is deleted while it is read lacks what was read last.
            self.store.session(id).await?;
        }
        written
    }

    async fn write(&self, id: &SessionId, out: &mut impl Write) -> Result<Exported, ExportError> {
        let verified = self.store.verify(id, None).await?;
        let session = self.store.session(id).await?;
        let runs = self.store.runs(id).await?;
        let mut head = ChainHead::start(&session);
        // What comes after the records that were verified was kept meanwhile.
        let mut is_verified = head == verified;
        write_line(out, &beginning(&session, head.hash))?;
        let mut written = 0;
        for run in &runs {
            let records = self.store.records(run.run_id, Seq(0)).await?;
            for record in &records {
                let text = record.to_json();
                head = head.with(text.as_bytes());
                is_verified |= head == verified;
                write_record(out, &text, head.hash)?;
            }
            written += u64::from(!records.is_empty());
        }
        if !is_verified {
            let why = format!("the records of session {id} are not written as they were kept");
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
        })
    }
}

fn beginning(session: &Session, head: ContentHash) -> Line {
    Line::Session {
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
