//! A lease expires on its own, also in memory: a search for abandoned runs finds the run.

use std::time::Duration;

use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunBounds, RunLog as _, Session, SessionIndex as _, StoreError};
use neuraxis_testkit::{CountingIds, RunLog, START};

#[tokio::test]
async fn a_run_with_an_expired_lease_is_unfinished_but_its_holder_may_still_commit() {
    let store = MemoryStore::with_lease(Duration::ZERO);
    let session = Session::new("main".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
    let lease = store.begin_run(&session.id, log.run()).await.unwrap();
    assert_eq!(store.unfinished().await.unwrap().len(), 1);
    assert_eq!(store.run(log.run()).await.unwrap().leased_until, None);
    let all = [log.started("Hello?"), log.finished("Hi.")];
    store.commit(&lease, &all).await.unwrap();
    assert_eq!(store.unfinished().await.unwrap(), []);
}

#[tokio::test]
async fn a_run_at_its_byte_limit_accepts_only_its_end() {
    let bounds = RunBounds {
        max_bytes: 100_000,
        ..RunBounds::default()
    };
    let store = MemoryStore::new().bounded(bounds);
    let session = Session::new("main".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
    let lease = store.begin_run(&session.id, log.run()).await.unwrap();
    let first = [log.started(&"x".repeat(99_000))];
    store.commit(&lease, &first).await.unwrap();
    let before = log.clone();
    let more = [log.started(&"x".repeat(2_000))];
    let refused = store.commit(&lease, &more).await;
    assert!(
        matches!(refused, Err(StoreError::RunTooLarge { records: 2, .. })),
        "{refused:?}"
    );
    log = before;
    let end = [log.finished("")];
    store.commit(&lease, &end).await.unwrap();
}
