//! Old sessions are removed many at a time, and their space is returned to the disk.

use std::pin::pin;
use std::time::{Duration, Instant};

use neuraxis_core::{Cancelled, InboxEntry, InboxInput, InputId};
use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _, StoreError};
use neuraxis_sql::SqlConfig;
use neuraxis_testkit::{CountingIds, RunLog, START};
use sqlx::{Connection as _, PgConnection, SqliteConnection};
use tokio::time::timeout;

use crate::support::{
    Busy, config_in, file_config, id, on_both, open, server_config, store_in_file, store_on_server,
};

on_both! {
    pruning_removes_more_old_sessions_than_one_page_holds
}

async fn pruning_removes_more_old_sessions_than_one_page_holds(config: SqlConfig) {
    let store = open(&config).await;
    let begun = (1..=200).map(|number| {
        let session = Session::new(id(&format!("s{number}")), START);
        let mut log = RunLog::new(CountingIds::nth_run(number), session.id.clone());
        let records = vec![log.started("Hello?"), log.finished("Hi.")];
        let start = RunStart::in_new_session(session, log.run()).with_records(records);
        let store = store.clone();
        tokio::spawn(async move { store.begin(&start).await })
    });
    for begun in begun.collect::<Vec<_>>() {
        begun.await.unwrap().unwrap();
    }
    let mut busy = Busy::new(&store, 201).await;
    let later = START.checked_add(Duration::from_secs(60)).unwrap();
    assert_eq!(store.prune(later).await, Ok(200));
    let left = store.check().await.unwrap();
    assert_eq!((left.sessions, left.runs), (1, 1));
    busy.finish(&store).await.unwrap();
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// A run with a record of three megabytes, which is stored separately.
fn long_run(session: &Session, number: u64) -> RunStart {
    let mut log = RunLog::new(CountingIds::nth_run(number), session.id.clone());
    let long = "x".repeat(3_000_000);
    let records = vec![
        log.started("Hello?"),
        log.warned(&long),
        log.finished("Hi."),
    ];
    RunStart::new(session.id.clone(), log.run()).with_records(records)
}

/// Each separately stored record takes the server a quarter of a second, and it cancels statements after one second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn deletions_too_slow_for_one_request_are_done_in_pieces() {
    let mut config = server_config();
    config.patience = Duration::from_secs(1);
    let store = open(&config).await;
    let of_eight_runs = Session::new(id("long"), START);
    let of_one_each = (1..=8).map(|number| Session::new(id(&format!("s{number}")), START));
    let sessions = std::iter::repeat_n(of_eight_runs, 8).chain(of_one_each);
    for (session, number) in sessions.zip(1..) {
        // The long one exists after its first run.
        let _ = store.create_session(&session).await;
        store.begin(&long_run(&session, number)).await.unwrap();
    }
    let mut raw = PgConnection::connect(&config.url).await.unwrap();
    for sql in [
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS \
         $$ BEGIN PERFORM pg_sleep(0.25); RETURN OLD; END $$",
        "CREATE TRIGGER slow BEFORE DELETE ON neuraxis.payloads \
         FOR EACH ROW EXECUTE FUNCTION public.slow()",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    store.delete_session(&id("long")).await.unwrap();
    let later = START.checked_add(Duration::from_secs(60)).unwrap();
    assert_eq!(store.prune(later).await, Ok(8));
    let left = store.check().await.unwrap();
    assert_eq!((left.sessions, left.runs), (0, 0));
}

/// Another session locks a row of what is being removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn deleting_a_session_on_a_server_blocks_no_other_run_while_one_waits_to_start() {
    let config = server_config();
    let store = open(&config).await;
    let mut old = Busy::new(&store, 1).await;
    old.finish(&store).await.unwrap();
    let mut busy = Busy::new(&store, 2).await;
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    let revoked =
        "INSERT INTO neuraxis.revoked (session, id) SELECT min(key), 1 FROM neuraxis.sessions";
    sqlx::query(revoked).execute(&mut other).await.unwrap();
    // Its runs are removed first.
    keep(&mut other, "SELECT 1 FROM neuraxis.revoked FOR UPDATE").await;
    let deleting = tokio::spawn({
        let (store, session) = (store.clone(), old.session.clone());
        async move { store.delete_session(&session).await }
    });
    until_one_waits(&mut other).await;
    let mut begun = pin!(store.begin_run(&old.session, CountingIds::nth_run(3)));
    let at_once = timeout(Duration::from_millis(100), &mut begun).await;
    assert!(at_once.is_err(), "it may go on if the session stays");
    let enough = InboxInput::Cancelled(Cancelled::new(InputId::new("c1"), "enough"));
    let entry = InboxEntry::new(enough);
    let posted = timeout(Duration::from_secs(2), store.post(old.run(), &entry));
    let posted = posted.await.unwrap();
    assert_eq!(posted, Err(StoreError::RunEnded(old.run())));
    let warned = timeout(Duration::from_secs(2), busy.warn(&store, "meanwhile")).await;
    warned.unwrap().unwrap();
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(deleting.await.unwrap(), Ok(()));
    let gone = StoreError::NoSuchSession(old.session.clone());
    assert_eq!(begun.await, Err(gone));
    busy.finish(&store).await.unwrap();
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// The first sessions of a page are not removed before the data of the last one, of which another session locks a row.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn pruning_a_session_on_a_server_blocks_no_other_run_while_it_is_recreated() {
    let config = server_config();
    let store = open(&config).await;
    for number in 1..=33 {
        let mut old = Busy::new(&store, number).await;
        old.finish(&store).await.unwrap();
    }
    let mut busy = Busy::new(&store, 34).await;
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    let in_order = "UPDATE neuraxis.sessions SET created_at = created_at + key";
    sqlx::query(in_order).execute(&mut other).await.unwrap();
    let last = "SELECT 1 FROM neuraxis.steps WHERE run = \
                (SELECT max(key) FROM neuraxis.runs WHERE ended_at IS NOT NULL) FOR UPDATE";
    keep(&mut other, last).await;
    let pruning = tokio::spawn({
        let store = store.clone();
        let later = START.checked_add(Duration::from_secs(60)).unwrap();
        async move { store.prune(later).await }
    });
    until_one_waits(&mut other).await;
    let session = Session::new(id("s1"), START);
    let start = RunStart::in_new_session(session, CountingIds::nth_run(35));
    let mut begun = pin!(store.begin(&start));
    let at_once = timeout(Duration::from_millis(100), &mut begun).await;
    assert!(at_once.is_err(), "it may stay");
    let warned = timeout(Duration::from_secs(2), busy.warn(&store, "meanwhile")).await;
    warned.unwrap().unwrap();
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(pruning.await.unwrap(), Ok(33));
    let begun = begun.await;
    assert!(begun.is_ok(), "{begun:?}");
}

/// A caller with a temporary error retries, waiting as long each time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_session_that_stays_locked_on_a_server_refuses_a_run_permanently() {
    let config = server_config();
    let store = open(&config).await;
    let mut old = Busy::new(&store, 1).await;
    old.finish(&store).await.unwrap();
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    keep(&mut other, "SELECT 1 FROM neuraxis.sessions FOR UPDATE").await;
    let refused = store.begin_run(&old.session, CountingIds::nth_run(2)).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused, StoreError::SessionHeld(old.session.clone()));
    assert!(!refused.is_retryable());
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    let begun = store.begin_run(&old.session, CountingIds::nth_run(2)).await;
    assert!(begun.is_ok(), "{begun:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_run_starts_in_an_old_session_that_is_not_pruned_yet() {
    let config = server_config();
    let store = open(&config).await;
    for number in [1, 2] {
        let mut old = Busy::new(&store, number).await;
        old.finish(&store).await.unwrap();
    }
    let mut other = PgConnection::connect(&config.url).await.unwrap();
    // The first one is older, and the two are not removed together.
    for sql in [
        "UPDATE neuraxis.sessions SET created_at = created_at + key",
        "UPDATE neuraxis.runs SET bytes = 40000000",
    ] {
        sqlx::query(sql).execute(&mut other).await.unwrap();
    }
    let first =
        "SELECT 1 FROM neuraxis.steps WHERE run = (SELECT min(key) FROM neuraxis.runs) FOR UPDATE";
    keep(&mut other, first).await;
    let pruning = tokio::spawn({
        let store = store.clone();
        let later = START.checked_add(Duration::from_secs(60)).unwrap();
        async move { store.prune(later).await }
    });
    until_one_waits(&mut other).await;
    let second = id("s2");
    let begun = store.begin_run(&second, CountingIds::nth_run(3));
    let begun = timeout(Duration::from_secs(2), begun).await.unwrap();
    assert!(begun.is_ok(), "{begun:?}");
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    assert_eq!(pruning.await.unwrap(), Ok(1));
    assert_eq!(store.runs(&second).await.unwrap().len(), 2);
}

/// Locks rows for the length of a transaction.
async fn keep(other: &mut PgConnection, rows: &'static str) {
    for sql in ["BEGIN", rows] {
        sqlx::query(sql).execute(&mut *other).await.unwrap();
    }
}

async fn until_one_waits(other: &mut PgConnection) {
    let waits = "SELECT pid FROM pg_locks WHERE NOT granted";
    let mut waiting = None;
    while waiting.is_none() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        let found = sqlx::query(waits).fetch_optional(&mut *other).await;
        waiting = found.unwrap();
    }
}

/// The space is more than is returned in one step: the rest is returned while no job is waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_space_of_a_deleted_long_session_is_returned_to_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(&config_in(folder.path())).await;
    let mut busy = Busy::new(&store, 1).await;
    for _ in 0..4 {
        busy.warn(&store, &"x".repeat(3_000_000)).await.unwrap();
    }
    busy.finish(&store).await.unwrap();
    store.delete_session(&busy.session).await.unwrap();
    let file = folder.path().join("sessions.db");
    let began = Instant::now();
    while std::fs::metadata(&file).unwrap().len() > 1_000_000 {
        assert!(began.elapsed() < Duration::from_secs(20), "it stays");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The readers are, for example, programs that copy the file. After each deletion, a write waits for a lock as long as
/// before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleting_sessions_does_not_wait_for_readers_of_the_file() {
    let mut config = file_config();
    config.patience = Duration::from_secs(60);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let mut other = SqliteConnection::connect(&config.url).await.unwrap();
    for number in [2, 3] {
        let mut old = Busy::new(&store, number).await;
        old.finish(&store).await.unwrap();
        for sql in ["BEGIN", "SELECT count(*) FROM sessions"] {
            sqlx::query(sql).execute(&mut other).await.unwrap();
        }
        let deleted = timeout(Duration::from_secs(20), store.delete_session(&old.session));
        assert_eq!(deleted.await.unwrap(), Ok(()));
        for sql in ["COMMIT", "BEGIN IMMEDIATE"] {
            sqlx::query(sql).execute(&mut other).await.unwrap();
        }
        let mut warned = pin!(busy.warn(&store, "slow"));
        let at_once = timeout(Duration::from_millis(500), &mut warned).await;
        assert!(at_once.is_err(), "the lock is not waited for");
        sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
        warned.await.unwrap();
    }
}

#[tokio::test]
async fn a_file_store_has_no_shared_clock() {
    let store = store_in_file().await;
    assert_eq!(store.shared_time().await, Ok(None));
}

#[tokio::test]
#[ignore = "needs PostgreSQL: run by cargo xtask test"]
async fn a_server_store_reports_a_time_shared_by_all_its_clients() {
    let store = store_on_server().await;
    let first = store.shared_time().await.unwrap();
    assert!(first.is_some());
    assert!(store.shared_time().await.unwrap() >= first);
}
