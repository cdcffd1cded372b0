//! Old sessions go many at a time, and what they took goes back to the disk.

use std::time::{Duration, Instant};

use neuraxis_ports::{RunLog as _, RunStart, Session, SessionIndex as _};
use neuraxis_sql::SqlConfig;
use neuraxis_testkit::{CountingIds, RunLog, START};

use crate::support::{Busy, config_in, id, on_both, open};

on_both! {
    more_old_sessions_than_a_page_are_pruned
}

async fn more_old_sessions_than_a_page_are_pruned(config: SqlConfig) {
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

/// It is more than goes at once: the rest goes while nobody writes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_room_of_a_long_session_is_given_back_to_the_disk() {
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
