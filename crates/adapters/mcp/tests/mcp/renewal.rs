//! HTTP services that are redeployed while they are in use, and what they answer then.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_mcp::MemoryPins;
use serde_json::{Value, json};

use crate::hostile_http::method;
use crate::service::{Reply, answer, serve, usual};
use crate::support::{call, names, notices, ready, start, start_with, until};

/// Returns a refusal that does not say which request it answers.
fn refusal(message: &str) -> Reply {
    let error = json!({"code": -32000, "message": message});
    let body = json!({"jsonrpc": "2.0", "id": null, "error": error});
    Reply::of("400 Bad Request", "application/json", body)
}

#[tokio::test]
async fn an_error_without_a_request_id_answers_the_request_it_arrived_for() {
    for refused in ["tools/list", "tools/call"] {
        let service = serve(move |asked| match method(asked) == refused {
            true => refusal("no tenant is named"),
            false => usual(asked),
        })
        .await;
        let server = start(service.config());
        let failing = async {
            match server.ready().await {
                Ok(()) => {
                    let refused = call(&server, "shop__look", "{}").await;
                    refused.unwrap_err().message
                }
                Err(why) => why,
            }
        };
        let why = tokio::time::timeout(Duration::from_secs(20), failing).await;
        let why = why.expect("nobody ends the request");
        assert!(why.contains("no tenant is named (code -32000)"), "{why}");
    }
}

#[tokio::test]
async fn an_accepted_call_without_an_answer_fails_immediately() {
    let service = serve(|asked| match method(asked) {
        "tools/call" => Reply::of("202 Accepted", "text/plain", ""),
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    let called = call(&server, "shop__look", "{}");
    let called = tokio::time::timeout(Duration::from_secs(20), called).await;
    let error = called.expect("nobody ends the call").unwrap_err();
    let told = &error.message;
    assert!(
        told.ends_with("unknown whether the call took effect"),
        "{told}"
    );
}

#[tokio::test]
async fn an_expired_session_is_renewed_and_its_tools_are_listed_again() {
    let is_lost = Arc::new(AtomicBool::new(false));
    let (loses, sessions) = (Arc::clone(&is_lost), AtomicUsize::new(0));
    let service = serve(move |asked: &Value| match method(asked) {
        "server/discover" => usual(asked),
        "initialize" => {
            loses.store(false, Ordering::Relaxed);
            sessions.fetch_add(1, Ordering::Relaxed);
            Reply {
                // After the content type comes the header that names a protocol session.
                content_type: "application/json\r\nmcp-session-id: one",
                ..usual(asked)
            }
        }
        _ if loses.load(Ordering::Relaxed) => refusal("Bad Request: No valid session ID provided"),
        "tools/list" if sessions.load(Ordering::Relaxed) > 1 => {
            let schema = json!({"type": "object"});
            let tools = ["look", "more"].map(|it| json!({"name": it, "inputSchema": schema}));
            answer(asked, &json!({"tools": tools}))
        }
        _ => usual(asked),
    })
    .await;
    let server = ready(service.config()).await;
    assert_eq!(names(&server), ["shop__look"]);
    is_lost.store(true, Ordering::Relaxed);
    let called = call(&server, "shop__look", "{}");
    let called = tokio::time::timeout(Duration::from_secs(20), called).await;
    let output = called.expect("nobody ends the call").unwrap();
    assert_eq!(output.value.as_text(), "fine");
    until("the new tools are asked for", || {
        names(&server).contains(&"shop__more".to_owned())
    })
    .await;
}

#[tokio::test]
async fn a_service_that_stops_accepting_its_token_is_reported_and_reconnected() {
    // After the content type comes the header that requests a token, which not all services send.
    for head in ["text/plain\r\nwww-authenticate: Bearer", "text/plain"] {
        let refuses = Arc::new(AtomicBool::new(false));
        let refusing = Arc::clone(&refuses);
        let service = serve(move |asked| match refusing.load(Ordering::Relaxed) {
            true => Reply::of("401 Unauthorized", head, ""),
            false => usual(asked),
        })
        .await;
        let server = ready(service.config()).await;
        refuses.store(true, Ordering::Relaxed);
        call(&server, "shop__look", "{}").await.unwrap_err();
        until("it is told of", || {
            notices(&server).contains("the connection to MCP server shop was lost")
        })
        .await;
        refuses.store(false, Ordering::Relaxed);
        until("it is back", || server.report().trouble.is_none()).await;
        let after = call(&server, "shop__look", "{}").await.unwrap();
        assert_eq!(after.value.as_text(), "fine");
    }
}

#[tokio::test]
async fn accepting_the_tools_of_a_redeployed_service_reaches_other_clients() {
    let is_new = Arc::new(AtomicBool::new(false));
    let renewed = Arc::clone(&is_new);
    let service = serve(move |asked| match method(asked) {
        "tools/list" if renewed.load(Ordering::Relaxed) => {
            let tool = json!({"name": "look", "description": "Looks.", "inputSchema": {}});
            let more = json!({"name": "more", "inputSchema": {}});
            answer(asked, &json!({"tools": [tool, more]}))
        }
        _ => usual(asked),
    })
    .await;
    let pins: Arc<MemoryPins> = Arc::default();
    let started = async || {
        let server = start_with(service.config(), pins.clone());
        server.ready().await.unwrap();
        server
    };
    let at_work = started().await;
    is_new.store(true, Ordering::Relaxed);
    let other = started().await;
    assert!(names(&other).is_empty());
    other.accept().unwrap();
    until("they are offered", || names(&at_work).len() == 2).await;
}
