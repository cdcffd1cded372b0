//! Writes other than steps: sessions, leases, inboxes.

use neuraxis_core::{ContentHash, InputId, RunId, SessionId};
use neuraxis_ports::{ChainHead, LongOutput, RunLease, RunStart, Session, StoreError};
use sqlx::Error;

use super::Task;
use crate::database::FileIdentity;
use crate::error::Failure;
use crate::link::{Link, values};
use crate::step::EncodedStep;

/// The number of hashes that a probe writes if the disk may be full: 64 KiB, as many bytes as a turn takes.
const HASHES: u64 = 2_048;

/// What each step does with tables, without touching a row: it waits for table locks and needs privileges as a step
/// does.
const AS_A_STEP: [&str; 2] = [
    "UPDATE runs SET records = records WHERE 1 = 0",
    "INSERT INTO steps (run) SELECT run FROM inbox WHERE 1 = 0",
];

/// An operation.
#[derive(Debug)]
pub(crate) enum Operation {
    Create(Session),
    /// If a head is given, deletes only if it is the session's.
    Delete(SessionId, Option<ChainHead>),
    /// Removes sessions idle since before this time, in microseconds.
    Prune(i64),
    Renew(RunLease),
    Release(RunLease),
    Expire(RunLease),
    Abandon(RunLease),
    Post {
        run: RunId,
        id: InputId,
        /// The entry as JSON.
        body: String,
        hash: ContentHash,
    },
    Settle(RunLease, Vec<InputId>),
    KeepOutput(RunLease, LongOutput),
    Revoke(SessionId, u32),
    /// Sets a valid title, or removes it.
    SetTitle(SessionId, Option<String>),
    /// Reserves the number of a lease that is never granted, and uses the tables that a step does. The first time, and
    /// after the disk was full, it writes as much as a turn does.
    Probe,
}

/// A run that begins.
#[derive(Debug)]
pub(crate) struct Beginning {
    pub(crate) start: RunStart,
    /// Its first records, encoded.
    pub(crate) first: Option<EncodedStep>,
}

/// The result of an operation.
#[derive(Debug)]
pub(crate) enum Done {
    Nothing,
    Leased(RunLease),
    /// Nothing was done: another transaction has the session locked, and may be about to remove it.
    Held,
    Counted(u64),
}

impl Operation {
    /// Its name among the operations of a store.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create_session",
            Self::Delete(..) => "delete_session",
            Self::Prune(_) => "prune",
            Self::Renew(_) => "renew",
            Self::Release(_) => "release",
            Self::Expire(_) => "expire",
            Self::Abandon(_) => "abandon_run",
            Self::Post { .. } => "post",
            Self::Settle(..) => "settle",
            Self::KeepOutput(..) => "keep_output",
            Self::Revoke(..) => "revoke",
            Self::SetTitle(..) => "set_title",
            Self::Probe => "probe",
        }
    }

    /// Returns the run that it concerns, if it concerns exactly one.
    pub(super) const fn run(&self) -> Option<RunId> {
        match self {
            Self::Post { run, .. } => Some(*run),
            Self::Renew(lease)
            | Self::Release(lease)
            | Self::Expire(lease)
            | Self::Abandon(lease)
            | Self::Settle(lease, _)
            | Self::KeepOutput(lease, _) => Some(lease.run),
            Self::Create(_)
            | Self::Delete(..)
            | Self::Prune(_)
            | Self::Revoke(..)
            | Self::SetTitle(..)
            | Self::Probe => None,
        }
    }
}

impl Task {
    pub(super) async fn perform(
        &mut self,
        link: &mut Link,
        operation: &Operation,
    ) -> Result<Done, Failure> {
        match operation {
            Operation::Create(session) => self.create(link, session).await?,
            Operation::Delete(session, at) => self.delete(link, session, *at).await?,
            Operation::Prune(before) => return self.prune(link, *before).await.map(Done::Counted),
            Operation::Renew(lease) => self.renew(link, lease).await?,
            Operation::Release(lease) => self.release(link, lease).await?,
            Operation::Expire(lease) => self.expire(link, lease).await?,
            Operation::Abandon(lease) => self.abandon(link, lease).await?,
            Operation::Post {
                run,
                id,
                body,
                hash,
            } => self.post(link, *run, id, body, *hash).await?,
            Operation::Settle(lease, ids) => self.settle(link, lease, ids).await?,
            Operation::KeepOutput(lease, output) => self.keep_output(link, lease, output).await?,
            Operation::Revoke(session, id) => {
                let revoked = self.revoke(link, session, *id).await?;
                return Ok(Done::Counted(u64::from(revoked)));
            }
            Operation::SetTitle(session, title) => {
                self.set_title(link, session, title.as_deref()).await?;
            }
            Operation::Probe => {
                self.next_tokens(link, 1).await?;
                // A number can be reserved even where no step can be stored.
                for sql in AS_A_STEP {
                    link.run(sql, &[]).await?;
                }
                // A number fits into an existing page, so it can be written when there is no space for a turn.
                if self.may_lack_room {
                    write_much(link).await?;
                }
                self.check_place().map_err(StoreError::Unavailable)?;
            }
        }
        Ok(Done::Nothing)
    }

    /// Refuses a SQLite file that is no longer at the path where it was opened, and reports why: a process that opens
    /// the store would not find what is written.
    pub(super) fn check_place(&self) -> Result<(), String> {
        let place = &self.database.place;
        let helps = match (self.file, self.database.file_identity()) {
            (Some(open), Some(there)) if open != there => match there {
                FileIdentity::Missing => {
                    format!(
                        "move {place}-wal next to the file's new location, named like the file with -wal added"
                    )
                }
                FileIdentity::Present { .. } => format!(
                    "remove {place}-wal and {place}-shm, which belong to the previous file, before starting any \
                     program again"
                ),
            },
            _ => return Ok(()),
        };
        Err(format!(
            "{place}: the file was moved or replaced while open, so what is written can no longer be found there; put \
             it back, or end this process and {helps}"
        ))
    }
}

/// Writes as much as a turn does and removes it in the same transaction, so it never becomes visible.
async fn write_much(link: &mut Link) -> Result<(), Error> {
    // Hashes cannot be compressed to fewer bytes.
    let hashes = (0..HASHES).map(|number| ContentHash::of(&number.to_be_bytes()));
    let bytes: Vec<u8> = hashes.flat_map(|hash| *hash.as_bytes()).collect();
    // No session has an empty id.
    let sql = "INSERT INTO sessions (id, created_at, seed) VALUES ('', 0, $1)";
    link.run(sql, values![bytes.as_slice()]).await?;
    link.run("DELETE FROM sessions WHERE id = ''", &[]).await?;
    Ok(())
}
