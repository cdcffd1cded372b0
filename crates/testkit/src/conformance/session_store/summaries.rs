//! Rules for what a store reports without returning records: runs, and what they used.
#![expect(clippy::expect_used, reason = "a suite reports failures by panicking")]

use std::time::Duration;

use neuraxis_core::log::LogSummary;
use neuraxis_core::{
    Attempt, EffectId, FinishReason, LlmError, LlmErrorKind, LlmFailed, NextAttempt, Pending,
    PendingKind, Purpose, RecordBody, Role, RunStatus, SessionMetrics, ToolCallId, Waiting,
    Warning,
};
use neuraxis_ports::{RunFilter, RunSummary, SessionStore, StoreError, UsageOf};

use super::{Busy, id, session_of};
use crate::clock::CountingIds;
use crate::clock::START;
use crate::reply;

/// A run's summary shows its state from beginning to end.
pub async fn a_summary_shows_the_state_of_a_run_from_start_to_end(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let told = async || {
        let mut told = store.run(run).await.expect("the run is known");
        // A rule for leases checks this field.
        told.leased_until = None;
        told
    };
    let mut expected = RunSummary::new(run, busy.session.clone());
    let session = store.session(&busy.session).await;
    expected.owner = session.expect("the session is known").owner;
    assert!(expected.owner.is_some());
    assert_eq!(told().await, expected);
    assert_eq!((expected.records, expected.status), (0, RunStatus::Running));

    let question = "Why? ".repeat(100);
    let first = [busy.log.started(&question), busy.log.warned("slow")];
    busy.commit(&store, &first).await;
    expected.log = LogSummary::of(&first);
    assert_eq!(expected.started_at, Some(START));
    assert_eq!(expected.text, Some("Why? ".repeat(24) + "…"));
    assert_eq!((expected.turns, expected.records), (1, 2));
    assert_eq!(told().await, expected);

    let end = [busy.log.failed("no model")];
    busy.commit(&store, &end).await;
    expected.log = LogSummary::of(&[&first[..], &end[..]].concat());
    assert_eq!(expected.status, RunStatus::Failed);
    assert_eq!(
        expected.ended_at,
        START.checked_add(Duration::from_secs(2)).ok()
    );
    let why = FinishReason::Failed("no model".to_owned());
    assert_eq!((&expected.finish_reason, expected.records), (&Some(why), 3));
    assert_eq!(told().await, expected);
}

/// A waiting run names what it waits for, until it continues.
pub async fn a_waiting_run_reports_what_it_waits_for(store: impl SessionStore) {
    let mut busy = Busy::new(&store).await;
    let run = busy.log.run();
    let pending = vec![Pending {
        effect_id: EffectId { run, number: 2 },
        tool_call_id: ToolCallId::from_text("call_1"),
        kind: PendingKind::Approval,
        expires_at: None,
    }];
    let waiting = RecordBody::Waiting(Box::new(Waiting {
        pending: pending.clone(),
    }));
    let first = [busy.log.started("Hello?"), busy.log.record(waiting)];
    busy.commit(&store, &first).await;
    assert_eq!(store.release(&busy.lease).await, Ok(()));
    let told = store.unfinished().await.expect("the store answers");
    let [told] = told.as_slice() else {
        unreachable!("one run was left")
    };
    assert_eq!((told.status, &told.pending), (RunStatus::Waiting, &pending));
    let again = store.begin_run(&busy.session, run).await;
    busy.lease = again.expect("no process drives it");
    let goes_on = [busy.log.replied(reply::text("Hi."))];
    busy.commit(&store, &goes_on).await;
    let told = store.run(run).await.expect("the run is known");
    assert_eq!((told.status, &told.pending), (RunStatus::Running, &vec![]));
}

/// The runs of a session are listed in the order in which they began, each with its first words.
pub async fn runs_of_a_session_are_listed_in_the_order_they_began(store: impl SessionStore) {
    let session = session_of("main", 0);
    assert_eq!(store.create_session(&session).await, Ok(()));
    assert_eq!(store.runs(&session.id).await, Ok(Vec::new()));
    // A later run may have a smaller id.
    for (number, question) in [(3, "one?"), (1, "two?"), (2, "three?")] {
        let busy = Busy::begin(&store, &session.id, number).await;
        busy.finish(&store, question, "Hm.").await;
    }
    let runs = store.runs(&session.id).await.expect("the session is known");
    let texts: Vec<_> = runs.iter().filter_map(|run| run.text.as_deref()).collect();
    assert_eq!(texts, ["one?", "two?", "three?"]);
    assert!(runs.iter().all(|run| run.status == RunStatus::Done));
}

/// Every query about something that does not exist returns an error that names it.
pub async fn an_unknown_session_or_run_is_named_in_every_error(store: impl SessionStore) {
    let nobody = id("nobody");
    let error = StoreError::NoSuchSession(nobody.clone());
    assert_eq!(store.runs(&nobody).await.err(), Some(error.clone()));
    assert_eq!(store.metrics(&nobody).await.err(), Some(error.clone()));
    assert_eq!(store.carried(&nobody).await.err(), Some(error.clone()));
    assert_eq!(store.revoke(&nobody, 1).await.err(), Some(error.clone()));
    assert_eq!(store.verify(&nobody, None).await.err(), Some(error.clone()));
    let of = UsageOf::Session(nobody);
    assert_eq!(store.usage_since(&of, START).await.err(), Some(error));
    let run = CountingIds::nth_run(7);
    assert_eq!(store.run(run).await, Err(StoreError::NoSuchRun(run)));
}

fn failed(busy: &Busy) -> RecordBody {
    RecordBody::LlmFailed(Box::new(LlmFailed {
        cost: None,
        cost_label: Default::default(),
        model: None,
        effect_id: EffectId {
            run: busy.log.run(),
            number: 1,
        },
        attempt: Attempt(1),
        purpose: Purpose::Turn,
        role: Role::REASONING,
        served_by: Role::ROUTER,
        downgraded: None,
        degraded: None,
        error: LlmError::new(LlmErrorKind::Connection, "refused"),
        next: NextAttempt::Follows,
        duration: Duration::from_millis(5),
    }))
}

/// A session's usage is the sum over its runs, in progress or ended.
pub async fn session_metrics_sum_runs_in_progress_and_ended_runs(store: impl SessionStore) {
    let first = Busy::new(&store).await;
    let (session, first_run) = (first.session.clone(), first.log.run());
    let mut expected = store.metrics(&session).await.expect("the session is known");
    assert_eq!(expected.runs, 0);
    let mut records = first.finish(&store, "Hello?", "Hi.").await;
    let mut second = Busy::begin(&store, &session, 2).await;
    let more = [
        second.log.started("And?"),
        second.log.record(failed(&second)),
        second.log.replied(reply::text("So.")),
    ];
    second.commit(&store, &more).await;
    records.extend(more);
    for run in [first_run, CountingIds::nth_run(2)] {
        let of_run = records.iter().filter(|record| record.run_id == run);
        expected += &SessionMetrics::of_run(of_run.map(AsRef::as_ref));
    }
    assert_eq!((expected.runs, expected.llm_failures), (2, 1));
    assert_eq!(store.metrics(&session).await, Ok(expected));
}

/// Usage is counted by the time of the records, even within a run, for a session or for all sessions of an owner.
pub async fn usage_is_counted_from_a_given_time(store: impl SessionStore) {
    let busy = Busy::new(&store).await;
    let (session, owner) = (busy.session.clone(), "owner of main".to_owned());
    busy.finish(&store, "Hello?", "Hi.").await;
    assert_eq!(store.create_session(&session_of("side", 1)).await, Ok(()));
    Busy::begin(&store, &id("side"), 2)
        .await
        .finish(&store, "side?", "side!")
        .await;
    // The log creates one record per second: started, replied, finished.
    let calls = async |of: &UsageOf, seconds| {
        let since = session_of("time", seconds).created_at;
        let used = store.usage_since(of, since).await.expect("it is counted");
        (used.runs, used.llm_calls)
    };
    let theirs = UsageOf::Owner(Some(owner));
    for of in [&UsageOf::Session(session), &theirs] {
        assert_eq!(calls(of, 0).await, (1, 1));
        assert_eq!(calls(of, 1).await, (0, 1));
        assert_eq!(calls(of, 2).await, (0, 0));
        assert_eq!(calls(of, 3).await, (0, 0));
    }
    assert_eq!(calls(&UsageOf::Owner(None), 0).await, (0, 0));
}

/// The time that a session used is the time in which its runs were active, whatever they did. A call that was stopped
/// does not say how long it took, and waiting is not counted.
pub async fn the_time_a_session_used_is_the_active_time_of_its_runs(store: impl SessionStore) {
    let mut first = Busy::new(&store).await;
    let session = first.session.clone();
    let of = UsageOf::Session(session.clone());
    let worked = async || {
        let used = store.metrics(&session).await;
        used.expect("the session is known").worked.as_millis()
    };
    let worked_since = async |seconds| {
        let since = session_of("time", seconds).created_at;
        let used = store.usage_since(&of, since).await;
        used.expect("it is counted").worked.as_millis()
    };
    let at = |active_ms| (Duration::from_millis(active_ms), happened());
    let started = first.log.started("Hello?");
    let mut step = |active_ms| {
        let (active, body) = at(active_ms);
        first.log.step(active, body)
    };
    let records = [started, step(700), step(700)];
    let after = [step(1_500), first.log.finished("Hi.")];
    first.commit(&store, &records).await;
    assert_eq!(worked().await, 700);
    first.commit(&store, &after).await;
    assert_eq!(worked().await, 1_500, "it has ended");
    // The log creates one record per second.
    assert_eq!(worked_since(0).await, 1_500);
    assert_eq!(worked_since(1).await, 1_500);
    assert_eq!(worked_since(2).await, 800);
    assert_eq!(worked_since(4).await, 0);
    let mut second = Busy::begin(&store, &session, 2).await;
    let (active, body) = at(250);
    let more = [second.log.started("And?"), second.log.step(active, body)];
    second.commit(&store, &more).await;
    assert_eq!(worked().await, 1_750, "of runs at work and ended ones");
}

fn happened() -> RecordBody {
    RecordBody::Warning(Box::new(Warning {
        code: "test".to_owned(),
        message: "something took its time".to_owned(),
    }))
}

/// Runs of all sessions are listed by id, the greatest first, page by page, and can be selected by a range of ids.
pub async fn runs_of_all_sessions_are_listed_by_descending_id(store: impl SessionStore) {
    let listed = async |filter: &RunFilter| {
        let runs = store.find_runs(filter).await.expect("the store lists");
        runs.iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    let all = RunFilter::default();
    assert_eq!(listed(&all).await, []);
    for name in ["one", "two"] {
        assert_eq!(store.create_session(&session_of(name, 0)).await, Ok(()));
    }
    for (name, number) in [("two", 1), ("one", 3), ("two", 2)] {
        let busy = Busy::begin(&store, &id(name), number).await;
        busy.finish(&store, "Hello?", "Hi.").await;
    }
    let [first, second, third] = [1, 2, 3].map(CountingIds::nth_run);
    assert_eq!(listed(&all).await, [third, second, first]);
    assert_eq!(listed(&all.clone().limited_to(2)).await, [third, second]);
    assert_eq!(listed(&all.clone().after(second)).await, [first]);
    let of_two = all.of_session(id("two"));
    assert_eq!(listed(&of_two).await, [second, first]);
    let exact = RunFilter::beginning_with(&third.to_string()).expect("an id");
    assert_eq!(listed(&exact).await, [third]);
    assert_eq!(listed(&exact.of_session(id("two"))).await, []);
}

/// Runs can be listed by owner, combined with all other conditions of a filter.
pub async fn listing_by_owner_returns_only_that_owners_runs(store: impl SessionStore) {
    for (name, owner) in [("a", Some("ann")), ("b", Some("bob")), ("c", None)] {
        let mut session = session_of(name, 0);
        session.owner = owner.map(str::to_owned);
        assert_eq!(store.create_session(&session).await, Ok(()));
    }
    for (name, number) in [("a", 1), ("b", 2), ("c", 3), ("a", 4)] {
        let busy = Busy::begin(&store, &id(name), number).await;
        busy.finish(&store, "Hello?", "Hi.").await;
    }
    let listed = async |filter: RunFilter| {
        let runs = store.find_runs(&filter).await.expect("the store lists");
        runs.iter().map(|run| run.run_id).collect::<Vec<_>>()
    };
    let [of_ann, of_bob, _, of_ann_too] = [1, 2, 3, 4].map(CountingIds::nth_run);
    let of = |owner: &str| RunFilter::default().owned_by(owner);
    assert_eq!(listed(of("ann")).await, [of_ann_too, of_ann]);
    assert_eq!(listed(of("bob")).await, [of_bob]);
    assert_eq!(listed(of("ann").limited_to(1)).await, [of_ann_too]);
    assert_eq!(listed(of("ann").after(of_ann_too)).await, [of_ann]);
    assert_eq!(listed(of("ann").of_session(id("b"))).await, []);
    for nobody in ["", "Ann", "ann' OR ''='"] {
        assert_eq!(listed(of(nobody)).await, []);
    }
}
