//! Stores steps, those of many runs together.

use std::collections::HashMap;

use neuraxis_core::JsonText;
use neuraxis_core::jiff::Timestamp;
use neuraxis_ports::{ChainHead, Ending, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::operation::Done;
use super::run_state::RunState;
use super::transaction::Transaction;
use super::upsert::{COLUMNS, in_chunks, update_runs};
use super::{Outcomes, Task, outcome};
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Value, values};
use crate::step::EncodedStep;

/// What a step changes in its run's row.
pub(super) struct Change {
    pub(super) key: i64,
    token: i64,
    /// The number of records before the step.
    pub(super) before: i64,
    pub(super) after: i64,
    bytes: i64,
    pub(super) head: ChainHead,
    started_at: Option<i64>,
    ended_at: Option<i64>,
    /// The summary of the run's records, as JSON.
    summary: JsonText,
}

/// A step that is the next one of its run, as far as this store knows.
pub(super) struct NextStep<'a> {
    /// Its place among the jobs.
    place: usize,
    pub(super) step: &'a EncodedStep,
    pub(super) change: Change,
}

impl<'a> NextStep<'a> {
    /// Describes a step already applied to the state of its run; `before` is the number of records before it.
    pub(super) fn applied(
        place: usize,
        step: &'a EncodedStep,
        state: &RunState,
        before: u64,
    ) -> Result<Self, StoreError> {
        Ok(Self {
            place,
            step,
            change: Change::of(state, before.cast_signed())?,
        })
    }
}

impl Task {
    /// Stores steps, each of a different run.
    pub(super) async fn commit<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        steps: &[&'a EncodedStep],
    ) -> Result<Outcomes, Error> {
        let mut outcomes = Vec::with_capacity(steps.len());
        let mut next = Vec::with_capacity(steps.len());
        for (place, step) in steps.iter().enumerate() {
            match self.plan(transaction, place, step).await {
                Ok(planned) => {
                    next.extend(planned);
                    outcomes.push(Ok(Done::Nothing));
                }
                Err(failure) => outcomes.push(outcome(Err(failure))?),
            }
        }
        for chunk in in_chunks(&next) {
            for refused in self
                .store_steps(transaction, chunk)
                .await
                .map_err(permanent_error)?
            {
                let run = refused.step.lease.run;
                self.runs.remove(&run);
                if let Some(outcome) = outcomes.get_mut(refused.place) {
                    *outcome = Err(StoreError::Stale(run));
                }
            }
        }
        for NextStep { step, .. } in &next {
            if step.ending == Ending::Ends {
                let state = self.runs.remove(&step.lease.run);
                transaction
                    .ended
                    .extend(state.and_then(RunState::into_ended));
            }
        }
        Ok(outcomes)
    }

    /// Decides what a step changes: nothing if it is already stored.
    async fn plan<'a>(
        &mut self,
        transaction: &mut Transaction<'_>,
        place: usize,
        step: &'a EncodedStep,
    ) -> Result<Option<NextStep<'a>>, Failure> {
        let lease = &step.lease;
        let stale = || StoreError::Stale(lease.run);
        let Some((first, last)) = step.range() else {
            self.leased(&mut transaction.link, lease).await?;
            return Ok(None);
        };
        self.load(&mut transaction.link, lease).await?;
        let bounds = self.settings.bounds;
        let state = self.runs.get_mut(&lease.run).ok_or_else(stale)?;
        let before = state.size;
        if state.has_ended() || first != before.records + 1 {
            let key = state.key;
            let is_last = last == before.records;
            let repeats = is_last && transaction.is_stored(key, step).await?;
            return if repeats {
                Ok(None)
            } else {
                Err(stale().into())
            };
        }
        state.check_size(step, &bounds)?;
        state.apply(step, &bounds);
        Ok(Some(NextStep::applied(place, step, state, before.records)?))
    }

    /// Stores what is not in the row of a run: a step, its payloads, and what a session carries.
    pub(super) async fn insert_step<'a>(
        &self,
        transaction: &mut Transaction<'a>,
        next: &NextStep<'a>,
    ) -> Result<(), Failure> {
        transaction.insert_step(next);
        let link = &mut transaction.link;
        insert_payloads(link, next).await?;
        if next.step.carries {
            self.carry(link, next.change.key, &next.step.records)
                .await?;
        }
        Ok(())
    }

    /// Stores a chunk of steps; returns those whose run another process has taken over.
    async fn store_steps<'n, 'a>(
        &self,
        transaction: &mut Transaction<'a>,
        steps: &'n [NextStep<'a>],
    ) -> Result<Vec<&'n NextStep<'a>>, Failure> {
        let mut values = Vec::with_capacity(steps.len() * COLUMNS + 1);
        for NextStep { change, .. } in steps {
            change.add_values(&mut values);
        }
        values.push(Value::from(self.settings.lease_millis()));
        let sql = update_runs(self.database.dialect, steps.len());
        let rows = transaction.link.rows(AssertSqlSafe(sql), &values).await?;
        let mut changed = HashMap::with_capacity(rows.len());
        for row in rows {
            changed.insert(row.int(0)?, row.int(1)? != 0);
        }
        let is_changed = |next: &&NextStep<'_>| changed.contains_key(&next.change.key);
        let (accepted, refused): (Vec<_>, Vec<_>) = steps.iter().partition(is_changed);
        // A server checks the inbox before it waits for the row of a run, so it may have missed new entries.
        let may_have_missed = self.database.dialect == Dialect::Postgres;
        let mut ended = Vec::new();
        for next in accepted {
            self.insert_step(transaction, next).await?;
            let key = next.change.key;
            // Most records that could take an inbox entry do not.
            let has_some = changed.get(&key) == Some(&true);
            match next.step.ending {
                Ending::Ends if has_some || may_have_missed => ended.push(key),
                Ending::Continues if has_some => {
                    let link = &mut transaction.link;
                    self.take(link, key, &next.step.taken).await?;
                }
                _ => {}
            }
        }
        self.take_all(&mut transaction.link, &ended).await?;
        Ok(refused)
    }
}

async fn insert_payloads(link: &mut Link, next: &NextStep<'_>) -> Result<(), Error> {
    let sql = "INSERT INTO payloads (run, hash, body) VALUES ($1, $2, $3) ON CONFLICT (run, hash) DO NOTHING";
    for (hash, body) in &next.step.payloads {
        let values = values![next.change.key, hash.as_bytes().as_slice(), body.as_slice()];
        link.run(sql, values).await?;
    }
    Ok(())
}

impl Change {
    fn of(state: &RunState, before: i64) -> Result<Self, StoreError> {
        let summary = JsonText::encode(&state.summary).map_err(|_| StoreError::Invalid {
            what: "record",
            rule: "one that can be summed up as JSON",
        })?;
        Ok(Self {
            key: state.key,
            token: state.token.cast_signed(),
            before,
            after: state.size.records.cast_signed(),
            bytes: state.size.bytes.cast_signed(),
            head: state.head,
            started_at: state.summary.started_at.map(Timestamp::as_microsecond),
            ended_at: state.summary.ended_at.map(Timestamp::as_microsecond),
            summary,
        })
    }

    /// Returns the state after the first records of a run, in the order of the columns of `inserting_runs`.
    pub(super) fn first_values(&self) -> [Value<'_>; 5] {
        [
            Value::from(self.after),
            Value::from(self.bytes),
            Value::Int(self.started_at),
            Value::Int(self.ended_at),
            Value::from(self.summary.as_str()),
        ]
    }

    /// Adds the values in the order of the columns of [`update_runs`].
    fn add_values<'a>(&'a self, values: &mut Vec<Value<'a>>) {
        values.extend([
            Value::from(self.key),
            Value::from(self.token),
            Value::from(self.before),
            Value::from(self.after),
            Value::from(self.bytes),
            Value::from(self.head.records.cast_signed()),
            Value::from(self.head.hash.as_bytes().as_slice()),
            Value::Int(self.started_at),
            Value::Int(self.ended_at),
            Value::from(self.summary.as_str()),
        ]);
    }
}

/// Turns unreadable data beside the steps into an error of the database, which ends the transaction. Each step is then
/// tried alone, which shows whether it is the cause.
pub(super) fn permanent_error(failure: Failure) -> Error {
    match failure {
        Failure::Database(error) => error,
        Failure::Refused(error) => Error::Decode(error.into()),
    }
}
