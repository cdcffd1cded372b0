//! Rules for runs: which run holds a session, and for how long.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::sync::Arc;

use neuraxis_core::{
    AgentId, ContextTrimmed, FinishReason, InboxEntry, InboxInput, InputId, Message, RecordBody,
    RunOutcome, RunUsage, Seq, Span, Waiting,
};
use neuraxis_ports::{ChainHead, RunStart, SessionStore, StoreError};

use super::{Busy, history, id, records, session_of};
use crate::clock::CountingIds;
use crate::reply;
use crate::run_log::RunLog;

/// While a run is in progress, no other begins, and the error names that run.
pub async fn a_busy_session_accepts_no_second_run(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let second = store
        .begin_run(&busy.session, CountingIds::nth_run(2))
        .await;
    assert_eq!(
        second,
        Err(StoreError::SessionBusy {
            session: busy.session,
            run: busy.log.run()
        })
    );
}

/// If many runs begin at the same time, exactly one gets the session.
pub async fn only_one_of_many_concurrent_runs_gets_the_session(store: impl SessionStore) {
    const RUNS: u64 = 32;
    let store = Arc::new(store);
    store
        .create_session(&session_of("main", 0))
        .await
        .expect("the session is new");
    let begin = |number| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            store
                .begin_run(&id("main"), CountingIds::nth_run(number))
                .await
        })
    };
    let mut won = Vec::new();
    for attempt in (1..=RUNS).map(begin).collect::<Vec<_>>() {
        match attempt.await.expect("begin_run does not panic") {
            Ok(lease) => won.push(lease.run),
            Err(error) => assert!(matches!(error, StoreError::SessionBusy { .. }), "{error}"),
        }
    }
    assert_eq!(
        won.len(),
        1,
        "these runs hold the session at the same time: {won:?}"
    );
}

/// A run that ends with an answer frees its session.
pub async fn a_run_that_ends_with_an_answer_frees_its_session(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let session = busy.session.clone();
    busy.finish(&store, "Hello?", "Hi.").await;
    Busy::begin(&store, &session, 2).await;
}

/// A run that ends without an answer frees its session.
pub async fn a_failed_run_frees_its_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let ended = [busy.log.started("Hello?"), busy.log.failed("no model")];
    busy.commit(&store, &ended).await;
    Busy::begin(&store, &busy.session, 2).await;
}

/// When a sub-agent ends, its run continues.
pub async fn the_end_of_a_sub_agent_does_not_free_the_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let content = "found".to_owned();
    let outcome = RunOutcome {
        content,
        finish_reason: FinishReason::Stop,
        turns: 1,
        usage: RunUsage::default(),
        sources: Vec::new(),
        unheard: 0,
        failed_call: None,
        interruption: None,
    };
    let ended = [
        busy.log.started("Hello?"),
        busy.log
            .record_of(AgentId(1), RecordBody::Final(Box::new(outcome))),
    ];
    busy.commit(&store, &ended).await;
    let error = StoreError::SessionBusy {
        session: busy.session.clone(),
        run: busy.log.run(),
    };
    assert_eq!(
        store
            .begin_run(&busy.session, CountingIds::nth_run(2))
            .await,
        Err(error)
    );
    let more = [busy.log.warned("slow")];
    busy.commit(&store, &more).await;
}

/// A waiting run has not ended.
pub async fn a_waiting_run_keeps_its_session(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let waiting = RecordBody::Waiting(Box::new(Waiting {
        pending: Vec::new(),
    }));
    let waits = [busy.log.started("Hello?"), busy.log.record(waiting)];
    busy.commit(&store, &waits).await;
    let error = StoreError::SessionBusy {
        session: busy.session.clone(),
        run: busy.log.run(),
    };
    assert_eq!(
        store
            .begin_run(&busy.session, CountingIds::nth_run(2))
            .await,
        Err(error)
    );
}

/// Each lease of a session has a greater token than the previous one.
pub async fn the_lease_tokens_of_a_session_increase(store: impl SessionStore) {
    let first = Busy::new(&store).await;
    let (session, token) = (first.session.clone(), first.lease.token);
    first.finish(&store, "Hello?", "Hi.").await;
    let second = Busy::begin(&store, &session, 2).await;
    assert!(
        second.lease.token > token,
        "{} came after {token}",
        second.lease.token
    );
}

/// A resumed run gets a new lease and continues where it was. A stalled holder of the old lease can no longer write.
pub async fn resuming_a_run_makes_its_older_lease_stale(store: impl SessionStore) {
    let mut stalled = Busy::new(&store).await;
    let run = stalled.log.run();
    let started = stalled.log.started("Hello?");
    stalled.commit(&store, std::slice::from_ref(&started)).await;

    let lease = store
        .begin_run(&stalled.session, run)
        .await
        .expect("the same run may begin again");
    assert!(
        lease.token > stalled.lease.token,
        "{} came after {}",
        lease.token,
        stalled.lease.token
    );
    let next = stalled.log.warned("slow");
    let late = store
        .commit(&stalled.lease, std::slice::from_ref(&next))
        .await;
    assert_eq!(late, Err(StoreError::Stale(run)));
    assert_eq!(
        store.commit(&lease, std::slice::from_ref(&next)).await,
        Ok(())
    );
    assert_eq!(records(&store, run).await, [started, next]);
}

/// A run that has ended cannot be resumed.
pub async fn an_ended_run_cannot_be_resumed(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (session, run) = (busy.session.clone(), busy.log.run());
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(
        store.begin_run(&session, run).await,
        Err(StoreError::Stale(run))
    );
    Busy::begin(&store, &session, 2).await;
}

/// A run belongs to the session in which it began.
pub async fn a_run_of_one_session_cannot_begin_in_another(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let run = busy.log.run();
    assert_eq!(store.create_session(&session_of("side", 1)).await, Ok(()));
    assert_eq!(
        store.begin_run(&id("side"), run).await,
        Err(StoreError::Stale(run))
    );
    Busy::begin(&store, &id("side"), 2).await;
}

/// A session that is created with its run is like any other. Beginning that run again, because the answer was lost,
/// creates none.
pub async fn a_new_session_is_created_with_its_run(store: impl SessionStore) {
    let session = session_of("main", 7)
        .owned_by("ada")
        .seeded([Message::user("Before.")].into_iter().collect());
    let mut log = RunLog::new(CountingIds::nth_run(1), session.id.clone());
    let start = RunStart::in_new_session(session.clone(), log.run());
    let lost = store.begin(&start).await.expect("the session is new");
    let lease = store.begin(&start).await.expect("it is the same run");
    assert!(lease.token > lost.token);
    assert_eq!(store.session(&session.id).await, Ok(session.clone()));
    let ended = [
        log.started("Hello?"),
        log.replied(reply::text("Hi.")),
        log.finished("Hi."),
    ];
    assert_eq!(store.commit(&lease, &ended).await, Ok(()));
    let said = history(&store, &session.id).await;
    assert_eq!(said, ["Before.", "Hello?", "Hi."]);
    let head = ChainHead::start(&session).with_records(ended.iter().map(AsRef::as_ref));
    assert_eq!(store.verify(&session.id, None).await, Ok(head));
}

/// Creating a session that exists returns an error, whether the session is free or busy, and changes nothing.
pub async fn an_existing_session_is_not_created_again(store: impl SessionStore) {
    let exists = Err(StoreError::SessionExists(id("main")));
    let busy = Busy::new(&store).await;
    let new = |number| {
        let session = session_of("main", 9).owned_by("bob");
        RunStart::in_new_session(session, CountingIds::nth_run(number))
    };
    assert_eq!(store.begin(&new(2)).await, exists);
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.begin(&new(3)).await, exists);
    let session = store.session(&id("main")).await;
    let mut expected = session_of("main", 0);
    // The run's log creates one record per second.
    expected.mark_active(session_of("time", 2).created_at);
    assert_eq!(session, Ok(expected));
    for number in [2, 3] {
        let run = CountingIds::nth_run(number);
        assert_eq!(store.run(run).await, Err(StoreError::NoSuchRun(run)));
    }
    let invalid = session_of("side", 0).owned_by("\0");
    let start = RunStart::in_new_session(invalid, CountingIds::nth_run(4));
    let refused = store.begin(&start).await;
    assert!(matches!(refused, Err(StoreError::Invalid { .. })));
    let side = store.session(&id("side")).await;
    assert_eq!(side, Err(StoreError::NoSuchSession(id("side"))));
}

/// If many runs try to create the same session at the same time, exactly one succeeds.
pub async fn only_one_of_many_concurrent_runs_creates_the_session(store: impl SessionStore) {
    let store = Arc::new(store);
    let begin = |number| {
        let store = Arc::clone(&store);
        let start = RunStart::in_new_session(session_of("main", 0), CountingIds::nth_run(number));
        tokio::spawn(async move { store.begin(&start).await })
    };
    let mut won = Vec::new();
    for attempt in (1..=32).map(begin).collect::<Vec<_>>() {
        match attempt.await.expect("begin does not panic") {
            Ok(lease) => won.push(lease.run),
            Err(error) => assert_eq!(error, StoreError::SessionExists(id("main"))),
        }
    }
    assert_eq!(won.len(), 1, "these runs created the session: {won:?}");
}

/// A run that was abandoned before its first commit leaves its session free, and no trace.
pub async fn an_abandoned_run_frees_its_session(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    assert_eq!(store.abandon_run(&busy.lease).await, Ok(()));
    let run = busy.log.run();
    assert_eq!(
        store.records(run, Seq(0)).await,
        Err(StoreError::NoSuchRun(run))
    );
    assert_eq!(
        store.abandon_run(&busy.lease).await,
        Err(StoreError::Stale(run))
    );
    Busy::begin(&store, &busy.session, 2).await;
}

/// A run with committed records cannot be abandoned: a client may already have received them.
pub async fn a_run_with_records_cannot_be_abandoned(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let first = [busy.log.started("Hello?")];
    busy.commit(&store, &first).await;
    let posted = InboxEntry::new(InboxInput::steered(InputId::new("s1"), "wait"));
    assert_eq!(store.post(run, &posted).await, Ok(()));
    assert_eq!(
        store.abandon_run(&busy.lease).await,
        Err(StoreError::Stale(run))
    );
    assert_eq!(records(&store, run).await, first);
    assert_eq!(store.inbox(&busy.lease).await, Ok(vec![posted]));
}

/// If a run drops messages from the conversation to make room, this does not change what it and earlier runs began
/// with. A session recreated under an old id begins empty.
pub async fn trimming_does_not_change_the_history_that_a_run_began_with(store: impl SessionStore) {
    let first = Busy::new(&store).await;
    let (session, first_run) = (first.session.clone(), first.log.run());
    first.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(history(&store, &session).await, ["Hello?", "Hi."]);
    let mut second = Busy::begin(&store, &session, 2).await;
    let second_run = second.log.run();
    let trimmed = RecordBody::ContextTrimmed(Box::new(ContextTrimmed {
        messages: 2,
        tokens: 10,
        removed: vec![Span { start: 0, end: 2 }],
        shortened: Vec::new(),
        without_reasoning: Vec::new(),
        summary: Some("They greeted.".to_owned()),
    }));
    let records = [
        second.log.started("And?"),
        second.log.record(trimmed),
        second.log.replied(reply::text("So.")),
        second.log.finished("So."),
    ];
    second.commit(&store, &records).await;
    let left = ["They greeted.", "And?", "So."];
    assert_eq!(history(&store, &session).await, left);
    let third = Busy::begin(&store, &session, 3).await;
    for (run, expected) in [
        (first_run, &[][..]),
        (second_run, &["Hello?", "Hi."]),
        (third.log.run(), &left),
    ] {
        let before = store.history_before(run).await.expect("the run is known");
        let texts: Vec<_> = before.messages().iter().map(|it| it.text()).collect();
        assert_eq!(texts, expected);
    }
    let unknown = CountingIds::nth_run(7);
    let refused = store.history_before(unknown).await;
    assert_eq!(refused, Err(StoreError::NoSuchRun(unknown)));
    third.finish(&store, "Bye.", "Bye.").await;
    store
        .delete_session(&session)
        .await
        .expect("nothing is at work");
    let made = store.create_session(&session_of("main", 0)).await;
    assert_eq!(
        (made, history(&store, &session).await),
        (Ok(()), Vec::new())
    );
}
