//! Records and messages are shared with their readers, not copied.

use std::sync::Arc;

use neuraxis_core::Seq;
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, Session, SessionIndex as _};
use neuraxis_testkit::{CountingIds, RunLog, START, reply};

#[tokio::test]
async fn reads_share_the_allocation_of_the_committed_records() {
    let store = MemoryStore::new();
    let session = Session::new("main".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
    let lease = store.begin_run(&session.id, log.run()).await.unwrap();
    let records = [
        log.started("Hello?"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ];
    store.commit(&lease, &records).await.unwrap();

    let read = store.records(log.run(), Seq(0)).await.unwrap();
    assert!(
        read.iter()
            .zip(&records)
            .all(|(read, committed)| Arc::ptr_eq(read, committed))
    );
    let (one, other) = (
        store.history(&session.id).await.unwrap(),
        store.history(&session.id).await.unwrap(),
    );
    assert_eq!(one.messages().as_ptr(), other.messages().as_ptr());
}

#[tokio::test]
async fn a_deleted_session_frees_its_records() {
    let store = MemoryStore::new();
    let session = Session::new("main".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
    let lease = store.begin_run(&session.id, log.run()).await.unwrap();
    let records = [log.started("Hello?"), log.finished("")];
    store.commit(&lease, &records).await.unwrap();
    assert_eq!(Arc::strong_count(&records[0]), 2);
    store.delete_session(&session.id).await.unwrap();
    assert_eq!(Arc::strong_count(&records[0]), 1);
}

#[tokio::test]
async fn a_history_read_at_any_time_holds_each_finished_run_once_in_order() {
    let store = MemoryStore::new();
    let session = Session::new("main".parse().unwrap(), START);
    store.create_session(&session).await.unwrap();
    let mut heard = Vec::new();
    for (number, question) in (1..).zip(["one", "two", "three"]) {
        let mut log = RunLog::new(CountingIds::nth_run(number), session.id.clone());
        let lease = store.begin_run(&session.id, log.run()).await.unwrap();
        store
            .commit(&lease, &[log.started(question)])
            .await
            .unwrap();
        // The history is first requested when the second run begins.
        if number > 1 {
            heard.push(store.history(&session.id).await.unwrap().len());
        }
        let rest = [log.replied(reply::text("yes")), log.finished("yes")];
        store.commit(&lease, &rest).await.unwrap();
    }
    assert_eq!(heard, [2, 4]);
    let history = store.history(&session.id).await.unwrap();
    let texts: Vec<_> = history
        .messages()
        .iter()
        .map(|message| message.text())
        .collect();
    assert_eq!(texts, ["one", "yes", "two", "yes", "three", "yes"]);
}
