//! Everything that is written but steps.

use neuraxis_core::{ContentHash, Grant, InputId, RunId, SessionId};
use neuraxis_ports::{RunLease, Session};

use super::Task;
use crate::error::Failure;
use crate::link::{Link, values};

/// Something to do.
#[derive(Debug)]
pub(crate) enum Act {
    Create(Session),
    Delete(SessionId),
    /// Before this time, in microseconds.
    Prune(i64),
    Begin(SessionId, RunId),
    Renew(RunLease),
    Release(RunLease),
    MarkImported(RunLease),
    Abandon(RunLease),
    Post {
        run: RunId,
        id: InputId,
        /// The entry as JSON.
        body: String,
        hash: ContentHash,
    },
    Settle(RunLease, Vec<InputId>),
    Remember {
        lease: RunLease,
        grant: Box<Grant>,
        /// The same as JSON.
        body: String,
    },
    Revoke(SessionId, u32),
    /// Writes the number of a lease that nobody gets.
    Probe,
    /// What ended runs used, as JSON, found out from their records.
    KeepMetrics(Vec<(RunId, String)>),
}

/// What came of it.
#[derive(Debug)]
pub(crate) enum Done {
    Nothing,
    Leased(RunLease),
    Counted(u64),
}

impl Act {
    /// The run that it concerns, if it is one.
    pub(super) const fn run(&self) -> Option<RunId> {
        match self {
            Self::Begin(_, run) | Self::Post { run, .. } => Some(*run),
            Self::Renew(lease)
            | Self::Release(lease)
            | Self::MarkImported(lease)
            | Self::Abandon(lease)
            | Self::Settle(lease, _)
            | Self::Remember { lease, .. } => Some(lease.run),
            Self::Create(_)
            | Self::Delete(_)
            | Self::Prune(_)
            | Self::Revoke(..)
            | Self::Probe
            | Self::KeepMetrics(_) => None,
        }
    }
}

impl Task {
    pub(super) async fn act(&mut self, link: &mut Link, act: &Act) -> Result<Done, Failure> {
        match act {
            Act::Create(session) => self.create(link, session).await?,
            Act::Delete(session) => self.delete(link, session).await?,
            Act::Prune(before) => return self.prune(link, *before).await.map(Done::Counted),
            Act::Begin(session, run) => {
                return self.begin(link, session, *run).await.map(Done::Leased);
            }
            Act::Renew(lease) => self.renew(link, lease).await?,
            Act::Release(lease) => self.release(link, lease).await?,
            Act::MarkImported(lease) => self.mark_imported(link, lease).await?,
            Act::Abandon(lease) => self.abandon(link, lease).await?,
            Act::Post {
                run,
                id,
                body,
                hash,
            } => self.post(link, *run, id, body, *hash).await?,
            Act::Settle(lease, ids) => self.settle(link, lease, ids).await?,
            Act::Remember { lease, grant, body } => {
                self.remember(link, lease, grant, body).await?;
            }
            Act::Revoke(session, id) => {
                let revoked = self.revoke(link, session, *id).await?;
                return Ok(Done::Counted(u64::from(revoked)));
            }
            Act::Probe => drop(self.next_token(link).await?),
            Act::KeepMetrics(runs) => {
                for (run, metrics) in runs {
                    keep_metrics(link, *run, metrics).await?;
                }
            }
        }
        Ok(Done::Nothing)
    }
}

async fn keep_metrics(link: &mut Link, run: RunId, metrics: &str) -> Result<(), Failure> {
    let sql =
        "UPDATE runs SET metrics = $1 WHERE id = $2 AND metrics IS NULL AND ended_at IS NOT NULL";
    let id = run.0.as_bytes().as_slice();
    link.run(sql, values![metrics, id]).await?;
    Ok(())
}
