//! The writer's cached state of a run that this store drives, so a step needs no reads.

use std::sync::Arc;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{ContentHash, Record, SessionId};
use neuraxis_ports::{ChainHead, Ending, RunBounds, RunLease, RunSize, StoreError};
use sqlx::AssertSqlSafe;

use super::Task;
use crate::error::Failure;
use crate::link::{Link, values};
use crate::read::history::EndedRun;
use crate::step::EncodedStep;

#[derive(Debug)]
pub(super) struct RunState {
    pub(super) key: i64,
    pub(super) token: u64,
    pub(super) head: ChainHead,
    pub(super) size: RunSize,
    pub(super) session: SessionId,
    /// Whether its records come from another store.
    pub(super) imported: bool,
    /// The summary of its records.
    pub(super) summary: LogSummary,
    /// Its records, if all of them are here and another run of the session precedes it.
    kept: Option<KeptRecords>,
}

/// The records of a run that follows another one of its session.
#[derive(Debug)]
struct KeptRecords {
    session: i64,
    /// The key of the run before it.
    after: i64,
    /// The head of the session's chain before it.
    from: ContentHash,
    records: Vec<Arc<Record>>,
}

impl RunState {
    /// Creates the state of a run without records.
    pub(super) fn new(key: i64, lease: &RunLease, head: ChainHead) -> Self {
        Self {
            key,
            token: lease.token,
            head,
            size: RunSize::default(),
            session: lease.session.clone(),
            imported: false,
            summary: LogSummary::default(),
            kept: None,
        }
    }

    /// Keeps the records of a run that has none yet, until it has ended: the session's next run then starts from them
    /// without a read. They are shared with those who follow the run.
    pub(super) fn keep_records(&mut self, session: i64, after: i64) {
        self.kept = Some(KeptRecords {
            session,
            after,
            from: self.head.hash,
            records: Vec::new(),
        });
    }

    /// Returns the run for the cached histories, if it has ended and its records are here.
    pub(super) fn into_ended(self) -> Option<EndedRun> {
        let kept = self.kept.filter(|_| self.summary.ended_at.is_some())?;
        Some(EndedRun {
            session: kept.session,
            after: kept.after,
            from: kept.from,
            key: self.key,
            chain: self.head.hash,
            bytes: self.size.bytes,
            records: kept.records,
        })
    }

    /// Checks that the run has space for a step. Imported records may already have used the space reserved for the
    /// run's end.
    pub(super) fn check_size(
        &self,
        step: &EncodedStep,
        bounds: &RunBounds,
    ) -> Result<(), StoreError> {
        let ending = match self.imported {
            true => Ending::Ends,
            false => step.ending,
        };
        let size = step.added_to(self.size);
        size.check(bounds, step.lease.run, ending)
    }

    /// Applies a step that is the next one.
    pub(super) fn apply(&mut self, step: &EncodedStep, bounds: &RunBounds) {
        let size = step.added_to(self.size);
        if size.has_crossed(self.size, bounds) {
            tracing::warn!(run = %step.lease.run, records = size.records, bytes = size.bytes, "a run is getting long");
        }
        for record in &step.records {
            self.summary.apply(record);
        }
        if let Some(kept) = &mut self.kept {
            kept.records.extend(step.records.iter().cloned());
        }
        self.size = size;
        self.head = step.chained(self.head);
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.summary.ended_at.is_some()
    }
}

impl Task {
    /// Returns the key of a lease's run, if the lease is the last one granted for it.
    pub(super) async fn leased(&self, link: &mut Link, lease: &RunLease) -> Result<i64, Failure> {
        let sql = format!(
            "SELECT runs.key FROM runs JOIN sessions ON sessions.key = runs.session \
             WHERE runs.id = $1 AND runs.token = $2 AND sessions.id = $3{}",
            match self.database.dialect {
                crate::database::Dialect::Sqlite => "",
                crate::database::Dialect::Postgres => " FOR UPDATE OF runs",
            }
        );
        let values = values![
            lease.run.0.as_bytes().as_slice(),
            lease.token.cast_signed(),
            lease.session.as_str(),
        ];
        let row = link.row(AssertSqlSafe(sql), values).await?;
        let row = row.ok_or(StoreError::Stale(lease.run))?;
        Ok(row.int(0)?)
    }

    /// Loads the state of a lease's run unless it is cached.
    pub(super) async fn load(&mut self, link: &mut Link, lease: &RunLease) -> Result<(), Failure> {
        let state = self.runs.get(&lease.run);
        let is_here =
            state.is_some_and(|state| state.token == lease.token && state.session == lease.session);
        if is_here {
            return Ok(());
        }
        let key = self.leased(link, lease).await?;
        let sql = "SELECT chain_records, chain, records, bytes, summary, imported FROM runs WHERE key = $1";
        let row = link.row(sql, values![key]).await?;
        let row = row.ok_or(StoreError::Stale(lease.run))?;
        let head = ChainHead::new(row.int(0)?.cast_unsigned(), row.hash(1)?);
        let mut state = RunState::new(key, lease, head);
        state.size = RunSize {
            records: row.int(2)?.cast_unsigned(),
            bytes: row.int(3)?.cast_unsigned(),
        };
        let summary = row.maybe_json(4, &format!("the summary of run {}", lease.run))?;
        state.summary = summary.unwrap_or_default();
        state.imported = row.int(5)? != 0;
        self.runs.insert(lease.run, state);
        Ok(())
    }
}
