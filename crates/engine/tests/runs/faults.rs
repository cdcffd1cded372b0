//! Failing models, stores and clients.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{
    FinishReason, Interruption, LlmError, LlmErrorKind, Mode, Record, RunStatus, Seq, SessionId,
};
use neuraxis_engine::{
    Event, NoResult, Orchestrator, RequestError, RetryPolicy, StepType, UserRequest,
};
use neuraxis_memory::MemoryStore;
use neuraxis_ports::{RunLog as _, SessionIndex as _, StoreError};
use neuraxis_testkit::{Fault, RecordingSink, Script, ScriptedModel, StoreOperation, reply};
use tokio::time::Instant;

use crate::support::{Store, builder, failing_store, request, run_to_end, session};

fn error(kind: LlmErrorKind) -> LlmError {
    LlmError::new(kind, "as the test wants it")
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_recorded_and_retried() {
    let model = ScriptedModel::new()
        .then(error(LlmErrorKind::server(Some(500))))
        .then(reply::text("fine"));
    let finished = run_to_end(&builder(model).build().unwrap(), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(
        finished.kinds(),
        ["run_started", "decision", "llm_failed", "llm_call", "final"]
    );
    assert_eq!(finished.result.reply, "fine");
    assert_eq!(finished.result.steps[0].kind, StepType::Warning);
}

#[tokio::test(start_paused = true)]
async fn a_model_that_keeps_failing_ends_the_run_with_a_friendly_reply() {
    let model = ScriptedModel::always(error(LlmErrorKind::Connection));
    let finished = run_to_end(&builder(model).build().unwrap(), request("go")).await;
    finished.assert_valid(RunStatus::Failed);
    assert_eq!(
        finished
            .kinds()
            .iter()
            .filter(|kind| **kind == "llm_failed")
            .count(),
        3
    );
    assert!(matches!(
        &finished.result.finish_reason,
        Some(FinishReason::Failed(_))
    ));
    assert!(
        finished
            .result
            .reply
            .starts_with("This could not be finished: no connection"),
        "{}",
        finished.result.reply
    );
}

#[tokio::test]
async fn a_permanent_error_is_not_retried() {
    let model = ScriptedModel::always(error(LlmErrorKind::Unauthorized));
    let finished = run_to_end(&builder(model).build().unwrap(), request("go")).await;
    assert_eq!(
        finished
            .kinds()
            .iter()
            .filter(|kind| **kind == "llm_failed")
            .count(),
        1
    );
}

#[tokio::test(start_paused = true)]
async fn a_delay_requested_by_a_provider_is_waited_for_within_the_run_s_deadline() {
    let limited = || {
        error(LlmErrorKind::RateLimited {
            retry_after: Some(Duration::from_secs(100)),
        })
    };
    let model = ScriptedModel::new()
        .then(limited())
        .then(reply::text("fine"));
    let started = Instant::now();
    let finished = run_to_end(&builder(model).build().unwrap(), request("go")).await;
    finished.assert_valid(RunStatus::Done);
    assert_eq!(finished.result.reply, "fine");
    let waited = started.elapsed().as_secs();
    assert!((100..=110).contains(&waited), "{waited} s");

    // A conservative run has a deadline of one minute.
    let model = ScriptedModel::always(limited());
    let hurried = request("go").mode(Mode::CONSERVATIVE);
    let started = Instant::now();
    let finished = run_to_end(&builder(model).build().unwrap(), hurried).await;
    assert_eq!(finished.result.finish_reason, Some(FinishReason::Deadline));
    assert!(started.elapsed() < Duration::from_secs(100));
}

#[tokio::test(start_paused = true)]
async fn text_of_a_failed_attempt_is_retracted() {
    let broken = Script::from(reply::text("half a thought"))
        .split(4)
        .fail_at(2, error(LlmErrorKind::Connection));
    let whole = Script::from(reply::text("whole")).split(2);
    let finished = run_to_end(
        &builder(ScriptedModel::new().then(broken).then(whole))
            .build()
            .unwrap(),
        request("go"),
    )
    .await;
    let mut shown = String::new();
    for event in &finished.events {
        let Event::Live(live) = event else { continue };
        match &live.body {
            neuraxis_core::LiveBody::TextDelta { text } => shown.push_str(text),
            neuraxis_core::LiveBody::TextRetracted => shown.clear(),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(shown, "whole");
}

#[tokio::test]
async fn a_truncated_stream_counts_as_incomplete() {
    let cut = Script::from(reply::calls([("look", "{}")])).cut_at(1);
    let orchestrator = builder(ScriptedModel::always(cut))
        .retry(RetryPolicy::never())
        .build()
        .unwrap();
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Failed);
    assert!(
        !finished.kinds().contains(&"verdict"),
        "a call of a cut reply went on"
    );
}

#[tokio::test(start_paused = true)]
async fn a_briefly_unavailable_store_delays_a_run_and_loses_nothing() {
    let store = failing_store();
    let away = || Fault::Refuse(StoreError::Unavailable("gone for a moment".to_owned()));
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .store(store.clone())
        .build()
        .unwrap();
    store.fail_next(StoreOperation::Commit, away());
    store.fail_next(StoreOperation::Commit, away());
    let finished = run_to_end(&orchestrator, request("go")).await;
    finished.assert_valid(RunStatus::Done);
    let kept =
        neuraxis_ports::RunLog::records(&*store, finished.result.run_id, neuraxis_core::Seq(0))
            .await;
    assert_eq!(kept.unwrap(), finished.records());
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_confirmation_was_lost_is_applied_once() {
    let store = failing_store();
    let lost = Fault::LoseAnswer(StoreError::Unavailable("cut off".to_owned()));
    let orchestrator = builder(ScriptedModel::always(reply::text("ok")))
        .store(store.clone())
        .build()
        .unwrap();
    store.fail_next(StoreOperation::Commit, lost);
    run_to_end(&orchestrator, request("go"))
        .await
        .assert_valid(RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_cannot_be_recorded_has_not_failed_and_can_be_resumed() {
    let store = failing_store();
    let model =
        ScriptedModel::always(Script::from(reply::text("ok")).after(Duration::from_secs(1)));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    let (handle, mut events) = orchestrator.stream(request("go")).await.unwrap();
    for _ in 0..9 {
        store.fail_next(
            StoreOperation::Commit,
            Fault::Refuse(StoreError::Unavailable("disk full".to_owned())),
        );
    }
    while events.next().await.is_some() {}
    let full = StoreError::Unavailable("disk full".to_owned());
    assert_eq!(handle.result().await, Err(NoResult::Unrecorded(full)));
    let kinds = |records: Vec<Arc<Record>>| -> Vec<_> {
        records.iter().map(|record| record.body.kind()).collect()
    };
    assert_eq!(kinds(handle.records()), ["run_started", "decision"]);
    store.repair();
    let again = orchestrator
        .runs()
        .resume(handle.run_id(), Vec::new())
        .await;
    let again = again.unwrap();
    assert_eq!(again.result().await.unwrap().reply, "ok");
    assert_eq!(
        kinds(again.records()),
        ["run_started", "decision", "resumed", "llm_call", "final"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_caller_of_a_run_that_cannot_be_recorded_gets_its_id() {
    let store = failing_store();
    let full = StoreError::Damaged("page 7".to_owned());
    let model =
        ScriptedModel::always(Script::from(reply::text("ok")).after(Duration::from_secs(1)));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    let (asked, ()) = tokio::join!(orchestrator.handle(request("go")), async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        store.break_down(full.clone());
    });
    let known = store.inner().runs(&session()).await.unwrap();
    match asked {
        Err(RequestError::NoResult {
            session: named,
            run,
            source,
        }) => {
            assert_eq!((named, run), (session(), known[0].run_id));
            assert_eq!(source, NoResult::Unrecorded(full));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_refused_by_the_store_fails_at_once() {
    let store = failing_store();
    let model = ScriptedModel::always(reply::text("ok"));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    orchestrator.handle(request("before")).await.unwrap();
    let refusal = StoreError::Refused("a right is missing".to_owned());
    store.fail_next(StoreOperation::BeginRun, Fault::Refuse(refusal.clone()));
    let asked = Instant::now();
    match orchestrator.handle(request("first")).await {
        Err(RequestError::Store(error)) => assert_eq!(error, refusal),
        other => panic!("{other:?}"),
    }
    assert_eq!(asked.elapsed(), Duration::ZERO);
    let second = orchestrator.handle(request("second")).await.unwrap();
    assert_eq!(second.reply, "ok");
}

#[tokio::test(start_paused = true)]
async fn a_commit_is_attempted_five_times() {
    for (refusals, is_kept) in [(4, true), (5, false)] {
        let store = failing_store();
        let model =
            ScriptedModel::always(Script::from(reply::text("ok")).after(Duration::from_secs(1)));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
        for _ in 0..refusals {
            store.fail_next(
                StoreOperation::Commit,
                Fault::Refuse(StoreError::Unavailable("busy".to_owned())),
            );
        }
        let result = handle.result().await;
        assert_eq!(result.is_ok(), is_kept, "{refusals} refusals");
    }
}

#[tokio::test]
async fn a_request_in_a_busy_session_is_refused_and_names_the_run() {
    let orchestrator = builder(ScriptedModel::always(Script::hanging()))
        .build()
        .unwrap();
    let (handle, _) = orchestrator.stream(request("go")).await.unwrap();
    match orchestrator.stream(request("more")).await {
        Err(RequestError::Busy { session: busy, run }) => {
            assert_eq!((busy, run), (session(), handle.run_id()));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_empty_message_is_refused() {
    let orchestrator = builder(ScriptedModel::new()).build().unwrap();
    assert!(matches!(
        orchestrator.handle(request(" \n")).await,
        Err(RequestError::EmptyMessage)
    ));
}

/// Two sessions: one with a run, after which the next run begins directly, and one without, which a run leases first.
async fn with_and_without_a_run(orchestrator: &Orchestrator, store: &Store) -> [SessionId; 2] {
    orchestrator.handle(request("before")).await.unwrap();
    let empty: SessionId = "empty".parse().unwrap();
    let runs = orchestrator.runs();
    runs.new_session(Some(empty.clone())).await.unwrap();
    store.repair();
    [session(), empty]
}

fn ask_in(session: &SessionId, text: &str) -> UserRequest {
    let mut asked = request(text);
    asked.session_id = session.clone();
    asked
}

#[tokio::test(start_paused = true)]
async fn a_run_that_failed_to_start_leaves_its_session_free() {
    use StoreOperation::{BeginRun, Commit, Continuation};
    for (place, faulty) in [
        (0, vec![Continuation]),
        (0, vec![BeginRun]),
        (1, vec![Continuation]),
        (1, vec![Continuation, Continuation]),
        (1, vec![BeginRun]),
        (1, vec![Commit]),
    ] {
        let store = failing_store();
        let model = ScriptedModel::always(reply::text("ok"));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        let sessions = with_and_without_a_run(&orchestrator, &store).await;
        let (last, earlier) = faulty.split_last().unwrap();
        for operation in earlier {
            store.fail_next(*operation, Fault::AnswerLate(Duration::ZERO));
        }
        store.fail_next(
            *last,
            Fault::Refuse(StoreError::Damaged("page 7".to_owned())),
        );
        let refused = orchestrator.handle(ask_in(&sessions[place], "first")).await;
        assert!(
            matches!(refused, Err(RequestError::Store(_))),
            "{faulty:?}: {refused:?}"
        );
        tokio::task::yield_now().await;
        let second = orchestrator
            .handle(ask_in(&sessions[place], "second"))
            .await;
        assert_eq!(second.unwrap().reply, "ok", "{faulty:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_before_its_run_started_leaves_its_session_free() {
    for (place, looks) in [(0, 1), (1, 1), (1, 2)] {
        let store = failing_store();
        let model = ScriptedModel::always(reply::text("ok"));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        let sessions = with_and_without_a_run(&orchestrator, &store).await;
        for _ in 1..looks {
            store.fail_next(
                StoreOperation::Continuation,
                Fault::AnswerLate(Duration::ZERO),
            );
        }
        store.fail_next(StoreOperation::Continuation, Fault::Hang);
        let asking = orchestrator.handle(ask_in(&sessions[place], "first"));
        let asking = tokio::time::timeout(Duration::from_secs(1), asking);
        assert!(asking.await.is_err());
        tokio::task::yield_now().await;
        let second = orchestrator
            .handle(ask_in(&sessions[place], "second"))
            .await;
        assert_eq!(second.unwrap().reply, "ok", "{looks} looks in {place}");
    }
}

/// Abandons a request while the store is storing the beginning of its run.
async fn give_up_midway(orchestrator: &Orchestrator, request: UserRequest, is_streamed: bool) {
    let patience = Duration::from_secs(1);
    let is_given_up = match is_streamed {
        true => {
            let asking = tokio::time::timeout(patience, orchestrator.stream(request));
            asking.await.is_err()
        }
        false => {
            let asking = tokio::time::timeout(patience, orchestrator.handle(request));
            asking.await.is_err()
        }
    };
    assert!(is_given_up, "the store answered before");
}

#[tokio::test(start_paused = true)]
async fn a_request_dropped_while_its_run_starts_leaves_no_unfinished_run() {
    use StoreOperation::{BeginRun, Commit};
    let new: SessionId = "new".parse().unwrap();
    for is_streamed in [false, true] {
        for (place, operation) in [(0, BeginRun), (1, BeginRun), (1, Commit), (2, BeginRun)] {
            let store = failing_store();
            let model = Arc::new(ScriptedModel::always(reply::text("ok")));
            let orchestrator = builder(model.clone()).store(store.clone()).build().unwrap();
            let [known, empty] = with_and_without_a_run(&orchestrator, &store).await;
            let session = [&known, &empty, &new][place];
            store.fail_next(operation, Fault::AnswerLate(Duration::from_secs(10)));
            give_up_midway(&orchestrator, ask_in(session, "first"), is_streamed).await;
            // By then the store has answered.
            tokio::time::sleep(Duration::from_secs(20)).await;
            let case = format!("{session}, {operation:?}, streamed: {is_streamed}");
            assert_eq!(model.requests().len(), 1, "{case}: it went on for nobody");
            let second = orchestrator.handle(ask_in(session, "second")).await;
            assert_eq!(second.unwrap().reply, "ok", "{case}");
            let runs = store.inner().runs(session).await.unwrap();
            assert!(runs.iter().all(|run| run.ended_at.is_some()), "{case}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeated_keyed_request_dropped_while_its_run_started_gets_that_run() {
    use StoreOperation::{AbandonRun, BeginRun, Release};
    // Repeated while the store is still busy with it, and later.
    for wait in [0, 20] {
        let store = failing_store();
        let model = ScriptedModel::always(reply::text("ok"));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        for operation in [BeginRun, AbandonRun, Release] {
            store.fail_next(operation, Fault::AnswerLate(Duration::from_secs(5)));
        }
        let asked = || request("first").idempotency_key("booking-1".parse().unwrap());
        give_up_midway(&orchestrator, asked(), true).await;
        tokio::time::sleep(Duration::from_secs(wait)).await;
        assert_eq!(orchestrator.handle(asked()).await.unwrap().reply, "ok");
        assert_eq!(store.inner().runs(&session()).await.unwrap().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_started_despite_a_refused_request_leaves_its_session_free() {
    let store = Arc::new(Store::new(MemoryStore::with_lease(Duration::from_secs(
        3_600,
    ))));
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let orchestrator = builder(model.clone()).store(store.clone()).build().unwrap();
    let [_, empty] = with_and_without_a_run(&orchestrator, &store).await;
    let asked = model.requests().len();
    // All attempts to store its first records succeed, but every answer is lost.
    for _ in 0..5 {
        let lost = Fault::LoseAnswer(StoreError::Unavailable("cut off".to_owned()));
        store.fail_next(StoreOperation::Commit, lost);
    }
    let refused = orchestrator.handle(ask_in(&empty, "first")).await;
    assert!(
        matches!(refused, Err(RequestError::Store(_))),
        "{refused:?}"
    );
    tokio::time::sleep(Duration::from_millis(1)).await;
    let second = orchestrator.handle(ask_in(&empty, "second")).await;
    assert_eq!(second.unwrap().reply, "ok");
    assert_eq!(model.requests().len(), asked + 1, "it went on for nobody");
    let runs = store.inner().runs(&empty).await.unwrap();
    let ends: Vec<_> = runs.iter().map(|run| run.status).collect();
    assert_eq!(ends, [RunStatus::Interrupted, RunStatus::Done]);
    let ended = orchestrator.runs().result(runs[0].run_id).await.unwrap();
    assert_eq!(ended.interruption, Some(Interruption::NoCaller));
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_in_a_new_session_is_refused_at_once_and_leaves_it_free() {
    let away = || StoreError::Unavailable("cut off".to_owned());
    for fault in [Fault::Refuse(away()), Fault::LoseAnswer(away())] {
        let store = failing_store();
        let model = ScriptedModel::always(reply::text("ok"));
        let orchestrator = builder(model).store(store.clone()).build().unwrap();
        store.fail_next(StoreOperation::BeginRun, fault.clone());
        let asked = tokio::time::Instant::now();
        let refused = orchestrator.handle(request("first")).await;
        assert!(
            matches!(refused, Err(RequestError::Store(_))),
            "{refused:?}"
        );
        assert_eq!(asked.elapsed(), Duration::ZERO, "{fault:?}");
        tokio::time::sleep(Duration::from_millis(1)).await;
        let second = orchestrator.handle(request("second")).await.unwrap();
        assert_eq!(second.reply, "ok", "{fault:?}");
        // The refused run has not continued.
        let runs = store.inner().runs(&session()).await.unwrap();
        let ends: Vec<_> = runs.iter().map(|run| run.status).collect();
        let expected: &[_] = match fault {
            Fault::LoseAnswer(_) => &[RunStatus::Interrupted, RunStatus::Done],
            _ => &[RunStatus::Done],
        };
        assert_eq!(ends, expected);
        let first = orchestrator.runs().result(runs[0].run_id).await.unwrap();
        let cause = matches!(fault, Fault::LoseAnswer(_)).then_some(Interruption::StartUnconfirmed);
        assert_eq!(first.interruption, cause);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_session_was_created_meanwhile_continues_in_it() {
    let store = failing_store();
    let model = Arc::new(ScriptedModel::always(reply::text("ok")));
    let sink = Arc::new(RecordingSink::default());
    let orchestrator = builder(model.clone())
        .store(store.clone())
        .trace_sink(sink.clone())
        .build()
        .unwrap();
    orchestrator.handle(request("first")).await.unwrap();
    let none_yet = Fault::Refuse(StoreError::NoSuchSession(session()));
    store.fail_next(StoreOperation::Session, none_yet);
    let second = orchestrator.handle(request("second")).await.unwrap();
    assert_eq!(second.reply, "ok");
    let sent = &model.requests()[1].messages;
    let said: Vec<_> = sent.messages().iter().map(|it| it.text()).collect();
    assert_eq!(said[said.len() - 3..], ["first", "ok", "second"]);
    let records = store.inner().records(second.run_id, Seq(0)).await.unwrap();
    let received = sink.records();
    let received: Vec<_> = received
        .iter()
        .filter(|it| it.run_id == second.run_id)
        .collect();
    assert_eq!(received.len(), records.len(), "each is received once");
}

#[tokio::test(start_paused = true)]
async fn a_lease_whose_confirmation_was_lost_does_not_block_its_session() {
    let store = failing_store();
    let model = ScriptedModel::always(reply::text("ok"));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    orchestrator.handle(request("before")).await.unwrap();
    let lost = Fault::LoseAnswer(StoreError::Unavailable("cut off".to_owned()));
    store.fail_next(StoreOperation::BeginRun, lost);
    let result = orchestrator.handle(request("first")).await.unwrap();
    assert_eq!(result.reply, "ok");
}

#[tokio::test]
async fn a_session_reserved_by_a_process_that_crashed_can_be_released() {
    let store = Arc::new(MemoryStore::new());
    let model = ScriptedModel::always(reply::text("ok"));
    let orchestrator = builder(model).store(store.clone()).build().unwrap();
    orchestrator.handle(request("first")).await.unwrap();
    let dead = neuraxis_testkit::CountingIds::nth_run(99);
    neuraxis_ports::RunLog::begin_run(&*store, &session(), dead)
        .await
        .unwrap();
    let Err(RequestError::Busy { run, .. }) = orchestrator.handle(request("second")).await else {
        panic!("the session is free")
    };
    orchestrator
        .runs()
        .abandon_unbegun(&session(), run)
        .await
        .unwrap();
    assert_eq!(
        orchestrator.handle(request("third")).await.unwrap().reply,
        "ok"
    );
    let begun = neuraxis_testkit::CountingIds::nth_run(1);
    let refused = orchestrator.runs().abandon_unbegun(&session(), begun).await;
    assert!(
        matches!(refused, Err(neuraxis_engine::ResumeError::AtWork(_))),
        "{refused:?}"
    );
}
