//! Rules for idempotency keys: only one run of a session begins under a key.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use neuraxis_core::{ContentHash, JsonText, RunId, SessionId};
use neuraxis_ports::{KeyedRequest, RunFilter, RunStart, RunSummary, SessionStore, StoreError};

use super::{Busy, id, session_of};
use crate::clock::CountingIds;
use crate::run_log::RunLog;

fn request(key: &str) -> KeyedRequest {
    let asked = JsonText::from_text(r#"{"message":"book it"}"#);
    KeyedRequest::new(ContentHash::of(key.as_bytes()), asked)
}

fn start(session: &SessionId, number: u64, key: &str) -> RunStart {
    RunStart::new(session.clone(), CountingIds::nth_run(number)).for_request(request(key))
}

fn taken(session: &SessionId, run: RunId) -> StoreError {
    StoreError::KeyTaken {
        session: session.clone(),
        run,
    }
}

async fn found(store: &impl SessionStore, session: &SessionId, key: &str) -> Vec<RunSummary> {
    let filter = RunFilter::under_key(session.clone(), request(key).key);
    store.find_runs(&filter).await.expect("the store lists")
}

/// Starts a run under a key and plays it to its end.
async fn finished(store: &impl SessionStore, start: RunStart) {
    let lease = store.begin(&start).await.expect("the session is free");
    let busy = Busy {
        session: start.session.clone(),
        log: RunLog::new(start.run, start.session),
        lease,
    };
    busy.finish(store, "Hello?", "Hi.").await;
}

/// While a run is in progress, no other run of its session begins under its key, and the key finds the run. Other
/// sessions have their own keys.
pub async fn only_one_run_of_a_session_begins_under_a_key(store: impl SessionStore) {
    let (main, side) = (id("main"), id("side"));
    for session in ["main", "side"] {
        assert_eq!(store.create_session(&session_of(session, 0)).await, Ok(()));
    }
    assert_eq!(found(&store, &main, "a").await, []);
    let first = start(&main, 1, "a");
    store.begin(&first).await.expect("the session is free");
    let again = store.begin(&start(&main, 2, "a")).await;
    assert_eq!(again, Err(taken(&main, first.run)));
    let busy = store.begin(&start(&main, 2, "b")).await;
    assert!(matches!(busy, Err(StoreError::SessionBusy { .. })));
    let elsewhere = store.begin(&start(&side, 3, "a")).await;
    assert!(elsewhere.is_ok());
    let runs = found(&store, &main, "a").await;
    let [run] = runs.as_slice() else {
        unreachable!("one run holds the key")
    };
    assert_eq!((run.run_id, &run.request), (first.run, &first.request));
    assert_eq!(found(&store, &main, "b").await, []);
}

/// A run keeps its key after it has ended. A run without a key has none.
pub async fn an_ended_run_keeps_its_key(store: impl SessionStore) {
    let main = id("main");
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    finished(&store, start(&main, 1, "a")).await;
    let without = Busy::begin(&store, &main, 2).await;
    without.finish(&store, "Hello?", "Hi.").await;
    let again = store.begin(&start(&main, 3, "a")).await;
    assert_eq!(again, Err(taken(&main, CountingIds::nth_run(1))));
    finished(&store, start(&main, 3, "b")).await;
    let runs = store.runs(&main).await.expect("the session is known");
    let requests: Vec<_> = runs.into_iter().map(|run| run.request).collect();
    assert_eq!(requests, [Some(request("a")), None, Some(request("b"))]);
    assert_eq!(store.delete_session(&main).await, Ok(()));
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    finished(&store, start(&main, 4, "a")).await;
}

/// Resuming a run does not require its request, and does not change it.
pub async fn a_resumed_run_keeps_its_original_request(store: impl SessionStore) {
    let main = id("main");
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    let first = start(&main, 1, "a");
    store.begin(&first).await.expect("the session is free");
    let again = store.begin_run(&main, first.run).await;
    assert!(again.is_ok());
    assert!(store.begin(&first).await.is_ok(), "its own key is its own");
    let run = store.run(first.run).await.expect("the run is known");
    assert_eq!(run.request, first.request);
}

/// A request that created its session and is sent again with another run learns which run has its key, not that the
/// session exists. Under another key, it learns that the session exists. Neither changes anything.
pub async fn a_key_is_checked_before_a_session_is_created(store: impl SessionStore) {
    let main = id("main");
    let new = |number, key| {
        let run = CountingIds::nth_run(number);
        RunStart::in_new_session(session_of("main", 0), run).for_request(request(key))
    };
    let first = new(1, "a");
    store.begin(&first).await.expect("the session is new");
    let again = store.begin(&new(2, "a")).await;
    assert_eq!(again, Err(taken(&main, first.run)));
    let other = store.begin(&new(3, "b")).await;
    assert_eq!(other, Err(StoreError::SessionExists(main.clone())));
    let runs = store.runs(&main).await.expect("the session is known");
    let runs: Vec<_> = runs.into_iter().map(|run| run.run_id).collect();
    assert_eq!(runs, [first.run]);
}

/// A run that never began releases its key.
pub async fn an_abandoned_run_releases_its_key(store: impl SessionStore) {
    let main = id("main");
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    let lease = store.begin(&start(&main, 1, "a")).await;
    let lease = lease.expect("the session is free");
    assert_eq!(store.abandon_run(&lease).await, Ok(()));
    assert_eq!(found(&store, &main, "a").await, []);
    assert!(store.begin(&start(&main, 2, "a")).await.is_ok());
}

/// If several requests with the same key begin different runs at the same time, one succeeds.
pub async fn only_one_of_several_concurrent_runs_begins_under_a_key(store: impl SessionStore) {
    let main = id("main");
    assert_eq!(store.create_session(&session_of("main", 0)).await, Ok(()));
    let starts: Vec<_> = (1..=8).map(|number| start(&main, number, "a")).collect();
    let begun = futures_util::future::join_all(starts.iter().map(|start| store.begin(start))).await;
    let won: Vec<_> = begun
        .iter()
        .filter_map(|begun| begun.as_ref().ok())
        .collect();
    let [winner] = won.as_slice() else {
        unreachable!("one of them begins: {begun:?}")
    };
    let lost = begun.iter().filter_map(|begun| begun.as_ref().err());
    assert!(
        lost.clone().count() == 7 && lost.clone().all(|lost| *lost == taken(&main, winner.run))
    );
}
