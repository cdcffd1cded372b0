//! Rules for records: what is stored, in which order, and what is refused.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use futures_util::FutureExt;
use neuraxis_core::{Record, Seq};
use neuraxis_ports::{RunBounds, RunLease, SessionStore, StoreError};

use super::{Busy, history, records, session_of};
use crate::clock::CountingIds;
use crate::reply;
use crate::run_log::RunLog;

/// A run that has begun is known even if nothing was committed.
pub async fn a_run_has_no_records_before_its_first_commit(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    assert_eq!(records(&store, busy.log.run()).await, []);
}

/// Reading the records of a run that never began returns an error that names the run.
pub async fn an_unknown_run_is_named_in_the_error(store: impl SessionStore) {
    let run = CountingIds::nth_run(7);
    assert_eq!(
        store.records(run, Seq(0)).await,
        Err(StoreError::NoSuchRun(run))
    );
}

/// Records are read back unchanged, to the byte of their JSON, in the order of their commits.
pub async fn records_are_read_back_as_they_were_committed(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let first = [
        busy.log.started("Ünïcode \"quotes\" \\ and\nlines? 🦀"),
        busy.log.warned("slow"),
    ];
    let second = [busy
        .log
        .replied(reply::calls([("look", "{ \"at\" : 1.50 }")]))];
    busy.commit(&store, &first).await;
    busy.commit(&store, &second).await;
    let kept = records(&store, busy.log.run()).await;
    let committed: Vec<_> = first.into_iter().chain(second).collect();
    assert_eq!(kept, committed);
    let json = |records: &[Arc<Record>]| {
        records
            .iter()
            .map(|record| record.to_json())
            .collect::<Vec<_>>()
    };
    assert_eq!(json(&kept), json(&committed));
}

/// A reader can continue after the last record that it has.
pub async fn records_are_read_after_a_given_one(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    let all = busy.finish(&store, "Hello?", "Hi.").await;
    let [_, second, third] = all.as_slice() else {
        unreachable!("a finished run has three records")
    };
    let after = async |seq| {
        store
            .records(run, Seq(seq))
            .await
            .expect("the run is known")
    };
    assert_eq!(after(1).await, [Arc::clone(second), Arc::clone(third)]);
    assert_eq!(after(2).await, [Arc::clone(third)]);
    assert_eq!(after(3).await, []);
    assert_eq!(after(u64::MAX).await, []);
}

/// Records that leave a gap are refused, whether at the beginning or later.
pub async fn a_gap_in_the_records_is_refused(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let (run, stale) = (busy.log.run(), Err(StoreError::Stale(busy.log.run())));
    let all = [
        busy.log.started("Hello?"),
        busy.log.warned("slow"),
        busy.log.warned("slower"),
    ];
    let [first, _, third] = all.each_ref();
    assert_eq!(
        store.commit(&busy.lease, std::slice::from_ref(third)).await,
        stale
    );
    assert_eq!(
        store
            .commit(&busy.lease, &[Arc::clone(first), Arc::clone(third)])
            .await,
        stale
    );
    assert_eq!(
        records(&store, run).await,
        [],
        "part of a refused commit was stored"
    );
    busy.commit(&store, &all).await;
}

/// The same record is not stored twice: repeating the last commit, whose answer may have been lost, changes nothing.
pub async fn a_repeated_commit_stores_no_record_twice(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    assert_eq!(store.commit(&busy.lease, &first).await, Ok(()));
    assert_eq!(records(&store, busy.log.run()).await, first);
    let second = [busy.log.warned("slow")];
    busy.commit(&store, &second).await;
    assert_eq!(
        store.commit(&busy.lease, &first).await,
        Err(StoreError::Stale(busy.log.run())),
        "an earlier commit was repeated"
    );
    let all = [first, second].concat();
    assert_eq!(records(&store, busy.log.run()).await, all);
}

/// The commit that ended a run may be repeated like any other, and ends nothing twice.
pub async fn the_last_commit_of_a_run_may_be_repeated(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (session, run, lease) = (busy.session.clone(), busy.log.run(), busy.lease.clone());
    let ended = busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.commit(&lease, &ended).await, Ok(()));
    assert_eq!(records(&store, run).await, ended);
    assert_eq!(history(&store, &session).await, ["Hello?", "Hi."]);
}

/// Records in the wrong order are refused, all of them.
pub async fn a_commit_with_records_out_of_order_is_refused_as_a_whole(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let (first, second) = (busy.log.started("Hello?"), busy.log.warned("slow"));
    assert_eq!(
        store.commit(&busy.lease, &[second, first]).await,
        Err(StoreError::Stale(run))
    );
    assert_eq!(records(&store, run).await, []);
}

/// A lease does not allow writing records of another run.
pub async fn records_of_another_run_are_refused(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let mut other = RunLog::new(CountingIds::nth_run(2), busy.session.clone());
    let foreign = [other.started("Hello?")];
    assert_eq!(
        store.commit(&busy.lease, &foreign).await,
        Err(StoreError::Stale(busy.log.run()))
    );
    assert_eq!(records(&store, busy.log.run()).await, []);
}

/// After the record that ended a run, no more of its records are accepted.
pub async fn an_ended_run_accepts_no_more_records(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let ended = [busy.log.started("Hello?"), busy.log.finished("Hi.")];
    busy.commit(&store, &ended).await;
    let late = [busy.log.warned("slow")];
    assert_eq!(
        store.commit(&busy.lease, &late).await,
        Err(StoreError::Stale(run))
    );
    assert_eq!(records(&store, run).await, ended);
}

/// A lease that the store did not issue is invalid.
pub async fn a_forged_lease_is_refused(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    let forged = RunLease::new(
        busy.session.clone(),
        run,
        busy.lease.token.wrapping_add(1),
        busy.lease.length,
    );
    assert_eq!(
        store.commit(&forged, &first).await,
        Err(StoreError::Stale(run))
    );
    let unknown = CountingIds::nth_run(7);
    let forged = RunLease::new(
        busy.session.clone(),
        unknown,
        busy.lease.token,
        busy.lease.length,
    );
    assert_eq!(
        store.commit(&forged, &first).await,
        Err(StoreError::Stale(unknown))
    );
    busy.commit(&store, &first).await;
}

/// A commit without records succeeds for the holder of the lease and changes nothing.
pub async fn an_empty_commit_changes_nothing(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    busy.commit(&store, &[]).await;
    assert_eq!(records(&store, busy.log.run()).await, []);
}

/// A commit whose future is dropped has stored all of its records or none.
pub async fn a_dropped_commit_stores_all_of_its_records_or_none(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let all = [
        busy.log.started("Hello?"),
        busy.log.warned("slow"),
        busy.log.warned("slower"),
    ];
    drop(store.commit(&busy.lease, &all).now_or_never());
    let kept = records(&store, busy.log.run()).await;
    assert!(
        kept.is_empty() || kept == all,
        "a part was stored: {kept:?}"
    );
}

/// Any text is read back unchanged: control characters, escapes of lone surrogates, a megabyte in one value.
pub async fn hostile_texts_and_long_values_are_read_back_unchanged(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let long = "🦀".repeat(300_000);
    let arguments = [
        r#"{"lone":"\ud800"}"#,
        "{\"nul\":\"\\u0000\"}",
        "not JSON \u{0}\u{1b}[31m\u{2028}\r\n",
        "@0000000000000000000000000000000000000000000000000000000000000000",
        &long,
    ];
    let calls = arguments.map(|arguments| ("look", arguments));
    let all = [
        busy.log.started("nul \0, bell \u{7}, tag \u{e0041}"),
        busy.log.replied(reply::calls(calls)),
        busy.log.warned(&long),
        busy.log.warned(&long),
    ];
    busy.commit(&store, &all).await;
    assert_eq!(
        store.commit(&busy.lease, &all).await,
        Ok(()),
        "not known again"
    );
    assert_eq!(records(&store, busy.log.run()).await, all);
    let told = store.run(busy.log.run()).await.expect("the run is known");
    assert_eq!(
        told.text.as_deref(),
        Some("nul \u{fffd}, bell \u{7}, tag \u{e0041}")
    );
    assert!(store.verify(&busy.session, None).await.is_ok());
}

/// A commit in which a record follows the end of the run is refused as a whole.
pub async fn a_commit_with_a_record_after_the_end_of_the_run_is_refused(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let all = [
        busy.log.started("Hello?"),
        busy.log.finished("Hi."),
        busy.log.warned("slow"),
    ];
    let refused = store.commit(&busy.lease, &all).await;
    assert_eq!(refused, Err(StoreError::Stale(run)));
    assert_eq!(records(&store, run).await, []);
    let [started, finished, _] = all;
    busy.commit(&store, &[started, finished]).await;
}

/// A run that has reached the maximum length accepts only its end.
pub async fn a_run_at_its_maximum_length_accepts_only_its_end(store: impl SessionStore) {
    let most = RunBounds::default().max_records;
    let mut busy = Busy::new(&store).await;
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    let many: Vec<_> = (1..most).map(|_| busy.log.warned("slow")).collect();
    busy.commit(&store, &many).await;
    let after_most = busy.log.clone();
    let one_more = [busy.log.warned("slow")];
    let refused = store.commit(&busy.lease, &one_more).await;
    let Err(StoreError::RunTooLarge { records, .. }) = refused else {
        unreachable!("a run of {} records was taken: {refused:?}", most + 1)
    };
    assert_eq!(records, most + 1);
    busy.log = after_most;
    let end = [busy.log.failed("too long")];
    busy.commit(&store, &end).await;
    let told = store.run(busy.log.run()).await.expect("the run is known");
    assert_eq!((told.records, told.ended_at.is_some()), (most + 1, true));
}

/// If many runs commit at the same time, each keeps its own records in order.
pub async fn concurrent_commits_keep_the_records_of_each_run_in_order(store: impl SessionStore) {
    const RUNS: u64 = 32;
    const STEPS: usize = 20;
    let store = Arc::new(store);
    let drive = |number: u64| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            let session = session_of(&format!("s{number}"), number);
            store
                .create_session(&session)
                .await
                .expect("the session is new");
            let mut busy = Busy::begin(store.as_ref(), &session.id, number).await;
            let mut all = vec![busy.log.started(&format!("run {number}?"))];
            busy.commit(store.as_ref(), &all).await;
            for step in 0..STEPS {
                let records = [
                    busy.log.warned(&format!("{number}.{step}")),
                    busy.log.warned("and"),
                ];
                busy.commit(store.as_ref(), &records).await;
                all.extend(records);
            }
            (busy.log.run(), all)
        })
    };
    for driven in (1..=RUNS).map(drive).collect::<Vec<_>>() {
        let (run, all) = driven.await.expect("a run is driven to its end");
        assert_eq!(records(store.as_ref(), run).await, all);
    }
}
