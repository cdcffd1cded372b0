//! Servers whose chat template takes system messages at the beginning only.

use std::sync::Arc;

use neuraxis_core::{LlmErrorKind, Message, ModelRequest};
use neuraxis_testkit::{call_context, request_of};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, LateSystem};

use crate::loopback::{Answer, Loopback};
use crate::{WHOLE, client, promptly};

/// A server whose template refuses late system messages, like that of many models.
fn strict(body: &str) -> Answer {
    const REFUSAL: &str = r#"{"error":{"code":500,"message":"Jinja Exception: System message must be at the beginning.","type":"server_error"}}"#;
    if body.matches(r#""role":"system""#).count() > 1 {
        Answer::whole(500, "content-type: application/json", REFUSAL)
    } else {
        Answer::json(WHOLE)
    }
}

fn late_system() -> ModelRequest {
    request_of([
        Message::system("first"),
        Message::user("hi"),
        Message::system("late"),
    ])
}

#[tokio::test]
async fn a_refused_late_system_message_is_sent_as_a_user_message_by_the_next_attempt() {
    let server = Loopback::start(|seen| strict(&seen.body)).await;
    let config = EndpointConfig::new(server.url());
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let mut dialect = Dialect::standard("test");
    dialect.late_system = LateSystem::Auto;
    let route = endpoint.route("v1/chat/completions");
    let client = ChatClient::new(endpoint, route, "m", dialect);
    let error = promptly(client.respond(&late_system(), &call_context()))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.message.contains("sent as a user message"), "{error}");
    let reply = promptly(client.respond(&late_system(), &call_context())).await;
    assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    assert!(server.seen()[1].body.contains("[System message] late"));
}

#[tokio::test]
async fn other_refusals_are_not_taken_for_that_one() {
    let server = Loopback::start(|_| Answer::whole(500, "x: y", "out of memory")).await;
    let error = promptly(client(&server).respond(&late_system(), &call_context()))
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::server(Some(500)));
    assert!(error.message.starts_with("out of memory"), "{error}");
}
