//! The messages of sessions. What ended runs left does not change, so that it is kept for the next run of the session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use neuraxis_core::{Record, RunId, SessionId, Transcript, continued_history};
use neuraxis_ports::{Standing, StoreError};

use super::{records, sessions};
use crate::error::Failure;
use crate::link::{Link, values};

/// The most bytes of records and seeds whose messages are kept in memory, over all sessions.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// What a history takes beside its messages.
const FRAME: u64 = 1_024;

/// Finds a session and its last run.
pub(super) const STANDING: &str = "SELECT sessions.key, carried, runs.key, runs.id, ended_at FROM sessions LEFT JOIN runs ON runs.key = \
     (SELECT key FROM runs WHERE session = sessions.key ORDER BY key DESC LIMIT 1) WHERE sessions.id = $1";

/// Histories that were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct Histories(Mutex<Cache>);

#[derive(Debug)]
struct Cache {
    /// By the key of the session, which never comes back.
    histories: LruCache<i64, CachedHistory>,
    bytes: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            // Bounded by bytes: a conversation may be a hundred times as long as another.
            histories: LruCache::unbounded(),
            bytes: 0,
        }
    }
}

#[derive(Debug, Clone)]
struct CachedHistory {
    session: SessionId,
    history: Transcript,
    /// The key of the last run in it.
    upto: i64,
    /// About how many bytes it takes.
    bytes: u64,
}

/// A run that has ended in this process, after another one of its session.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// The key of the session.
    pub(crate) session: i64,
    /// The key of the run before it.
    pub(crate) after: i64,
    pub(crate) key: i64,
    pub(crate) bytes: u64,
    /// From the first to the last: it was at work in no other process.
    pub(crate) records: Vec<Arc<Record>>,
}

impl Histories {
    /// Adds what a run left, where the history before it is at hand: a session that goes on in one process is read no
    /// more than once.
    pub(crate) fn add(&self, run: &EndedRun) {
        let known = self.find(run.session);
        let Some(mut known) = known.filter(|known| known.upto == run.after) else {
            return;
        };
        known.history = continued_history(&known.history, &run.records);
        known.upto = run.key;
        known.bytes += run.bytes;
        self.keep(run.session, known);
    }

    /// Forgets sessions that are no longer there.
    pub(crate) fn forget(&self, is_gone: impl Fn(&SessionId) -> bool) {
        let mut cache = self.cache();
        let known = cache.histories.iter();
        let gone = known.filter(|(_, known)| is_gone(&known.session));
        let gone: Vec<_> = gone.map(|(session, _)| *session).collect();
        for session in gone {
            let known = cache.histories.pop(&session);
            cache.bytes -= known.map_or(0, |known| known.bytes);
        }
    }

    fn find(&self, session: i64) -> Option<CachedHistory> {
        self.cache().histories.get(&session).cloned()
    }

    fn keep(&self, session: i64, known: CachedHistory) {
        // One that has no room by itself would take everybody's.
        if known.bytes > MAX_BYTES {
            return;
        }
        let mut cache = self.cache();
        let newer = cache.histories.peek(&session);
        if newer.is_some_and(|newer| newer.upto > known.upto) {
            return;
        }
        cache.bytes += known.bytes;
        if let Some(old) = cache.histories.put(session, known) {
            cache.bytes -= old.bytes;
        }
        while cache.bytes > MAX_BYTES
            && let Some((_, oldest)) = cache.histories.pop_lru()
        {
            cache.bytes -= oldest.bytes;
        }
    }

    /// Locks what is kept, for no longer than a few lookups; never across an `await`.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the messages of a session as its ended runs left them.
pub(crate) async fn of_session(
    link: &mut Link,
    histories: &Histories,
    id: &SessionId,
) -> Result<Transcript, Failure> {
    let key = sessions::key(link, id).await?;
    upto(link, histories, (key, id), i64::MAX).await
}

/// Returns what the next run of a session goes on from. Its last run is read first: whatever comes after it is found out when
/// the next one begins.
pub(crate) async fn standing(
    link: &mut Link,
    histories: &Histories,
    id: &SessionId,
) -> Result<Standing, Failure> {
    let row = link.row(STANDING, values![id.as_str()]).await?;
    let row = row.ok_or_else(|| StoreError::NoSuchSession(id.clone()))?;
    let key = row.int(0)?;
    let (upto_run, last_run) = match (row.maybe_int(2)?, row.maybe_int(4)?) {
        (Some(run), Some(_)) => (run, Some(row.run_id(3)?)),
        _ => (i64::MAX, None),
    };
    let carried = sessions::carried_of(&row, 1)?.unwrap_or_default();
    let carried = sessions::without_revoked(link, key, carried).await?;
    let history = upto(link, histories, (key, id), upto_run).await?;
    Ok(Standing::new(last_run, history, carried))
}

/// Returns the messages of a session as a run of it found them.
pub(crate) async fn before(
    link: &mut Link,
    histories: &Histories,
    run: RunId,
) -> Result<Transcript, Failure> {
    let sql = "SELECT runs.key, sessions.key, sessions.id FROM runs \
               JOIN sessions ON sessions.key = runs.session WHERE runs.id = $1";
    let row = link.row(sql, values![run.0.as_bytes().as_slice()]).await?;
    let row = row.ok_or(StoreError::NoSuchRun(run))?;
    let damaged = |_| StoreError::Damaged("the id of a session cannot be read".to_owned());
    let id = row.text(2)?.parse().map_err(damaged)?;
    upto(link, histories, (row.int(1)?, &id), row.int(0)? - 1).await
}

/// Reads what is not known yet of the runs up to one.
async fn upto(
    link: &mut Link,
    histories: &Histories,
    (key, id): (i64, &SessionId),
    last: i64,
) -> Result<Transcript, Failure> {
    let known = histories.find(key).filter(|known| known.upto <= last);
    let mut known = match known {
        Some(known) => known,
        None => {
            let (history, bytes) = sessions::seed(link, id).await?;
            CachedHistory {
                session: id.clone(),
                history,
                upto: 0,
                bytes: FRAME + bytes,
            }
        }
    };
    if known.upto == last {
        return Ok(known.history);
    }
    let sql = "SELECT key, id, bytes FROM runs WHERE session = $1 AND ended_at IS NOT NULL \
               AND key > $2 AND key <= $3 ORDER BY key";
    let rows = link.rows(sql, values![key, known.upto, last]).await?;
    if rows.is_empty() {
        return Ok(known.history);
    }
    for row in rows {
        let records = records::of_run(link, row.int(0)?, row.run_id(1)?, 0).await?;
        known.history = continued_history(&known.history, &records);
        known.upto = row.int(0)?;
        known.bytes += row.int(2)?.unsigned_abs();
    }
    let history = known.history.clone();
    histories.keep(key, known);
    Ok(history)
}

#[cfg(test)]
mod tests {
    use neuraxis_core::Message;
    use neuraxis_ports::{RunLog as _, RunStart, Session};
    use neuraxis_testkit::{CountingIds, RunLog, START};

    use super::*;
    use crate::config::SqlConfig;
    use crate::database::Database;
    use crate::store::SqlStore;

    fn cached(session: i64, upto: i64, bytes: u64) -> CachedHistory {
        CachedHistory {
            session: format!("s{session}").parse().unwrap(),
            history: Transcript::default(),
            upto,
            bytes,
        }
    }

    #[test]
    fn whoever_was_not_asked_for_longest_goes_when_there_is_no_room() {
        let histories = Histories::default();
        for session in 1..=4 {
            histories.keep(session, cached(session, 1, MAX_BYTES / 4));
        }
        assert!(histories.find(1).is_some());
        histories.keep(5, cached(5, 1, MAX_BYTES / 2));
        let left = (1..=5).filter(|session| histories.find(*session).is_some());
        assert_eq!(left.collect::<Vec<_>>(), [1, 4, 5]);
        histories.keep(6, cached(6, 1, MAX_BYTES + 1));
        assert_eq!(histories.cache().histories.len(), 3);
        assert_eq!(histories.cache().bytes, MAX_BYTES);
    }

    #[test]
    fn an_older_history_takes_no_newer_ones_place() {
        let histories = Histories::default();
        histories.keep(1, cached(1, 7, 10));
        histories.keep(1, cached(1, 5, 1_000));
        assert_eq!(histories.find(1).map(|known| known.upto), Some(7));
        histories.keep(1, cached(1, 9, 30));
        assert_eq!(histories.find(1).map(|known| known.upto), Some(9));
        assert_eq!(histories.cache().bytes, 30);
    }

    /// A fork or an import may begin with all of a conversation.
    #[tokio::test]
    async fn what_a_session_begins_with_takes_room_as_well() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        let config = SqlConfig::new(format!("sqlite://{}", file.display()));
        let store = SqlStore::open(&config).await.unwrap();
        let seed: Transcript = [Message::user("x".repeat(100_000))].into_iter().collect();
        let session = Session::new("fork".parse().unwrap(), START).seeded(seed);
        let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
        let records = vec![log.started("Hello?"), log.finished("Hi.")];
        let start = RunStart::in_new_session(session, log.run()).with_records(records);
        store.begin(&start).await.unwrap();

        let database = Database::connect(&config).unwrap();
        let mut link = database.reader().await.unwrap();
        let histories = Histories::default();
        let history = of_session(&mut link, &histories, &start.session).await;
        assert!(history.unwrap().len() > 1);
        assert!(histories.cache().bytes > FRAME + 100_000);
    }

    #[test]
    fn what_is_gone_takes_no_room() {
        let histories = Histories::default();
        for session in 1..=3 {
            histories.keep(session, cached(session, 1, 10));
        }
        histories.forget(|session| session.as_str() != "s2");
        assert!(histories.find(1).is_none() && histories.find(2).is_some());
        assert_eq!(histories.cache().bytes, 10);
    }
}
