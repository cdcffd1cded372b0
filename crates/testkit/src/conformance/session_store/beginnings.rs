//! Rules for runs that begin with the records of their first step: run and records are stored together or not at all.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use neuraxis_core::log::Carried;
use neuraxis_core::{Message, Record, RunId, RunStatus, Seq};
use neuraxis_ports::{ChainHead, RunBounds, RunStart, SessionStore, StoreError};

use super::{Busy, history, id, records, session_of};
use crate::clock::CountingIds;
use crate::reply;
use crate::run_log::RunLog;

/// Returns a run of the session `main`, which the run creates, and its log.
fn new_run(number: u64) -> (RunLog, RunStart) {
    let session = session_of("main", 0);
    let log = RunLog::new(CountingIds::nth_run(number), session.id.clone());
    let start = RunStart::in_new_session(session, log.run());
    (log, start)
}

/// A run's first records are stored when it begins, in a new session and in an existing one, and the run continues from
/// there.
pub async fn the_first_records_of_a_run_are_stored_when_it_begins(store: impl SessionStore) {
    let (mut log, start) = new_run(1);
    let mut all = vec![log.started("Hello?"), log.warned("slow")];
    let start = start.with_records(all.clone());
    let lease = store.begin(&start).await.expect("the session is new");
    assert_eq!(records(&store, log.run()).await, all);
    let told = store.run(log.run()).await.expect("the run is known");
    assert_eq!((told.records, told.status), (2, RunStatus::Running));
    assert_eq!(
        store.abandon_run(&lease).await,
        Err(StoreError::Stale(log.run())),
        "something is on record of it"
    );
    let rest = [log.replied(reply::text("Hi.")), log.finished("Hi.")];
    assert_eq!(store.commit(&lease, &rest).await, Ok(()));
    all.extend(rest);
    assert_eq!(records(&store, log.run()).await, all);

    let mut log = RunLog::new(CountingIds::nth_run(2), id("main"));
    let first = vec![log.started("And?")];
    all.extend(first.clone());
    let start = RunStart::new(id("main"), log.run()).with_records(first);
    let lease = store.begin(&start).await.expect("the session is free");
    let rest = [log.replied(reply::text("So.")), log.finished("So.")];
    assert_eq!(store.commit(&lease, &rest).await, Ok(()));
    all.extend(rest);
    let said = history(&store, &id("main")).await;
    assert_eq!(said, ["Hello?", "Hi.", "And?", "So."]);
    let head = ChainHead::start(&session_of("main", 0)).with_records(all.iter().map(AsRef::as_ref));
    assert_eq!(store.verify(&id("main"), None).await, Ok(head));
}

/// Starting a run again is allowed with the same first records, because the answer may have been lost, and with no
/// others.
pub async fn a_run_cannot_be_begun_again_with_different_records(store: impl SessionStore) {
    let (mut log, start) = new_run(1);
    let mut other_log = log.clone();
    let first = vec![log.started("Hello?")];
    let lost = store
        .begin(&start.clone().with_records(first.clone()))
        .await;
    let lost = lost.expect("the session is new");
    let other = start.clone().with_records(vec![other_log.started("Bye?")]);
    let stale = Err(StoreError::Stale(log.run()));
    assert_eq!(store.begin(&other).await, stale);
    assert_eq!(store.renew(&lost).await, Ok(()), "nothing has changed");
    let lease = store
        .begin(&start.clone().with_records(first.clone()))
        .await;
    let lease = lease.expect("it is the same run");
    assert!(lease.token > lost.token);
    assert_eq!(store.renew(&lost).await, stale.clone().map(drop));
    assert_eq!(records(&store, log.run()).await, first);
    let more = [log.warned("slow")];
    assert_eq!(store.commit(&lease, &more).await, Ok(()));
    let again = store.begin(&RunStart::new(id("main"), log.run())).await;
    assert!(
        again.is_ok(),
        "without records it only continues: {again:?}"
    );
}

/// A run may end as it begins. Its session is free immediately, and a caller that missed the answer can ask again.
pub async fn a_run_may_end_with_its_first_records(store: impl SessionStore) {
    let (mut log, start) = new_run(1);
    let all = vec![
        log.started("Hello?"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ];
    let start = start.with_records(all.clone());
    assert!(store.begin(&start).await.is_ok());
    let told = store.run(log.run()).await.expect("the run is known");
    assert!(
        told.status.is_ended() && told.leased_until.is_none(),
        "{told:?}"
    );
    assert_eq!(history(&store, &id("main")).await, ["Hello?", "Hi."]);
    let lease = store.begin(&start).await.expect("it has begun so");
    assert_eq!(records(&store, log.run()).await, all);
    let more = [log.warned("slow")];
    let stale = StoreError::Stale(log.run());
    assert_eq!(store.commit(&lease, &more).await, Err(stale.clone()));
    let anew = RunStart::new(id("main"), log.run());
    assert_eq!(store.begin(&anew).await, Err(stale));
    Busy::begin(&store, &id("main"), 2).await;
}

/// A run whose first records cannot be stored does not begin, and its session is not created.
pub async fn a_run_whose_first_records_are_refused_does_not_begin(store: impl SessionStore) {
    let (mut log, start) = new_run(1);
    let first = log.started("Hello?");
    let second = log.warned("slow");
    let (mut foreign, _) = new_run(2);
    let (stranger, third) = (foreign.started("Hello?"), log.warned("slow"));
    let wrong: [Vec<Arc<Record>>; 3] = [
        vec![Arc::clone(&second)],
        vec![stranger],
        vec![Arc::clone(&first), third],
    ];
    for records in wrong {
        let refused = store.begin(&start.clone().with_records(records)).await;
        assert_eq!(refused, Err(StoreError::Stale(log.run())));
    }
    let (mut log, start) = new_run(1);
    let most = RunBounds::default().max_records;
    let many = std::iter::once(log.started("Hello?"));
    let many = many.chain((0..most).map(|_| log.clone().warned("slow")));
    let mut seq = Seq(0);
    let many = many.map(|record| {
        seq = seq.next();
        let mut record = Arc::unwrap_or_clone(record);
        record.seq = seq;
        Arc::new(record)
    });
    let refused = store.begin(&start.with_records(many.collect())).await;
    let is_too_large = matches!(refused, Err(StoreError::RunTooLarge { .. }));
    assert!(is_too_large, "{refused:?}");
    let main = store.session(&id("main")).await;
    assert_eq!(main, Err(StoreError::NoSuchSession(id("main"))));
    let run = store.run(log.run()).await;
    assert_eq!(run, Err(StoreError::NoSuchRun(log.run())));
}

/// The next run continues from the last one. No run is named while one is in progress or if there is none.
pub async fn a_continuation_names_the_last_run_unless_one_is_in_progress(store: impl SessionStore) {
    let nobody = store.continuation(&id("main")).await.map(|it| it.last_run);
    assert_eq!(nobody, Err(StoreError::NoSuchSession(id("main"))));
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    assert_eq!(continuation(&store).await, (None, Vec::new()));
    busy.finish(&store, "Hello?", "Hi.").await;
    let said = ["Hello?".to_owned(), "Hi.".to_owned()];
    assert_eq!(continuation(&store).await, (Some(run), said.to_vec()));
    let next = Busy::begin(&store, &id("main"), 2).await;
    assert_eq!(continuation(&store).await, (None, said.to_vec()));
    assert_eq!(store.abandon_run(&next.lease).await, Ok(()));
    assert_eq!(continuation(&store).await, (Some(run), said.to_vec()));

    let empty = session_of("side", 0).seeded([Message::user("Before.")].into_iter().collect());
    assert_eq!(store.create_session(&empty).await, Ok(()));
    let continuation = store.continuation(&empty.id).await.expect("it exists");
    assert_eq!(
        (continuation.last_run, continuation.history),
        (None, empty.seed)
    );
    assert_eq!(continuation.carried, Carried::default());
}

/// A run with a given predecessor begins only if the predecessor is the last run of the session. It can be started
/// again if the answer was lost, but not if another run came in between.
pub async fn a_run_begins_only_if_its_predecessor_is_the_last_run(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let last = busy.log.run();
    let after_last = |number| {
        let mut log = RunLog::new(CountingIds::nth_run(number), id("main"));
        let first = vec![log.started("And?")];
        let start = RunStart::after(id("main"), log.run(), last).with_records(first);
        (log, start)
    };
    let (_, too_early) = after_last(2);
    let is_busy = StoreError::SessionBusy {
        session: id("main"),
        run: last,
    };
    assert_eq!(store.begin(&too_early).await, Err(is_busy));
    busy.finish(&store, "Hello?", "Hi.").await;
    let (mut log, start) = after_last(2);
    let lost = store.begin(&start).await.expect("the session is free");
    let lease = store.begin(&start).await.expect("it is the same run");
    assert!(lease.token > lost.token);
    let rest = [log.replied(reply::text("So.")), log.finished("So.")];
    assert_eq!(store.commit(&lease, &rest).await, Ok(()));
    let (log, late) = after_last(3);
    let changed = Err(StoreError::SessionChanged(id("main")));
    assert_eq!(store.begin(&late).await, changed);
    let run = store.run(log.run()).await;
    assert_eq!(run, Err(StoreError::NoSuchRun(log.run())));
    let said = history(&store, &id("main")).await;
    assert_eq!(said, ["Hello?", "Hi.", "And?", "So."]);
}

/// If many runs with the same predecessor begin at the same time, exactly one succeeds, even if it has ended by the
/// time the others are checked.
pub async fn only_one_of_many_concurrent_runs_with_the_same_predecessor_begins(
    store: impl SessionStore,
) {
    let store = Arc::new(store);
    let busy = Busy::new(&*store).await;
    let last = busy.log.run();
    busy.finish(&*store, "Hello?", "Hi.").await;
    let begin = |number| {
        let store = Arc::clone(&store);
        let mut log = RunLog::new(CountingIds::nth_run(number), id("main"));
        let start = RunStart::after(id("main"), log.run(), last);
        let start = start.with_records(vec![log.started("And?"), log.finished("So.")]);
        tokio::spawn(async move { store.begin(&start).await })
    };
    let mut won = Vec::new();
    for attempt in (2..=33).map(begin).collect::<Vec<_>>() {
        match attempt.await.expect("begin does not panic") {
            Ok(lease) => won.push(lease.run),
            Err(error) => assert_eq!(error, StoreError::SessionChanged(id("main"))),
        }
    }
    assert_eq!(
        won.len(),
        1,
        "these runs continued from the same run: {won:?}"
    );
    assert_eq!(continuation(&*store).await.0, won.first().copied());
}

/// Runs of many sessions that begin and end at the same time do not interfere: each continues from the last run of its
/// own session, and so do the hash chains.
pub async fn concurrent_runs_of_many_sessions_do_not_interfere(store: impl SessionStore) {
    const SESSIONS: u64 = 40;
    let store = Arc::new(store);
    for round in 0..3 {
        let talk = |number: u64| {
            let store = Arc::clone(&store);
            tokio::spawn(async move {
                let session = session_of(&format!("s{number}"), 0);
                let run = CountingIds::nth_run(round * SESSIONS + number + 1);
                let mut log = RunLog::new(run, session.id.clone());
                let start = match round.checked_sub(1) {
                    None => RunStart::in_new_session(session, run),
                    Some(before) => {
                        let last = CountingIds::nth_run(before * SESSIONS + number + 1);
                        RunStart::after(session.id, run, last)
                    }
                };
                let start = start.with_records(vec![log.started("Hello?")]);
                let lease = store.begin(&start).await?;
                let rest = [log.replied(reply::text("Hi.")), log.finished("Hi.")];
                store.commit(&lease, &rest).await.map(|()| lease.token)
            })
        };
        for talk in (0..SESSIONS).map(talk).collect::<Vec<_>>() {
            let token = talk.await.expect("nothing panics");
            assert!(token.is_ok(), "in round {round}: {token:?}");
        }
    }
    for number in 0..SESSIONS {
        let session = id(&format!("s{number}"));
        let head = store.verify(&session, None).await;
        assert_eq!(head.map(|head| head.records), Ok(9));
        assert_eq!(history(&*store, &session).await.len(), 6);
    }
}

/// Returns the last run of the session `main`, if it has ended, and the texts of its messages.
async fn continuation(store: &impl SessionStore) -> (Option<RunId>, Vec<String>) {
    let continuation = store.continuation(&id("main")).await.expect("it exists");
    let said = continuation.history.messages().iter();
    (continuation.last_run, said.map(|it| it.text()).collect())
}
