//! Deletes sessions that have been inactive for as long as `[store] keep` says, while the server runs. Archives them
//! first if a folder for that is configured.
//!
//! If there are several servers, each does this: the slower one finds nothing, or writes the same file again.

mod archive;
mod budgets;
mod clock;
mod deleted;
mod unfinished;

use std::collections::HashSet;
use std::future::poll_fn;
use std::io::{self, Write};
use std::mem;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use neuraxis::core::jiff::Timestamp;
use neuraxis::core::with_causes;
use neuraxis::engine::{ExportError, Sessions, SystemClock};
use neuraxis::ports::{Clock, RunFilter, SessionFilter, StoreError};
use neuraxis::{Policy, SessionId};
use neuraxis_app::StoreConfig;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use archive::Part;
use budgets::warn_of_refunds;
use clock::{AgeClock, ClockCheck, Reading};
use unfinished::UnfinishedRuns;

/// How often to check for old sessions, which are usually days old.
const EVERY: Duration = Duration::from_secs(3_600);

/// How many sessions are archived and deleted between two queries for more.
const PAGE: usize = 100;

/// The background task. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Retention(JoinHandle<()>);

/// Why an old session is not deleted.
#[derive(Debug, thiserror::Error)]
enum RetireError {
    #[error("the store cannot read or delete it")]
    Store(#[from] StoreError),
    #[error("cannot archive it in {}", folder.display())]
    Archive {
        folder: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot read it completely")]
    Export(#[from] ExportError),
}

impl RetireError {
    /// Returns whether another server was quicker, or the session is in use again.
    const fn is_in_use(&self) -> bool {
        matches!(
            self,
            Self::Store(
                StoreError::NoSuchSession(_)
                    | StoreError::SessionBusy { .. }
                    | StoreError::SessionChanged(_)
            ) | Self::Export(ExportError::Store(StoreError::NoSuchSession(_)))
        )
    }
}

impl Retention {
    /// Starts the task, if the configuration says how long sessions are kept. Needs a tokio runtime.
    pub(crate) fn start(sessions: Sessions, config: &StoreConfig, policy: &Policy) -> Option<Self> {
        let keep = config.keep?;
        warn_of_refunds(keep, policy);
        let archive = config.archive.clone();
        Some(Self(tokio::spawn(async move {
            if let Some(folder) = &archive {
                archive::clear(folder.clone()).await;
            }
            let mut ticks = interval(EVERY);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut clock = AgeClock::default();
            let mut unfinished = UnfinishedRuns::default();
            loop {
                ticks.tick().await;
                let checked = async {
                    let now = SystemClock.now();
                    if let Some(before) = old_before(&sessions, keep, now, &mut clock).await? {
                        retire(&sessions, before, archive.as_deref()).await?;
                        unfinished.check(&sessions, before).await?;
                    }
                    Ok::<_, RetireError>(())
                };
                if let Err(error) = checked.await {
                    tracing::warn!(error = %with_causes(&error), "deleting expired sessions failed; trying again \
                                                                  later");
                }
            }
        })))
    }
}

impl Drop for Retention {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Returns the time since which a session must have been inactive to be deleted, given this machine's current time.
/// `None` if this check deletes nothing, because a clock may be wrong.
async fn old_before(
    sessions: &Sessions,
    keep: Duration,
    now: Timestamp,
    clock: &mut AgeClock,
) -> Result<Option<Timestamp>, StoreError> {
    let reading = Reading::new(now, sessions.shared_time().await?);
    let which = clock.observe(reading);
    let Some(before) = reading.old_before(keep) else {
        return Ok(None);
    };
    if which == ClockCheck::First && is_all_old(sessions, before).await? {
        tracing::warn!(
            %before,
            "everything in the store is older than [store] keep, as if this machine's clock were ahead; no expired \
             sessions are deleted before the next check, in an hour"
        );
        return Ok(None);
    }
    if which == ClockCheck::AfterJump {
        tracing::warn!(
            %before,
            "the clock was set or this machine slept since the last check; no expired sessions are deleted before the \
             next check, in an hour"
        );
        return Ok(None);
    }
    Ok(Some(before))
}

/// Returns whether there are sessions, and neither a session nor a run was started since a time.
async fn is_all_old(sessions: &Sessions, before: Timestamp) -> Result<bool, StoreError> {
    let mut newest = SessionFilter::default();
    newest.limit = 1;
    let Some(session) = sessions.each(newest).next().await? else {
        return Ok(false);
    };
    let mut last = RunFilter::default();
    last.limit = 1;
    let run = sessions.each_run(last).next().await?;
    // The end is not used: a run that was left behind or waits has none, and it may resume and end by the same wrong
    // clock before this query.
    let began = run.and_then(|run| run.started_at);
    Ok(session.created_at < before && began.is_none_or(|began| began < before))
}

/// Deletes the sessions that have been inactive since a time, and returns how many. A session that cannot be deleted
/// does not prevent the others from being deleted, unless nothing at all can be archived.
async fn retire(
    sessions: &Sessions,
    before: Timestamp,
    archive: Option<&Path>,
) -> Result<u64, RetireError> {
    let Some(folder) = archive else {
        let first = sessions.idle(before, deleted::NAMED).await?;
        let count = sessions.prune(before).await?;
        deleted::log(count, &deleted::find_missing(sessions, first).await);
        return Ok(count);
    };
    let (mut count, mut first) = (0, Vec::new());
    let mut left = HashSet::new();
    let mut failed = None;
    loop {
        // The sessions that stay are returned by each query again.
        let most = PAGE + left.len();
        let page = sessions.idle(before, most).await?;
        let is_last = page.len() < most;
        let (counted, mut is_stuck) = (count, false);
        for session in page {
            if left.contains(&session) {
                continue;
            }
            match archive_and_delete(sessions, before, &session, folder).await {
                Ok(()) => {
                    count += 1;
                    if first.len() < deleted::NAMED {
                        first.push(session);
                    }
                    continue;
                }
                Err(error) if error.is_in_use() => {}
                Err(error) => {
                    let why = with_causes(&error);
                    // A problem of the folder affects all sessions.
                    match (&failed, &error) {
                        (Some(RetireError::Archive { .. }), RetireError::Archive { .. }) => {
                            tracing::debug!(%session, error = %why, "another expired session was not deleted");
                        }
                        _ => {
                            tracing::warn!(%session, error = %why, "an expired session was not deleted");
                        }
                    }
                    // A damaged session says nothing about others.
                    is_stuck |= !matches!(
                        error,
                        RetireError::Export(ExportError::Store(StoreError::Damaged(_)))
                    );
                    failed = Some(error);
                }
            }
            left.insert(session);
        }
        if is_last || (is_stuck && count == counted) {
            deleted::log(count, &first);
            return failed.map_or(Ok(count), Err);
        }
    }
}

/// Writes a session into a folder, and deletes it once the file is on disk. If it is used meanwhile, it stays.
async fn archive_and_delete(
    sessions: &Sessions,
    before: Timestamp,
    id: &SessionId,
    folder: &Path,
) -> Result<(), RetireError> {
    let not_archived = |source| RetireError::Archive {
        folder: folder.to_owned(),
        source,
    };
    let part = Part::begin(folder).await.map_err(not_archived)?;
    let text = Unwritten::default();
    let mut out = text.clone();
    let mut exporting = pin!(sessions.export(id, &mut out));
    let exported = loop {
        let done = text.or_done(exporting.as_mut()).await;
        part.write(text.take()).await.map_err(not_archived)?;
        if let Some(done) = done {
            break done?;
        }
    };
    // After reading them, so that any later change also changes the head.
    let runs = sessions.runs(id).await?.unwrap_or_default();
    if !runs.iter().all(|run| run.ended_before(before)) {
        return Err(StoreError::SessionChanged(id.clone()).into());
    }
    // A session that is started again under the same id gets a separate file.
    let head = exported.head.hash.to_string();
    let head: String = head
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .take(16)
        .collect();
    let name = format!("{}-{head}.jsonl", id.as_str().replace(':', "_"));
    part.keep_as(name).await.map_err(not_archived)?;
    Ok(sessions.delete_at(id, exported.head).await?)
}

/// The part of an exported session that has not been written to a file yet: at most about one run, not all of them.
#[derive(Debug, Clone, Default)]
struct Unwritten(Arc<Mutex<Vec<u8>>>);

impl Unwritten {
    /// Waits until part of the export is ready and the store is being awaited, or until the export has finished.
    /// Returns its result in the latter case.
    async fn or_done<T>(&self, mut exporting: Pin<&mut impl Future<Output = T>>) -> Option<T> {
        poll_fn(|context| match exporting.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if self.lock().is_empty() => Poll::Pending,
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }

    fn take(&self) -> Vec<u8> {
        mem::take(&mut *self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Write for Unwritten {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.lock().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use neuraxis::memory::MemoryStore;
    use neuraxis::ports::{RunLog as _, Session, SessionIndex as _};
    use neuraxis::{Orchestrator, Role, offline::OfflineModel};
    use neuraxis_testkit::{CountingIds, FailingStore, Fault, RunLog, StoreOperation};

    use super::*;

    #[tokio::test]
    async fn an_old_session_is_archived_before_deletion_and_remains_if_archiving_fails() {
        let store = Arc::new(MemoryStore::default());
        for (id, made) in [("old:1", 0), ("old.2", 1), ("new", 100)] {
            let made = Timestamp::from_second(made).unwrap();
            let session = Session::new(id.parse().unwrap(), made);
            store.create_session(&session).await.unwrap();
        }
        let engine = Orchestrator::builder()
            .model(Role::REASONING, Arc::new(OfflineModel))
            .store(store);
        let sessions = engine.build().unwrap().sessions();
        let before = Timestamp::from_second(50).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let taken = folder.path().join("taken");
        fs::write(&taken, "a file").unwrap();
        let failed = retire(&sessions, before, Some(&taken)).await;
        assert!(
            matches!(failed, Err(RetireError::Archive { .. })),
            "{failed:?}"
        );
        assert_eq!(sessions.idle(before, 10).await.unwrap().len(), 2);

        let archive = folder.path().join("archive");
        assert_eq!(retire(&sessions, before, Some(&archive)).await.unwrap(), 2);
        let names = fs::read_dir(&archive).unwrap();
        let mut names: Vec<_> = names.map(|it| it.unwrap().file_name()).collect();
        names.sort();
        let texts: Vec<_> = names.iter().map(|it| it.to_string_lossy()).collect();
        assert!(
            texts[0].starts_with("old.2-") && texts[1].starts_with("old_1-"),
            "{texts:?}"
        );
        let text = fs::read_to_string(archive.join(&names[1])).unwrap();
        assert!(text.contains("old:1") && text.ends_with('\n'), "{text}");
        let left = Timestamp::from_second(200).unwrap();
        assert_eq!(sessions.idle(left, 10).await.unwrap().len(), 1);
        assert_eq!(retire(&sessions, left, None).await.unwrap(), 1);
    }

    const DAY: i64 = 86_400;

    fn day(number: i64) -> Timestamp {
        Timestamp::from_second(number * DAY).unwrap()
    }

    /// Deletes the sessions that are old at this time by this machine's clock. Returns how many.
    async fn check(
        sessions: &Sessions,
        (keep, archive): (Duration, Option<&Path>),
        now: Timestamp,
        clock: &mut AgeClock,
    ) -> Result<u64, RetireError> {
        match old_before(sessions, keep, now, clock).await? {
            Some(before) => retire(sessions, before, archive).await,
            None => Ok(0),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_far_ahead_deletes_nothing_when_the_server_starts() {
        let store = Arc::new(MemoryStore::default());
        let make = async |id: &str, made| {
            let session = Session::new(id.parse().unwrap(), made);
            store.create_session(&session).await.unwrap();
        };
        make("first", day(0)).await;
        // An unfinished run does not make the session any younger.
        make("waits", day(1)).await;
        let waits: SessionId = "waits".parse().unwrap();
        let mut log = RunLog::new(CountingIds::nth_run(1), waits.clone()).at(day(1));
        let lease = store.begin_run(&waits, log.run());
        let begun = [log.started("Hello?")];
        store.commit(&lease.await.unwrap(), &begun).await.unwrap();
        let sessions = Sessions::new(store.clone());
        let terms = (Duration::from_secs(90 * 86_400), None);
        let first = check(&sessions, terms, day(400), &mut AgeClock::default()).await;
        assert_eq!(first.unwrap(), 0);
        // If anything is recent, the clock is right.
        make("second", day(399)).await;
        let mut clock = AgeClock::default();
        let first = check(&sessions, terms, day(400), &mut clock).await;
        assert_eq!(first.unwrap(), 1);
        tokio::time::advance(Duration::from_secs(400 * 86_400)).await;
        let later = check(&sessions, terms, day(800), &mut clock).await;
        assert_eq!(later.unwrap(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_set_far_ahead_while_the_server_runs_deletes_nothing_at_the_next_check() {
        let store = Arc::new(MemoryStore::default());
        let session = Session::new("first".parse().unwrap(), day(0));
        store.create_session(&session).await.unwrap();
        let sessions = Sessions::new(store);
        let terms = (Duration::from_secs(90 * 86_400), None);
        let mut clock = AgeClock::default();
        for (now, expected) in [(day(1), 0), (day(400), 0), (day(400), 1)] {
            let count = check(&sessions, terms, now, &mut clock).await;
            assert_eq!(count.unwrap(), expected);
        }
    }

    #[tokio::test]
    async fn sessions_that_cannot_be_archived_do_not_hold_up_others() {
        let store = Arc::new(FailingStore::new(MemoryStore::default()));
        // They fill the first page, and the other one is on the second.
        for number in 0..=PAGE {
            let made = Timestamp::from_second(number.try_into().unwrap()).unwrap();
            let session = Session::new(format!("old{number}").parse().unwrap(), made);
            store.create_session(&session).await.unwrap();
        }
        for _ in 0..PAGE {
            let altered = StoreError::Damaged("it was altered".to_owned());
            store.fail_next(StoreOperation::Verify, Fault::Refuse(altered));
        }
        let sessions = Sessions::new(store.clone());
        let folder = tempfile::tempdir().unwrap();
        let retired = retire(&sessions, Timestamp::MAX, Some(folder.path())).await;
        assert!(
            matches!(retired, Err(RetireError::Export(_))),
            "{retired:?}"
        );
        let left = store.idle(Timestamp::MAX, PAGE + 1).await.unwrap();
        assert_eq!(left.len(), PAGE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_is_archived_run_by_run() {
        let store = Arc::new(FailingStore::new(MemoryStore::default()));
        let session = Session::new("old".parse().unwrap(), Timestamp::UNIX_EPOCH);
        store.create_session(&session).await.unwrap();
        for (run, seconds) in [(1, 0), (2, 2)] {
            let mut log = RunLog::new(CountingIds::nth_run(run), session.id.clone());
            let lease = store.begin_run(&session.id, log.run()).await.unwrap();
            let records = [log.started(&format!("No. {run}")), log.finished("Hi.")];
            store.commit(&lease, &records).await.unwrap();
            let late = Fault::AnswerLate(Duration::from_secs(seconds));
            store.fail_next(StoreOperation::Records, late);
        }
        let sessions = Sessions::new(store);
        let folder = tempfile::tempdir().unwrap();
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            let part = fs::read_dir(folder.path()).unwrap().next();
            fs::read_to_string(part.unwrap().unwrap().path()).unwrap()
        };
        let retired = retire(&sessions, Timestamp::MAX, Some(folder.path()));
        let (retired, text) = tokio::join!(retired, meanwhile);
        assert_eq!(retired.unwrap(), 1);
        assert!(text.contains("No. 1") && !text.contains("No. 2"), "{text}");
    }

    /// A turn takes place after the session was found, or after it was read for the archive.
    #[tokio::test(start_paused = true)]
    async fn a_session_used_while_it_is_archived_is_not_deleted() {
        let late = |seconds| Fault::AnswerLate(Duration::from_secs(seconds));
        for faults in [
            vec![(StoreOperation::Sessions, late(2))],
            vec![
                (StoreOperation::Runs, late(0)),
                (StoreOperation::Runs, late(2)),
            ],
        ] {
            let store = Arc::new(FailingStore::new(MemoryStore::default()));
            let session = Session::new("old".parse().unwrap(), Timestamp::UNIX_EPOCH);
            store.create_session(&session).await.unwrap();
            for (operation, fault) in faults {
                store.fail_next(operation, fault);
            }
            let sessions = Sessions::new(store.clone());
            let turn = async {
                tokio::time::sleep(Duration::from_secs(1)).await;
                let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
                let lease = store.begin_run(&session.id, log.run()).await.unwrap();
                let records = [log.started("Hello?"), log.finished("Hi.")];
                store.commit(&lease, &records).await.unwrap();
            };
            let before = Timestamp::from_second(50).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let retired = retire(&sessions, before, Some(folder.path()));
            let (retired, ()) = tokio::join!(retired, turn);
            assert_eq!(retired.unwrap(), 0);
            assert_eq!(store.runs(&session.id).await.unwrap().len(), 1);
            let retired = retire(&sessions, Timestamp::MAX, Some(folder.path())).await;
            assert_eq!(retired.unwrap(), 1);
        }
    }
}
