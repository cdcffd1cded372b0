//! Inserts the rows of new runs, and of the sessions created with them: many per statement.

use std::collections::HashMap;
use std::fmt::Write as _;

use neuraxis_core::{JsonText, RunId};
use neuraxis_ports::{ChainHead, RunLease, Session, StoreError};
use sqlx::{AssertSqlSafe, Error};

use super::commit::{NextStep, permanent_error};
use super::operation::{Beginning, Done};
use super::run_state::RunState;
use super::transaction::Transaction;
use super::upsert::{in_chunks, rows};
use super::{Outcomes, Task, outcome};
use crate::database::Dialect;
use crate::error::Failure;
use crate::link::{Link, Value};

/// A run that begins in a session that exists by now.
pub(super) struct NewRun<'a> {
    pub(super) beginning: &'a Beginning,
    pub(super) session_key: i64,
    /// The head of the session's chain.
    pub(super) head: ChainHead,
    /// The key of the session's last run, if it was read.
    pub(super) after: Option<i64>,
}

/// A run that has begun, except for its key.
struct StartedRun<'a> {
    lease: RunLease,
    state: RunState,
    first: Option<NextStep<'a>>,
}

impl Task {
    /// Creates sessions and begins a run in each.
    pub(super) async fn begin_in_new_sessions<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginnings: &[&'a Beginning],
    ) -> Result<Outcomes, Error> {
        let mut outcomes = Vec::with_capacity(beginnings.len());
        for chunk in in_chunks(beginnings) {
            let sessions = chunk.iter().copied().filter_map(NewSession::of);
            let sessions: Vec<_> = sessions.collect();
            let mut made = make(&mut transaction.link, &sessions).await?;
            let leases = self.begin_in_made(transaction, chunk, &mut made).await?;
            outcomes.extend(self.begin_or_refuse(transaction, chunk, leases).await?);
        }
        Ok(outcomes)
    }

    /// Returns the outcomes of beginnings. For one that could not begin with the others, checks its session alone: it
    /// may be refused, or this may be a repeated call.
    pub(super) async fn begin_or_refuse<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginnings: &[&'a Beginning],
        mut leases: HashMap<RunId, RunLease>,
    ) -> Result<Outcomes, Error> {
        let mut outcomes = Vec::with_capacity(beginnings.len());
        for beginning in beginnings {
            let begun = match leases.remove(&beginning.start.run) {
                Some(lease) => Ok(Done::Leased(lease)),
                None => self.begin_in(transaction, beginning).await,
            };
            outcomes.push(outcome(begun)?);
        }
        Ok(outcomes)
    }

    /// Begins the runs whose sessions were just created.
    async fn begin_in_made<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        beginnings: &[&'a Beginning],
        made: &mut HashMap<String, i64>,
    ) -> Result<HashMap<RunId, RunLease>, Error> {
        let new = beginnings.iter().filter_map(|beginning| {
            let start = &beginning.start;
            let session_key = made.remove(start.session.as_str())?;
            let head = ChainHead::start(start.new_session.as_ref()?);
            Some(NewRun {
                beginning,
                session_key,
                head,
                after: None,
            })
        });
        let new: Vec<_> = new.collect();
        let leases = self.begin_all(transaction, &new, 0).await?;
        // If another run has the id, the session must not be created either: fail the transaction.
        match leases.len() == new.len() {
            true => Ok(leases),
            false => Err(Error::RowNotFound),
        }
    }

    /// Inserts runs and leases them, except those whose ids are taken. `last_token` is the greatest lease number given
    /// so far in any of their sessions.
    pub(super) async fn begin_all<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        new: &[NewRun<'a>],
        last_token: i64,
    ) -> Result<HashMap<RunId, RunLease>, Error> {
        let mut leases = HashMap::with_capacity(new.len());
        for chunk in in_chunks(new) {
            let link = &mut transaction.link;
            let tokens = self.tokens_after(link, last_token, chunk.len()).await?;
            let inserted = self.insert_runs(transaction, chunk, &tokens).await;
            let inserted = inserted.map_err(permanent_error)?;
            leases.extend(inserted.into_iter().map(|it| (it.run, it)));
        }
        Ok(leases)
    }

    /// Inserts runs with their first records, as many as fit into one statement, except those whose ids are taken.
    pub(super) async fn insert_runs<'a>(
        &mut self,
        transaction: &mut Transaction<'a>,
        new: &[NewRun<'a>],
        tokens: &[i64],
    ) -> Result<Vec<RunLease>, Failure> {
        let begun = new.iter().zip(tokens);
        let begun = begun.map(|(new, token)| self.started_run(new, *token));
        let begun = begun.collect::<Result<Vec<_>, _>>()?;
        let sql = inserting_runs(self.database.dialect, new.len());
        let mut values = vec![
            Value::from(self.settings.holder.as_str()),
            Value::from(self.settings.lease_millis()),
        ];
        for (new, begun) in new.iter().zip(&begun) {
            values.extend(row_of(new, begun));
        }
        let mut keys = HashMap::with_capacity(new.len());
        for row in transaction.link.rows(AssertSqlSafe(sql), &values).await? {
            keys.insert(row.bytes(1)?, row.int(0)?);
        }
        let mut leases = Vec::with_capacity(new.len());
        for (new, mut begun) in new.iter().zip(begun) {
            let run = new.beginning.start.run;
            let Some(key) = keys.get(run.0.as_bytes().as_slice()) else {
                continue;
            };
            if let Some(mut first) = begun.first {
                first.change.key = *key;
                self.insert_step(transaction, &first).await?;
            }
            begun.state.key = *key;
            if begun.state.has_ended() {
                transaction.ended.extend(begun.state.into_ended());
            } else {
                self.runs.insert(run, begun.state);
            }
            leases.push(begun.lease);
        }
        Ok(leases)
    }

    /// Returns the state of a run once it has begun.
    fn started_run<'a>(&self, new: &NewRun<'a>, token: i64) -> Result<StartedRun<'a>, StoreError> {
        let lease = self.lease(&new.beginning.start, token);
        let mut state = RunState::new(0, &lease, new.head);
        state.imported = new.beginning.start.imported;
        if let Some(after) = new.after {
            state.keep_records(new.session_key, after);
        }
        let first = match &new.beginning.first {
            Some(step) => {
                state.apply(step, &self.settings.bounds);
                Some(NextStep::applied(0, step, &state, 0)?)
            }
            None => None,
        };
        Ok(StartedRun {
            lease,
            state,
            first,
        })
    }
}

/// A session that is about to be created.
pub(super) struct NewSession<'a> {
    session: &'a Session,
    /// When the run that it is created with begins, in microseconds; `None` without a run or its first record.
    active_at: Option<i64>,
}

impl<'a> NewSession<'a> {
    /// Creates a session without a run.
    pub(super) const fn alone(session: &'a Session) -> Self {
        Self {
            session,
            active_at: None,
        }
    }

    /// Returns the session that is created with a run, if that is not to begin in an existing one. It has the time of
    /// its activity from the start, so that the trigger of the run's row has nothing to change.
    fn of(beginning: &'a Beginning) -> Option<Self> {
        let session = beginning.start.new_session.as_ref()?;
        let first = beginning.start.records.first();
        let active_at = first.map(|record| record.at.as_microsecond());
        Some(Self { session, active_at })
    }
}

/// The number of columns of a new session, as named in [`make`].
const SESSION_COLUMNS: usize = 6;

/// Creates sessions, as many as fit into one statement, and returns the keys of those whose ids were not taken.
pub(super) async fn make(
    link: &mut Link,
    sessions: &[NewSession<'_>],
) -> Result<HashMap<String, i64>, Error> {
    let seeds = sessions.iter().map(|new| seed_of(new.session));
    let seeds = seeds.collect::<Result<Vec<_>, _>>();
    let seeds = seeds.map_err(|error| Error::Encode(error.into()))?;
    let mut values = Vec::with_capacity(sessions.len() * SESSION_COLUMNS);
    for (NewSession { session, active_at }, seed) in sessions.iter().zip(&seeds) {
        values.extend([
            Value::from(session.id.as_str()),
            Value::Text(session.owner.as_deref()),
            Value::from(session.created_at.as_microsecond()),
            Value::Bytes(seed.as_ref().map(|seed| seed.as_str().as_bytes())),
            Value::Text(session.title.as_deref()),
            Value::Int(*active_at),
        ]);
    }
    let sql = format!(
        "INSERT INTO sessions (id, owner, created_at, seed, title, last_active_at) VALUES {} \
         ON CONFLICT (id) DO NOTHING RETURNING id, key",
        rows(sessions.len(), SESSION_COLUMNS)
    );
    let made = link.rows(AssertSqlSafe(sql), &values).await?;
    made.iter()
        .map(|row| Ok((row.text(0)?, row.int(1)?)))
        .collect()
}

/// Returns the messages that a session's history begins with, as JSON, if there are any.
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

/// The number of columns of a new run, as named in [`inserting_runs`].
const COLUMNS: usize = 13;

/// Returns the values in the order of the columns of [`inserting_runs`].
fn row_of<'a>(new: &'a NewRun<'_>, begun: &'a StartedRun<'_>) -> [Value<'a>; COLUMNS] {
    let start = &new.beginning.start;
    let request = start.request.as_ref();
    let request_key = request.map(|request| request.key.as_bytes().as_slice());
    let nothing = [
        Value::from(0),
        Value::from(0),
        Value::Int(None),
        Value::Int(None),
        Value::Text(None),
    ];
    let first = begun.first.as_ref();
    let [records, bytes, started_at, ended_at, summary] =
        first.map_or(nothing, |first| first.change.first_values());
    [
        Value::from(start.run.0.as_bytes().as_slice()),
        Value::from(new.session_key),
        Value::from(begun.state.token.cast_signed()),
        Value::from(begun.state.head.records.cast_signed()),
        Value::from(begun.state.head.hash.as_bytes().as_slice()),
        Value::from(i64::from(start.imported)),
        Value::Bytes(request_key),
        Value::Text(request.map(|request| request.asked.as_str())),
        records,
        bytes,
        started_at,
        summary,
        ended_at,
    ]
}

/// Returns the statement that inserts `count` runs. The values shared by all of them come first: the holder, and the
/// length of its leases.
fn inserting_runs(dialect: Dialect, count: usize) -> String {
    let now = dialect.now();
    let mut sql = String::from(
        "INSERT INTO runs (id, session, token, chain_records, chain, imported, request_key, request, \
         records, bytes, started_at, summary, ended_at, holder, leased_until, lease_ms) VALUES ",
    );
    for run in 0..count {
        sql.push_str(if run == 0 { "(" } else { ", (" });
        let last = 2 + (run + 1) * COLUMNS;
        for column in last - COLUMNS + 1..=last {
            // Writing to a string cannot fail.
            let _ = write!(sql, "${column}, ");
        }
        // A run that ends as it begins has no holder.
        let _ = write!(
            sql,
            "$1, CASE WHEN ${last} IS NULL THEN {now} + $2 END, $2)"
        );
    }
    sql.push_str(" ON CONFLICT (id) DO NOTHING RETURNING key, id");
    sql
}
