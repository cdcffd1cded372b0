//! The messages of sessions. The messages of ended runs do not change, so they are cached for the session's next run.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;
use neuraxis_core::{ContentHash, Record, RunId, SessionId, Transcript, continued_history};
use neuraxis_ports::{Continuation, StoreError};

use super::{records, sessions};
use crate::error::Failure;
use crate::link::{Link, Row, values};

/// The maximum number of bytes of records and seeds whose messages are cached, over all sessions.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The bytes that a history takes in addition to its messages.
const FRAME: u64 = 1_024;

/// Finds a session and its last run.
pub(super) const STANDING: &str = "SELECT sessions.key, carried, runs.key, runs.id, ended_at, chain FROM sessions LEFT JOIN runs ON runs.key = \
     (SELECT key FROM runs WHERE session = sessions.key ORDER BY key DESC LIMIT 1) WHERE sessions.id = $1";

/// Recently used histories.
#[derive(Debug, Default)]
pub(crate) struct Histories(Mutex<Cache>);

#[derive(Debug)]
struct Cache {
    /// By the key of the session.
    histories: LruCache<i64, CachedHistory>,
    bytes: u64,
}

impl Default for Cache {
    fn default() -> Self {
        Self {
            // Limited by bytes: one conversation may be a hundred times as long as another.
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
    /// The hash of the session's chain after that run; `None` before the first one. A server that lost what it had
    /// acknowledged, such as a standby that was promoted, assigns the same keys to other sessions and runs.
    chain: Option<ContentHash>,
    /// Its approximate size in bytes.
    bytes: u64,
}

/// A run that has ended in this process, after another one of its session.
#[derive(Debug)]
pub(crate) struct EndedRun {
    /// The key of the session.
    pub(crate) session: i64,
    /// The key of the run before it.
    pub(crate) after: i64,
    /// The hash of the session's chain before it.
    pub(crate) from: ContentHash,
    pub(crate) key: i64,
    /// The hash of the chain after it.
    pub(crate) chain: ContentHash,
    pub(crate) bytes: u64,
    /// All of them, first to last: no other process drove the run.
    pub(crate) records: Vec<Arc<Record>>,
}

impl Histories {
    /// Adds an ended run if the history before it is cached, so a session that stays in one process is read at most
    /// once.
    pub(crate) fn add(&self, run: &EndedRun) {
        let known = self.find(run.session);
        let known = known.filter(|known| known.ends_with(run.after, run.from));
        let Some(mut known) = known else {
            return;
        };
        known.history = continued_history(&known.history, &run.records);
        known.upto = run.key;
        known.chain = Some(run.chain);
        known.bytes += run.bytes;
        self.insert(run.session, known);
    }

    /// Removes sessions that no longer exist.
    pub(crate) fn forget(&self, is_gone: impl Fn(&SessionId) -> bool) {
        let mut cache = self.cache();
        let known = cache.histories.iter();
        let gone = known.filter(|(_, known)| is_gone(&known.session));
        let gone: Vec<_> = gone.map(|(session, _)| *session).collect();
        for session in gone {
            cache.remove(session);
        }
    }

    /// Returns the cached history of a session up to its last run, given by its key and the hash of the chain after it.
    /// Removes a history that continues differently from there.
    fn upto_last(&self, session: i64, run: i64, chain: ContentHash) -> Option<Transcript> {
        let known = self.find(session).filter(|known| known.upto >= run)?;
        if known.ends_with(run, chain) {
            return Some(known.history);
        }
        self.remove(session);
        None
    }

    fn remove(&self, session: i64) {
        self.cache().remove(session);
    }

    fn find(&self, session: i64) -> Option<CachedHistory> {
        self.cache().histories.get(&session).cloned()
    }

    fn insert(&self, session: i64, known: CachedHistory) {
        // A history that does not fit alone would evict all others.
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

    /// Locks the cache, for no longer than a few lookups and never across an `await`.
    fn cache(&self) -> MutexGuard<'_, Cache> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Cache {
    fn remove(&mut self, session: i64) {
        let known = self.histories.pop(&session);
        self.bytes -= known.map_or(0, |known| known.bytes);
    }
}

impl CachedHistory {
    /// Returns whether this run is the last one in it, preceded by the same runs of the session.
    fn ends_with(&self, run: i64, chain: ContentHash) -> bool {
        self.upto == run && self.chain == Some(chain)
    }
}

/// Returns the messages of a session's ended runs.
pub(crate) async fn of_session(
    link: &mut Link,
    histories: &Histories,
    id: &SessionId,
) -> Result<Transcript, Failure> {
    let key = sessions::key(link, id).await?;
    upto(link, histories, (key, id), i64::MAX).await
}

/// Returns the state that the next run of a session starts from. The session's last run is read first: if another run
/// follows it, that is noticed when the next run begins.
pub(crate) async fn continuation(
    link: &mut Link,
    histories: &Histories,
    id: &SessionId,
) -> Result<Continuation, Failure> {
    let row = sessions::row(link, STANDING, id).await?;
    let key = row.int(0)?;
    let last = match (row.maybe_int(2)?, row.maybe_int(4)?) {
        (Some(run), Some(_)) => Some((run, row.run_id(3)?, row.hash(5)?)),
        _ => None,
    };
    let carried = sessions::carried_of(&row, 1)?.unwrap_or_default();
    let carried = sessions::without_revoked(link, key, carried).await?;
    let known = last.and_then(|(run, _, chain)| histories.upto_last(key, run, chain));
    let history = match known {
        Some(history) => history,
        None => {
            let upto_run = last.map_or(i64::MAX, |(run, ..)| run);
            upto(link, histories, (key, id), upto_run).await?
        }
    };
    let last_run = last.map(|(_, run, _)| run);
    Ok(Continuation::new(last_run, history, carried))
}

/// Returns the messages of a session before one of its runs.
pub(crate) async fn before(
    link: &mut Link,
    histories: &Histories,
    run: RunId,
) -> Result<Transcript, Failure> {
    let sql = "SELECT runs.key, sessions.key, sessions.id FROM runs \
               JOIN sessions ON sessions.key = runs.session WHERE runs.id = $1";
    let row = link.row(sql, values![run.0.as_bytes().as_slice()]).await?;
    let row = row.ok_or(StoreError::NoSuchRun(run))?;
    let id = row.session_id(2)?;
    upto(link, histories, (row.int(1)?, &id), row.int(0)? - 1).await
}

/// Reads the runs up to one that are not cached yet.
async fn upto(
    link: &mut Link,
    histories: &Histories,
    (key, id): (i64, &SessionId),
    last: i64,
) -> Result<Transcript, Failure> {
    let known = histories.find(key).filter(|known| known.upto <= last);
    if let Some(known) = known {
        let runs = ended_runs(link, key, known.upto, last).await?;
        if let Some((first, later)) = runs.split_first()
            && known.ends_with(first.int(0)?, first.hash(3)?)
        {
            return continued(link, histories, (key, known), later).await;
        }
        // It contains runs that the database no longer has.
        histories.remove(key);
    }
    let (history, bytes) = sessions::seed(link, id).await?;
    let known = CachedHistory {
        session: id.clone(),
        history,
        upto: 0,
        chain: None,
        bytes: FRAME + bytes,
    };
    let runs = ended_runs(link, key, 0, last).await?;
    continued(link, histories, (key, known), &runs).await
}

/// Finds the ended runs of a session from one key to another, inclusive.
async fn ended_runs(
    link: &mut Link,
    session: i64,
    first: i64,
    last: i64,
) -> Result<Vec<Row>, Failure> {
    let sql = "SELECT key, id, bytes, chain FROM runs WHERE session = $1 AND ended_at IS NOT NULL \
               AND key >= $2 AND key <= $3 ORDER BY key";
    Ok(link.rows(sql, values![session, first, last]).await?)
}

/// Adds the messages of runs to a history, and caches it.
async fn continued(
    link: &mut Link,
    histories: &Histories,
    (session, mut known): (i64, CachedHistory),
    runs: &[Row],
) -> Result<Transcript, Failure> {
    if runs.is_empty() {
        return Ok(known.history);
    }
    for row in runs {
        let records = records::of_run(link, row.int(0)?, row.run_id(1)?, 0).await?;
        known.history = continued_history(&known.history, &records);
        known.upto = row.int(0)?;
        known.chain = Some(row.hash(3)?);
        known.bytes += row.int(2)?.unsigned_abs();
    }
    let history = known.history.clone();
    histories.insert(session, known);
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

    fn chain_at(run: i64) -> ContentHash {
        ContentHash::of(&run.to_be_bytes())
    }

    fn cached(session: i64, upto: i64, bytes: u64) -> CachedHistory {
        CachedHistory {
            session: format!("s{session}").parse().unwrap(),
            history: Transcript::default(),
            upto,
            chain: Some(chain_at(upto)),
            bytes,
        }
    }

    #[test]
    fn the_least_recently_used_histories_are_evicted_when_space_runs_out() {
        let histories = Histories::default();
        for session in 1..=4 {
            histories.insert(session, cached(session, 1, MAX_BYTES / 4));
        }
        assert!(histories.find(1).is_some());
        histories.insert(5, cached(5, 1, MAX_BYTES / 2));
        let left = (1..=5).filter(|session| histories.find(*session).is_some());
        assert_eq!(left.collect::<Vec<_>>(), [1, 4, 5]);
        histories.insert(6, cached(6, 1, MAX_BYTES + 1));
        assert_eq!(histories.cache().histories.len(), 3);
        assert_eq!(histories.cache().bytes, MAX_BYTES);
    }

    #[test]
    fn an_older_history_does_not_replace_a_newer_one() {
        let histories = Histories::default();
        histories.insert(1, cached(1, 7, 10));
        histories.insert(1, cached(1, 5, 1_000));
        assert_eq!(histories.find(1).map(|known| known.upto), Some(7));
        histories.insert(1, cached(1, 9, 30));
        assert_eq!(histories.find(1).map(|known| known.upto), Some(9));
        assert_eq!(histories.cache().bytes, 30);
    }

    /// A server lost the runs after the fifth, and assigned the key of the sixth to another one.
    #[test]
    fn a_history_beyond_the_last_run_or_with_another_end_is_discarded() {
        let histories = Histories::default();
        histories.insert(1, cached(1, 6, 10));
        assert!(histories.upto_last(1, 7, chain_at(7)).is_none());
        assert!(histories.upto_last(1, 6, chain_at(6)).is_some());
        assert!(histories.upto_last(1, 6, chain_at(0)).is_none());
        assert!(histories.find(1).is_none());
        histories.insert(1, cached(1, 6, 10));
        assert!(histories.upto_last(1, 5, chain_at(5)).is_none());
        assert!(histories.find(1).is_none());
        assert_eq!(histories.cache().bytes, 0);
    }

    /// A fork or an import may begin with a whole conversation.
    #[tokio::test]
    async fn the_seed_of_a_session_counts_toward_the_cache_size() {
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
    fn forgotten_sessions_take_no_cache_space() {
        let histories = Histories::default();
        for session in 1..=3 {
            histories.insert(session, cached(session, 1, 10));
        }
        histories.forget(|session| session.as_str() != "s2");
        assert!(histories.find(1).is_none() && histories.find(2).is_some());
        assert_eq!(histories.cache().bytes, 10);
    }
}
