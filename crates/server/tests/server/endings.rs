//! Runs and requests that fail because of something behind the server.

use std::sync::Arc;

use neuraxis::core::{LlmError, LlmErrorKind};
use neuraxis::memory::MemoryStore;
use neuraxis::ports::{SessionIndex as _, StoreError};
use neuraxis_server::Stop;
use neuraxis_testkit::{FailingStore, Fault, Script, ScriptedModel, StoreOperation, reply};
use serde_json::json;

use crate::support::client::answer;
use crate::support::in_process::InProcess;

#[tokio::test]
async fn a_failed_run_still_has_a_result_and_a_last_event() {
    let refusal = || LlmError::new(LlmErrorKind::Unauthorized, "wrong key");
    let server = InProcess::of(ScriptedModel::new().then(refusal()).then(refusal())).await;
    let client = server.client();
    let question = json!({"message": "hello"});
    let (status, result) = client.ask("s", &question).await;
    assert_eq!((status, &result["status"]), (200, &json!("failed")));
    let reply = result["reply"].as_str().unwrap();
    assert!(reply.contains("the provider refuses the key"), "{reply}");
    let frames = client.listen("s", &question).await.rest().await;
    assert_eq!(frames.last().unwrap().event, "run_failed");
}

#[tokio::test]
async fn a_store_failure_is_a_problem_response_that_names_no_store_details() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let model = ScriptedModel::always(reply::text("42"));
    let server = InProcess::start(model, store.clone()).await;
    let client = server.client();
    let question = json!({"message": "hello"});
    // For a new session, nothing would be read.
    assert_eq!(client.ask("s", &question).await.0, 200);
    for (error, expected, kind) in [
        (
            StoreError::Unavailable("db.internal".to_owned()),
            503,
            "/errors/store-unavailable",
        ),
        (
            StoreError::Damaged("db.internal".to_owned()),
            500,
            "/errors/store-failed",
        ),
    ] {
        store.fail_next(StoreOperation::Continuation, Fault::Refuse(error));
        let (status, problem) = client.ask("s", &question).await;
        assert_eq!(
            (status, problem["type"].as_str().unwrap()),
            (expected, kind)
        );
        assert!(!problem.to_string().contains("db.internal"), "{problem}");
    }
    let (status, _) = client.ask("s", &question).await;
    assert_eq!(status, 200, "no refused request keeps the session busy");
}

#[tokio::test]
async fn cancelling_a_run_twice_is_accepted_or_reports_how_it_ended() {
    let server = InProcess::of(ScriptedModel::always(Script::hanging())).await;
    let client = server.client();
    let mut frames = client.listen("s", &json!({"message": "hello"})).await;
    let first = frames.next().await.unwrap();
    let run = first.data["run_id"].as_str().unwrap();
    let cancel = || answer(client.post(&format!("/api/v1/runs/{run}/cancel")));
    let (one, other) = tokio::join!(cancel(), cancel());
    for (status, received) in [one, other] {
        let is_told = status == 202 || received["run_status"] == "interrupted";
        assert!(is_told, "{status} {received}");
    }
}

#[tokio::test]
async fn a_stopping_server_ends_a_hundred_streams_with_their_last_record() {
    let server = InProcess::of(ScriptedModel::always(Script::hanging())).await;
    let client = server.client();
    let mut streams = Vec::new();
    for number in 0..100 {
        let session = format!("s{number}");
        streams.push(client.listen(&session, &json!({"message": "hello"})).await);
    }
    let stopping = tokio::spawn(server.stop());
    for frames in streams {
        let frames = frames.rest().await;
        let ids: Vec<u64> = frames.iter().filter_map(|frame| frame.id).collect();
        assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>());
        let last = frames.last().unwrap();
        assert_eq!(last.event, "final");
        assert_eq!(last.data["finish_reason"], "cancelled");
    }
    stopping.await.unwrap().unwrap();
}

/// With a virtual clock: the runs have five seconds and do not end.
#[tokio::test]
async fn a_draining_server_leaves_its_runs_unfinished_and_names_where_the_answer_will_be() {
    let store = Arc::new(MemoryStore::new());
    let server = InProcess::start(ScriptedModel::always(Script::hanging()), store.clone()).await;
    let client = server.client();
    let mut frames = client.listen("events", &json!({"message": "hello"})).await;
    frames.next().await.unwrap();
    let asking = tokio::spawn({
        let client = client.clone();
        async move { client.ask("json", &json!({"message": "hello"})).await }
    });
    let at_work = async || {
        let run = store.runs(&"json".parse().unwrap()).await.ok()?.pop()?;
        (run.records > 0).then_some(run.run_id)
    };
    let run = loop {
        match at_work().await {
            Some(run) => break run,
            None => tokio::task::yield_now().await,
        }
    };
    tokio::time::pause();
    server.stop_by(Stop::Drain).await.unwrap();
    let (status, problem) = asking.await.unwrap();
    assert_eq!(
        (status, &problem["type"]),
        (503, &json!("/errors/shutting-down"))
    );
    assert_eq!(problem["run_id"], run.to_string());
    // The request had no idempotency key under which it could be sent again.
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("will be in the session"), "{detail}");
    let rest = frames.rest().await;
    assert!(
        rest.iter()
            .all(|it| it.event != "cancelled" && it.event != "final"),
        "{rest:?}"
    );
    let left = store.unfinished().await.unwrap();
    assert_eq!(left.len(), 2, "anybody may take them up: {left:?}");
}

#[tokio::test]
async fn a_run_that_cannot_be_ended_does_not_keep_the_server_from_stopping() {
    let store = Arc::new(FailingStore::new(MemoryStore::new()));
    let server = InProcess::start(ScriptedModel::always(Script::hanging()), store.clone()).await;
    let mut frames = server
        .client()
        .listen("s", &json!({"message": "hello"}))
        .await;
    frames.next().await.unwrap();
    store.fail_next(StoreOperation::Commit, Fault::Hang);
    tokio::time::pause();
    assert!(
        server.stop().await.is_err(),
        "the run's end is not on record"
    );
}
