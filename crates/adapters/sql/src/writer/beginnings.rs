//! Rows of runs that begin, and of the sessions that are made with them: many in a statement.

use std::collections::HashMap;
use std::fmt::Write as _;

use neuraxis_core::{JsonText, RunId};
use neuraxis_ports::{ChainHead, RunLease, RunStart, Session, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::run_state::RunState;
use super::upsert::{chunks, rows};
use super::{Outcomes, Task, outcome};
use crate::database::Dialect;
use crate::link::{Link, Value, values};

/// A run that begins in a session that is there by now.
pub(super) struct NewRun<'a> {
    pub(super) start: &'a RunStart,
    pub(super) session_key: i64,
    /// Where the chain of the session stands.
    pub(super) head: ChainHead,
}

impl Task {
    /// Makes sessions and begins a run in each.
    pub(super) async fn begin_in_new_sessions(
        &mut self,
        link: &mut Link,
        starts: &[&RunStart],
    ) -> Result<Outcomes, Error> {
        let mut outcomes = Vec::with_capacity(starts.len());
        let mut rest = starts;
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at(chunks(rest.len()));
            let sessions = chunk.iter().filter_map(|start| start.new_session.as_ref());
            let mut made = make(link, &sessions.collect::<Vec<_>>()).await?;
            let mut leases = self.begin_in_made(link, chunk, &mut made).await?;
            for start in chunk {
                outcomes.push(match leases.remove(&start.run) {
                    Some(lease) => Ok(super::Done::Leased(lease)),
                    // Its session was there: perhaps this is a call that is repeated.
                    None => outcome(self.begin_in(link, start).await.map(super::Done::Leased))?,
                });
            }
            rest = others;
        }
        Ok(outcomes)
    }

    /// Begins those runs whose sessions were just made.
    async fn begin_in_made(
        &mut self,
        link: &mut Link,
        starts: &[&RunStart],
        made: &mut HashMap<String, i64>,
    ) -> Result<HashMap<RunId, RunLease>, Error> {
        let new = starts.iter().filter_map(|start| {
            let session_key = made.remove(start.session.as_str())?;
            let head = ChainHead::start(start.new_session.as_ref()?);
            Some(NewRun {
                start,
                session_key,
                head,
            })
        });
        let new: Vec<_> = new.collect();
        let mut leases = HashMap::with_capacity(new.len());
        let mut rest = new.as_slice();
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at(chunks(rest.len()));
            for (new, lease) in chunk.iter().zip(self.insert_runs(link, chunk).await?) {
                // Where another run has the id, the session is not made either: the transaction fails.
                leases.insert(new.start.run, lease.ok_or(Error::RowNotFound)?);
            }
            rest = others;
        }
        Ok(leases)
    }

    /// Adds runs, a power of two; `None` for those whose ids are taken.
    pub(super) async fn insert_runs(
        &mut self,
        link: &mut Link,
        new: &[NewRun<'_>],
    ) -> Result<Vec<Option<RunLease>>, Error> {
        let tokens = self.next_tokens(link, new.len()).await?;
        let sql = inserting_runs(self.database.dialect, new.len());
        let mut values = vec![
            Value::from(self.settings.holder.as_str()),
            Value::from(self.settings.lease_millis()),
        ];
        for (new, token) in new.iter().zip(&tokens) {
            let request = new.start.request.as_ref();
            let request_key = request.map(|request| request.key.as_bytes().as_slice());
            values.extend([
                Value::from(new.start.run.0.as_bytes().as_slice()),
                Value::from(new.session_key),
                Value::from(*token),
                Value::from(new.head.records.cast_signed()),
                Value::from(new.head.hash.as_bytes().as_slice()),
                Value::from(i64::from(new.start.imported)),
                Value::Bytes(request_key),
                Value::Text(request.map(|request| request.asked.as_str())),
            ]);
        }
        let mut keys = HashMap::with_capacity(new.len());
        for row in link.rows(AssertSqlSafe(sql), &values).await? {
            keys.insert(row.bytes(1)?, row.int(0)?);
        }
        let leases = new.iter().zip(tokens).map(|(new, token)| {
            let key = *keys.get(new.start.run.0.as_bytes().as_slice())?;
            let lease = self.lease(new.start, token);
            let state = RunState::new(key, &lease, new.head);
            self.runs.insert(new.start.run, state);
            Some(lease)
        });
        Ok(leases.collect())
    }

    /// Returns the numbers of so many new leases.
    async fn next_tokens(&self, link: &mut Link, count: usize) -> Result<Vec<i64>, Error> {
        let dialect = self.database.dialect;
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        let rows = link.rows(dialect.next_leases(), values![count]).await?;
        let numbers = rows.iter().map(|row| row.int(0));
        match dialect {
            Dialect::Postgres => numbers.collect(),
            // The last of them.
            Dialect::Sqlite => {
                let last = numbers.last().ok_or(Error::RowNotFound)??;
                Ok((last - count + 1..=last).collect())
            }
        }
    }
}

/// Makes sessions, a power of two, and returns the keys of those whose ids were not taken.
pub(super) async fn make(
    link: &mut Link,
    sessions: &[&Session],
) -> Result<HashMap<String, i64>, Error> {
    let seeds = sessions.iter().map(|session| seed_of(session));
    let seeds = seeds.collect::<Result<Vec<_>, _>>();
    let seeds = seeds.map_err(|error| Error::Encode(error.into()))?;
    let mut values = Vec::with_capacity(sessions.len() * 4);
    for (session, seed) in sessions.iter().zip(&seeds) {
        values.extend([
            Value::from(session.id.as_str()),
            Value::Text(session.owner.as_deref()),
            Value::from(session.created_at.as_microsecond()),
            Value::Bytes(seed.as_ref().map(|seed| seed.as_str().as_bytes())),
        ]);
    }
    let sql = format!(
        "INSERT INTO sessions (id, owner, created_at, seed) VALUES {} ON CONFLICT (id) DO NOTHING RETURNING id, key",
        rows(sessions.len(), 4)
    );
    let made = link.rows(AssertSqlSafe(sql), &values).await?;
    made.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Returns what a session's history begins with, as JSON, if it begins with anything.
fn seed_of(session: &Session) -> Result<Option<JsonText>, StoreError> {
    if session.seed.is_empty() {
        return Ok(None);
    }
    let seed = JsonText::encode(&session.seed);
    seed.map(Some).map_err(|_| StoreError::Invalid {
        what: "seed",
        rule: "messages that can be written as JSON",
    })
}

/// The statement that adds so many runs. What is the same for all of them comes first: the holder, and the length of its leases.
fn inserting_runs(dialect: Dialect, count: usize) -> String {
    const COLUMNS: usize = 8;
    let now = dialect.now();
    let mut sql = String::from(
        "INSERT INTO runs (id, session, token, chain_records, chain, imported, request_key, request, holder, \
         leased_until, lease_ms, records, bytes) VALUES ",
    );
    for run in 0..count {
        sql.push_str(if run == 0 { "(" } else { ", (" });
        for column in 0..COLUMNS {
            // Writing to a string cannot fail.
            let _ = write!(sql, "${}, ", 3 + run * COLUMNS + column);
        }
        let _ = write!(sql, "$1, {now} + $2, $2, 0, 0)");
    }
    sql.push_str(" ON CONFLICT (id) DO NOTHING RETURNING key, id");
    sql
}
