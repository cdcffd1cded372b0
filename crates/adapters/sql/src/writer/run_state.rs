//! What the writer knows of a run that this store drives, so that a step costs no reading.

use neuraxis_core::{Record, RunMeter};
use neuraxis_ports::{ChainHead, RunLease, RunSize, RunSummary, StoreError};
use sqlx::AssertSqlSafe;

use super::Task;
use crate::error::Failure;
use crate::link::{Link, values};
use crate::read::ids::hash;
use crate::read::{records, runs};

#[derive(Debug)]
pub(super) struct RunState {
    pub(super) key: i64,
    pub(super) token: u64,
    pub(super) head: ChainHead,
    pub(super) size: RunSize,
    pub(super) summary: RunSummary,
    pub(super) meter: RunMeter,
}

impl RunState {
    /// A run without records.
    pub(super) fn new(key: i64, lease: &RunLease, head: ChainHead) -> Self {
        Self {
            key,
            token: lease.token,
            head,
            size: RunSize::default(),
            summary: RunSummary::new(lease.run, lease.session.clone()),
            meter: RunMeter::new(),
        }
    }

    pub(super) fn read(&mut self, record: &Record) {
        self.summary.read(record);
        self.meter.read(record);
    }

    pub(super) const fn has_ended(&self) -> bool {
        self.summary.ended_at.is_some()
    }
}

impl Task {
    /// Returns the key of the run of a lease, if the lease is the last one that was given for it.
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

    /// Makes sure that the state of a lease's run is known.
    pub(super) async fn know(&mut self, link: &mut Link, lease: &RunLease) -> Result<(), Failure> {
        let known = self.runs.get(&lease.run);
        let is_known = known.is_some_and(|state| {
            state.token == lease.token && state.summary.session == lease.session
        });
        if is_known {
            return Ok(());
        }
        let key = self.leased(link, lease).await?;
        let sql = "SELECT chain_records, chain, records, bytes FROM runs WHERE key = $1";
        let row = link.row(sql, values![key]).await?;
        let row = row.ok_or(StoreError::Stale(lease.run))?;
        let head = ChainHead::new(row.int(0)?.cast_unsigned(), hash(&row, 1)?);
        let mut state = RunState::new(key, lease, head);
        state.size = RunSize {
            records: row.int(2)?.cast_unsigned(),
            bytes: row.int(3)?.cast_unsigned(),
        };
        match records::of_run(link, key, lease.run, 0).await {
            Ok(records) => records.iter().for_each(|record| state.read(record)),
            // What can be told without its records is enough to end a run.
            Err(Failure::Refused(StoreError::Damaged(_))) => {
                state.summary = runs::find(link, &self.database, lease.run).await?;
            }
            Err(failure) => return Err(failure),
        }
        self.runs.insert(lease.run, state);
        Ok(())
    }
}
