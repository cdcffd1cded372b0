//! A locked, full or damaged file.

use std::io::{Seek, SeekFrom, Write};
use std::time::{Duration, Instant};

use neuraxis_ports::{RunLog as _, SessionFilter, SessionIndex as _, StoreError};
use neuraxis_sql::SqlStore;
use sqlx::{Connection, SqliteConnection};

use crate::support::{Busy, config_in, id, open, records};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_waits_a_limited_time_for_a_locked_file_and_succeeds_once_it_is_free() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.patience = Duration::from_millis(200);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    let mut other = SqliteConnection::connect(&config.url).await.unwrap();
    let lock = "BEGIN EXCLUSIVE";
    sqlx::query(lock).execute(&mut other).await.unwrap();

    let started = Instant::now();
    let refused = busy.warn(&store, "slow").await;
    let waited = started.elapsed();
    let Err(StoreError::Unavailable(told)) = refused else {
        panic!("a locked file took a record: {refused:?}")
    };
    assert!(told.contains("sessions.db"), "{told}");
    assert!(waited >= config.patience, "it gave up after {waited:?}");
    assert!(waited < Duration::from_secs(10), "it waited {waited:?}");
    assert_eq!(
        records(&store, busy.run()).await,
        busy.records,
        "reading goes on"
    );

    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    busy.warn(&store, "slow").await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
}

/// The limit on the file's pages gives the same error as a full disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_is_reported_allows_reads_and_recovers_once_space_is_freed() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.max_pages = Some(200);
    let store = open(&config).await;
    let mut old = Busy::new(&store, 1).await;
    old.warn(&store, &"x".repeat(300_000)).await.unwrap();
    old.finish(&store).await.unwrap();
    let mut busy = Busy::new(&store, 2).await;
    let long = "y".repeat(100_000);
    let told = loop {
        match busy.warn(&store, &long).await {
            Ok(()) => assert!(busy.records.len() < 50, "the file is not bounded"),
            Err(error) => break error,
        }
    };
    let StoreError::Full(told) = told else {
        panic!("a full disk is not for ever: {told}")
    };
    assert!(
        told.contains("sessions.db") && told.contains("full"),
        "{told}"
    );
    assert_eq!(records(&store, busy.run()).await, busy.records);
    store.delete_session(&old.session).await.unwrap();
    busy.warn(&store, &long).await.unwrap();
    assert_eq!(records(&store, busy.run()).await, busy.records);
    assert!(store.verify(&busy.session, None).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_probe_fails_on_a_full_disk_and_succeeds_once_there_is_space() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.max_pages = Some(200);
    let store = open(&config).await;
    let mut old = Busy::new(&store, 1).await;
    old.warn(&store, &"x".repeat(300_000)).await.unwrap();
    old.finish(&store).await.unwrap();
    let mut busy = Busy::new(&store, 2).await;
    store.probe().await.unwrap();
    let mut left = 1_000;
    while busy.warn(&store, &"y".repeat(3_000)).await.is_ok() {
        left -= 1;
        assert!(left > 0, "the file is not bounded");
    }
    for _ in 0..2 {
        let probed = store.probe().await;
        assert!(matches!(probed, Err(StoreError::Full(_))), "{probed:?}");
    }
    store.delete_session(&old.session).await.unwrap();
    store.probe().await.unwrap();
    let all = SessionFilter::default();
    let sessions = store.sessions(&all).await.unwrap();
    assert_eq!(sessions.len(), 1, "nothing is left of what was written");
    assert!(store.verify(&busy.session, None).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_file_is_named_and_never_recreated() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let path = folder.path().join("sessions.db");
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    for _ in 0..50 {
        busy.warn(&store, &"x".repeat(3_000)).await.unwrap();
    }
    let checked = store.check().await.unwrap();
    assert_eq!((checked.sessions, checked.runs), (1, 1));
    store.close().await;
    let whole = std::fs::metadata(&path).unwrap().len();
    let mut overwritten_everywhere = 0;
    for page in 0..whole / 4_096 {
        let copy = tempfile::tempdir().unwrap();
        let damaged = copy.path().join("sessions.db");
        std::fs::copy(&path, &damaged).unwrap();
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .open(&damaged)
            .unwrap();
        file.seek(SeekFrom::Start(page * 4_096)).unwrap();
        file.write_all(&[0x5a; 4_096]).unwrap();
        drop(file);
        let told = match SqlStore::open(&config_in(copy.path())).await {
            Err(error) => error.to_string(),
            Ok(store) => match (store.check().await, store.verify(&id("s1"), None).await) {
                (Err(error), Err(_)) => {
                    let told = error.to_string();
                    assert!(told.contains(&damaged.display().to_string()), "{told}");
                    told
                }
                (Ok(_), Err(error)) => error.to_string(),
                // A page of an index that verifying does not read, or a free one.
                (_, Ok(head)) => {
                    assert_eq!(head.records, 51);
                    continue;
                }
            },
        };
        overwritten_everywhere += 1;
        let names_it = told.contains(&damaged.display().to_string());
        assert!(names_it || told.contains("run "), "page {page}: {told}");
        assert_eq!(
            std::fs::metadata(&damaged).unwrap().len(),
            whole,
            "page {page}"
        );
    }
    assert!(overwritten_everywhere > 40, "{overwritten_everywhere}");
}

/// An interrupted migration has no effect, so the next one starts over.
#[tokio::test]
async fn an_empty_file_with_an_interrupted_migration_opens() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    std::fs::write(folder.path().join("sessions.db"), "").unwrap();
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    for sql in [
        "PRAGMA journal_mode = WAL",
        "BEGIN",
        "CREATE TABLE sessions (key INTEGER)",
    ] {
        sqlx::query(sql).execute(&mut raw).await.unwrap();
    }
    drop(raw);
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.finish(&store).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_stores_can_open_a_new_file_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = config_in(folder.path());
    let opened = (0..8).map(|_| {
        let config = config.clone();
        tokio::spawn(async move { SqlStore::open(&config).await })
    });
    for store in opened.collect::<Vec<_>>() {
        store.await.unwrap().unwrap();
    }
}

/// Otherwise its session would be busy forever, and could not even be deleted.
#[tokio::test]
async fn a_run_with_unreadable_records_can_still_be_ended() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config_in(folder.path());
    config.lease = Duration::ZERO;
    let store = open(&config).await;
    let mut busy = Busy::new(&store, 1).await;
    busy.warn(&store, "slow").await.unwrap();
    store.close().await;
    let mut raw = SqliteConnection::connect(&config.url).await.unwrap();
    let damage = "UPDATE steps SET body = X'00' WHERE first_seq = 2";
    sqlx::query(damage).execute(&mut raw).await.unwrap();
    raw.close().await.unwrap();

    let store = open(&config).await;
    let read = store.records(busy.run(), neuraxis_core::Seq(0)).await;
    assert!(matches!(read, Err(StoreError::Damaged(_))), "{read:?}");
    let told = store.run(busy.run()).await.unwrap();
    assert_eq!(told.records, 2);
    busy.lease = store.begin_run(&busy.session, busy.run()).await.unwrap();
    busy.finish(&store).await.unwrap();
    let told = store.run(busy.run()).await.unwrap();
    assert!(told.ended_at.is_some());
    assert_eq!(told.text.as_deref(), Some("Hello?"));
    store.delete_session(&busy.session).await.unwrap();
}
