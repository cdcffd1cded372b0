//! Waiting for a server that was just started.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_core::LlmErrorKind;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};

use crate::client;

const LOADING: &str =
    r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#;

fn loading() -> Answer {
    Answer::whole(503, "content-type: application/json", LOADING).then(Act::Close)
}

#[tokio::test]
async fn a_loading_server_is_waited_for() {
    let asked = AtomicUsize::new(0);
    let server = Loopback::start(move |_| match asked.fetch_add(1, Ordering::SeqCst) {
        0 => Answer::nothing().then(Act::Reset),
        1 | 2 => loading(),
        _ => Answer::json(r#"{"status":"ok"}"#),
    })
    .await;
    let client = client(&server);
    client
        .wait_until_ready(Duration::from_secs(60))
        .await
        .unwrap();
    let seen = server.seen();
    assert_eq!(seen.len(), 4);
    assert_eq!(seen[0].line, "GET /health");
    assert_eq!(server.connections(), 4);
}

#[tokio::test]
async fn waiting_for_a_loading_server_is_limited() {
    let server = Loopback::start(|_| loading()).await;
    let patience = Duration::from_millis(120);
    let error = client(&server)
        .wait_until_ready(patience)
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Loading);
}

#[tokio::test]
async fn a_permanent_error_is_not_waited_for() {
    let server = Loopback::start(|_| Answer::whole(401, "x: y", "no")).await;
    let error = client(&server)
        .wait_until_ready(Duration::MAX)
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Unauthorized);
    assert_eq!(server.seen()[0].headers.matches("authorization").count(), 0);
}
