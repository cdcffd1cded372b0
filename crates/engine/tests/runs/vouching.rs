//! An engine that checks that a session is unaltered before anything continues from it.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{RunId, RunStatus};
use neuraxis_engine::{Orchestrator, RequestError, ResumeError, UuidV7};
use neuraxis_ports::{SessionIndex as _, StoreError};
use neuraxis_testkit::{Fault, Script, ScriptedModel, StoreOperation, reply};

use crate::support::{Store, builder, failing_store, request, run_to_end, session};

fn engine(store: &Arc<Store>, model: ScriptedModel) -> Orchestrator {
    let builder = builder(model).store(store.clone()).ids(Arc::new(UuidV7));
    builder.verify_sessions().build().unwrap()
}

fn answering() -> ScriptedModel {
    ScriptedModel::always(reply::text("42"))
}

fn times(store: &Arc<Store>, operation: StoreOperation) -> usize {
    let calls = store.calls().into_iter();
    calls.filter(|call| *call == operation).count()
}

/// Returns how often anything was written.
fn writes(store: &Arc<Store>) -> usize {
    const WRITING: [StoreOperation; 7] = [
        StoreOperation::CreateSession,
        StoreOperation::BeginRun,
        StoreOperation::AbandonRun,
        StoreOperation::Commit,
        StoreOperation::Release,
        StoreOperation::Post,
        StoreOperation::Settle,
    ];
    WRITING.iter().map(|it| times(store, *it)).sum()
}

fn altered() -> Fault {
    Fault::Refuse(StoreError::Damaged("record 3".to_owned()))
}

#[tokio::test(start_paused = true)]
async fn an_existing_session_is_verified_before_a_request_and_again_after_a_while() {
    let store = failing_store();
    let orchestrator = engine(&store, answering());
    let mut looked = 0;
    // A new session has nothing to check yet.
    for (wait, looks) in [(0, 0), (0, 1), (0, 0), (290, 0), (400, 1), (0, 0), (601, 1)] {
        tokio::time::advance(Duration::from_secs(wait)).await;
        run_to_end(&orchestrator, request("go")).await;
        looked += looks;
        assert_eq!(
            times(&store, StoreOperation::Verify),
            looked,
            "after {wait} more seconds"
        );
    }
    for _ in 0..2 {
        let other = request("go");
        let other = neuraxis_engine::UserRequest::new("t".parse().unwrap(), other.message);
        run_to_end(&orchestrator, other).await;
    }
    assert_eq!(
        times(&store, StoreOperation::Verify),
        looked + 1,
        "each on its own"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_in_an_altered_session_is_refused_and_nothing_is_written() {
    let store = failing_store();
    let orchestrator = engine(&store, answering());
    run_to_end(&orchestrator, request("go")).await;
    let written = writes(&store);
    store.fail_next(StoreOperation::Verify, altered());
    for key in [None, Some("k")] {
        let mut request = request("go");
        request.idempotency_key = key.map(|key| key.parse().unwrap());
        let error = orchestrator.stream(request).await.unwrap_err();
        let RequestError::Altered { session, why } = error else {
            panic!("{error}");
        };
        assert_eq!(
            (session, why.as_str()),
            (crate::support::session(), "record 3")
        );
    }
    assert_eq!(writes(&store), written);
    // One check: no caller can make it read the log repeatedly.
    assert_eq!(times(&store, StoreOperation::Verify), 1);
    tokio::time::advance(Duration::from_secs(61)).await;
    let finished = run_to_end(&orchestrator, request("go")).await;
    assert_eq!(
        finished.result.status,
        RunStatus::Done,
        "it is looked at again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_session_deleted_during_its_verification_is_missing_and_not_altered() {
    let store = failing_store();
    let orchestrator = engine(&store, answering());
    run_to_end(&orchestrator, request("go")).await;
    let late = Fault::AnswerLate(Duration::from_secs(1));
    store.fail_next(StoreOperation::Session, late);
    store.fail_next(StoreOperation::Verify, altered());
    let deleting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        store.inner().delete_session(&session()).await.unwrap();
    };
    let (refused, ()) = tokio::join!(orchestrator.stream(request("go")), deleting);
    let gone = StoreError::NoSuchSession(session());
    assert!(matches!(refused, Err(RequestError::Store(error)) if error == gone));
}

#[tokio::test(start_paused = true)]
async fn no_request_is_accepted_when_the_store_cannot_verify_its_session() {
    let store = failing_store();
    let orchestrator = engine(&store, answering());
    run_to_end(&orchestrator, request("go")).await;
    let away = StoreError::Unavailable("away".to_owned());
    store.fail_next(StoreOperation::Verify, Fault::Refuse(away.clone()));
    let error = orchestrator.stream(request("go")).await.unwrap_err();
    assert!(matches!(error, RequestError::Store(error) if error == away));
}

/// Leaves a run to the next engine in the middle of its model call.
async fn left_behind(store: &Arc<Store>) -> RunId {
    let dead = engine(store, ScriptedModel::always(Script::hanging()));
    let (handle, _) = dead.stream(request("go")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    let run = handle.run_id();
    assert_eq!(dead.suspend(Duration::ZERO).await, [run]);
    run
}

#[tokio::test(start_paused = true)]
async fn a_run_of_an_altered_session_is_not_resumed_and_stays_unchanged() {
    let store = failing_store();
    let run = left_behind(&store).await;
    let next = engine(&store, answering());
    let written = writes(&store);
    store.fail_next(StoreOperation::Verify, altered());
    let error = next.runs().resume(run, Vec::new()).await.unwrap_err();
    assert!(
        matches!(&error, ResumeError::Altered { session, .. } if *session == crate::support::session()),
        "{error}"
    );
    let left = next.runs().recover().await.unwrap().left;
    assert!(
        matches!(left.as_slice(), [(left, ResumeError::Altered { .. })] if *left == run),
        "{left:?}"
    );
    assert_eq!(writes(&store), written);
    tokio::time::advance(Duration::from_secs(61)).await;
    let handle = next.runs().resume(run, Vec::new()).await.unwrap();
    assert_eq!(handle.result().await.unwrap().status, RunStatus::Done);
}

#[tokio::test(start_paused = true)]
async fn input_to_a_run_of_an_altered_session_is_refused_and_not_stored() {
    let store = failing_store();
    let run = left_behind(&store).await;
    let next = engine(&store, answering());
    let written = writes(&store);
    store.fail_next(StoreOperation::Verify, altered());
    let cancelled = next.runs().cancel(run, "enough").await;
    assert!(
        matches!(&cancelled, Err(ResumeError::Altered { .. })),
        "nobody would end it: {cancelled:?}"
    );
    let steered = next.runs().steer(run, "and more").await;
    assert!(
        matches!(&steered, Err(ResumeError::Altered { .. })),
        "{steered:?}"
    );
    assert_eq!(writes(&store), written);
}

#[tokio::test(start_paused = true)]
async fn an_engine_verifies_sessions_only_when_configured_to() {
    let store = failing_store();
    let orchestrator = builder(answering()).store(store.clone()).build().unwrap();
    run_to_end(&orchestrator, request("go")).await;
    run_to_end(&orchestrator, request("go")).await;
    assert_eq!(times(&store, StoreOperation::Verify), 0);
    assert!(store.verify(&session(), None).await.is_ok());
}
