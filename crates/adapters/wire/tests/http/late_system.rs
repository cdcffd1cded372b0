//! Servers whose chat template takes system messages at the beginning only, and wants user and assistant to take turns.

use std::sync::Arc;

use neuraxis_core::{JsonText, LlmErrorKind, Message, ModelRequest, ReplyFormat};
use neuraxis_testkit::{call_context, request_of};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, LateSystem, ReplyForm};

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

/// A client that learns what its server refuses.
fn learning(server: &Loopback) -> ChatClient {
    let config = EndpointConfig::new(server.url());
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let mut dialect = Dialect::standard("test");
    dialect.late_system = LateSystem::Auto;
    let route = endpoint.route("v1/chat/completions");
    ChatClient::new(endpoint, route, "m", dialect)
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
    let client = learning(&server);
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
async fn a_schema_that_the_model_is_told_is_moved_as_well_once_it_is_refused_behind_others() {
    let server = Loopback::start(|seen| strict(&seen.body)).await;
    let config = EndpointConfig::new(server.url());
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let mut dialect = Dialect::standard("test");
    dialect.late_system = LateSystem::Auto;
    dialect.reply_form = ReplyForm::Ignored;
    let route = endpoint.route("v1/chat/completions");
    let client = ChatClient::new(endpoint, route, "m", dialect);
    let mut request = request_of([Message::system("first"), Message::user("hi")]);
    request.reply_format = ReplyFormat::JsonSchema {
        name: "answer".into(),
        schema: JsonText::from_text(r#"{"type":"object"}"#),
    };
    let error = promptly(client.respond(&request, &call_context())).await;
    assert!(error.unwrap_err().is_retryable());
    let reply = promptly(client.respond(&request, &call_context())).await;
    assert_eq!(reply.unwrap().text(), "Héllo 🦀");
}

/// A server whose template wants roles to alternate, as those of several families of models do.
fn alternating(body: &str) -> Answer {
    const REFUSAL: &str = r#"{"error":{"code":400,"message":"Unable to generate parser for this template. Conversation roles must alternate user/assistant/user/assistant/...","type":"invalid_request_error"}}"#;
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let messages = body["messages"].as_array().unwrap().iter();
    let roles: Vec<_> = messages.map(|message| &message["role"]).collect();
    let mut asked = roles.iter().filter(|role| **role != "system");
    let alternates = asked.by_ref().enumerate().all(|(place, role)| {
        let expected = ["user", "assistant"][place % 2];
        *role == expected
    });
    match alternates {
        true => Answer::json(WHOLE),
        false => Answer::whole(400, "content-type: application/json", REFUSAL),
    }
}

#[tokio::test]
async fn a_request_after_one_without_an_answer_is_sent_with_roles_that_alternate_by_the_next_attempt()
 {
    let server = Loopback::start(|seen| alternating(&seen.body)).await;
    let client = learning(&server);
    let request = request_of([
        Message::system("first"),
        Message::user("one"),
        Message::user("two"),
        Message::assistant("2"),
        Message::user("three"),
    ]);
    let error = promptly(client.respond(&request, &call_context()))
        .await
        .unwrap_err();
    assert!(error.is_retryable(), "{error}");
    assert!(error.message.contains("take turns"), "{error}");
    for _ in 0..2 {
        let reply = promptly(client.respond(&request, &call_context())).await;
        assert_eq!(reply.unwrap().text(), "Héllo 🦀");
    }
    let sent = &server.seen()[1].body;
    let between = r#"{"role":"user","content":"one"},{"role":"assistant","content":"(no answer)"},{"role":"user","content":"two"}"#;
    assert!(sent.contains(between), "{sent}");
    assert_eq!(sent.matches("(no answer)").count(), 1, "{sent}");
}

#[tokio::test]
async fn a_refusal_of_roles_that_alternate_already_is_told_as_it_is() {
    let server = Loopback::start(|_| {
        let refusal = r#"{"error":{"code":400,"message":"roles must alternate"}}"#;
        Answer::whole(400, "content-type: application/json", refusal)
    })
    .await;
    let asked = request_of([Message::system("first"), Message::user("one")]);
    let error = promptly(learning(&server).respond(&asked, &call_context())).await;
    assert_eq!(error.unwrap_err().kind, LlmErrorKind::BadRequest);
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
