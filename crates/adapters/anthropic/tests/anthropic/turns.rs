//! What is carried from turn to turn.

use neuraxis_anthropic::AnthropicClient;
use neuraxis_core::{
    AssistantMessage, JsonText, LlmErrorKind, Message, ModelRef, ModelRequest, Part, ReasoningPart,
    ReplyFormat,
};
use neuraxis_testkit::asking::message_of;
use neuraxis_testkit::loopback::{Answer, Loopback, Seen};
use neuraxis_testkit::{messages, request_of, spec};
use serde_json::{Value, json};

use crate::shapes::{answer, answer_with, call, content, message, redacted, text, thinking};
use crate::{body, client, config, json, respond, stream};

/// A request that follows a reply with two calls, one of which failed.
async fn after_calls(client: &AnthropicClient) -> ModelRequest {
    let mut request = request_of([Message::system("s"), Message::user("two calls")]);
    request.tools = [spec("look").build()].into();
    let reply = stream(client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    let results = [
        ("loop-1", "\"blue\""),
        ("loop-2", r#"{"error":"no \"sky\""}"#),
    ];
    for (id, value) in results {
        request.messages.push(messages::result(id, "look", value));
    }
    request
}

#[tokio::test]
async fn thinking_is_returned_unchanged_and_results_share_one_message() {
    let server = Loopback::start(answer).await;
    let client = client(&server);
    let mut request = after_calls(&client).await;
    request
        .messages
        .push(Message::system("This is the last turn."));
    request.messages.push(Message::user("And now?"));
    stream(&client, &request).await.unwrap();
    let seen = server.seen();
    let body = json(&seen[1]);
    let turns = body["messages"].as_array().unwrap();
    assert_eq!(turns.len(), 3);
    let mut expected = content(true).0;
    for call in &mut expected {
        call.as_object_mut().unwrap().remove("caller");
    }
    assert_eq!(turns[1], json!({"role": "assistant", "content": expected}));
    for sealed in [thinking("Let me look."), redacted()] {
        assert!(seen[1].body.contains(&sealed.to_string()), "{sealed}");
    }
    let mut results = turns[2]["content"].clone();
    results[3].as_object_mut().unwrap().remove("cache_control");
    assert_eq!(
        results,
        json!([
            {"type": "tool_result", "tool_use_id": "toolu_01", "content": "blue"},
            {"type": "tool_result", "tool_use_id": "toolu_02", "content": r#"{"error":"no \"sky\""}"#,
                "is_error": true},
            text("[System message] This is the last turn."),
            text("And now?"),
        ])
    );
}

#[tokio::test]
async fn a_stored_reply_is_the_same_streamed_or_whole() {
    let server = Loopback::start(answer).await;
    let client = client(&server);
    let request = request_of([Message::user("two calls")]);
    let streamed = message_of(stream(&client, &request).await.unwrap());
    let whole = message_of(respond(&client, &request).await.unwrap());
    assert_eq!(streamed, whole);
}

#[tokio::test]
async fn thinking_is_not_sent_to_another_model() {
    let server = Loopback::start(answer).await;
    let request = after_calls(&client(&server)).await;
    let mut other = config(&server);
    other.model = "claude-opus-5".to_owned();
    respond(&AnthropicClient::new(other).unwrap(), &request)
        .await
        .unwrap();
    let seen = server.seen();
    for secret in ["sealed", "EmwKAhg", "Let me look."] {
        assert!(
            seen[0].body.is_empty() || !seen[1].body.contains(secret),
            "{secret}"
        );
    }
    assert!(seen[1].body.contains(r#""id":"toolu_01""#), "calls stay");
    assert!(seen[1].body.contains("I look."), "text stays");
}

#[tokio::test]
async fn replies_of_another_provider_are_sent_without_its_ids_and_signatures() {
    let foreign = ReasoningPart {
        text: "A secret thought.".to_owned(),
        signature: Some("theirs".to_owned()),
        state: Some(neuraxis_core::ProviderState::from_text(
            r#"{"provider":"anthropic","model":"claude-opus-4-8"}"#,
        )),
        ..ReasoningPart::default()
    };
    let mut calls = messages::calls([("run:1/äö", "a tool!", "not json"), ("b2", "look", "[1]")]);
    if let Message::Assistant(message) = &mut calls {
        message.parts.insert(0, Part::Reasoning(foreign));
        message.model = Some(ModelRef::new("openai", "gpt-5.4"));
        for part in &mut message.parts {
            if let Part::ToolCall(call) = part {
                call.provider_id = Some("fc|1".into());
            }
        }
    }
    let request = request_of([
        Message::user("hi"),
        calls,
        messages::result("run:1/äö", "a tool!", ""),
        messages::result("b2", "look", "2"),
    ]);
    let body = body(&request, |_| {}).await;
    let calls = &body["messages"][1]["content"];
    assert_eq!(calls.as_array().unwrap().len(), 2, "{calls}");
    let id = calls[0]["id"].as_str().unwrap();
    assert!(id.starts_with("call_") && id.len() == 37, "{id}");
    assert_eq!(calls[0]["name"], "a_tool_");
    assert_eq!(calls[0]["input"], json!({"invalid_arguments": "not json"}));
    assert_eq!(calls[1]["id"], "b2");
    assert_eq!(calls[1]["input"], json!({"invalid_arguments": "[1]"}));
    let results = &body["messages"][2]["content"];
    assert_eq!(results[0]["tool_use_id"], id);
    assert_eq!(results[0]["content"], "(no output)");
    assert_eq!(results[1]["tool_use_id"], "b2");
}

#[tokio::test]
async fn thinking_without_a_signature_is_not_sent_back() {
    let unsigned = json!({"type": "thinking", "thinking": "Hm.", "signature": ""});
    let reply = message(&[unsigned, text("a")], "end_turn");
    let server = Loopback::start(move |seen| answer_with(&reply, seen)).await;
    let client = client(&server);
    let mut request = request_of([Message::user("hi")]);
    let reply = stream(&client, &request).await.unwrap();
    assert_eq!(reply.reasoning(), "Hm.");
    request.messages.push(message_of(reply));
    request.messages.push(Message::user("go on"));
    respond(&client, &request).await.unwrap();
    let turn = &json(&server.seen()[1])["messages"][1];
    assert_eq!(turn["content"], json!([text("a")]));
}

#[tokio::test]
async fn unsigned_thinking_of_a_gateway_model_is_sent_back_to_it() {
    let unsigned = json!({"type": "thinking", "thinking": "Hm.", "signature": ""});
    let reply = message(&[unsigned.clone(), call(1, &json!({}))], "tool_use");
    let server = Loopback::start(move |seen| answer_with(&reply, seen)).await;
    let mut config = config(&server);
    config.model = "kimi-k3".to_owned();
    let client = AnthropicClient::new(config).unwrap();
    let mut request = request_of([Message::user("hi")]);
    let reply = stream(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request
        .messages
        .push(messages::result("loop-1", "look", "1"));
    respond(&client, &request).await.unwrap();
    let turn = &json(&server.seen()[1])["messages"][1];
    assert_eq!(turn["content"][0], unsigned);
}

#[tokio::test]
async fn thinking_bound_to_request_specific_text_is_not_sent_back() {
    for (model, expected) in [("claude-opus-5-5", false), ("claude-opus-4-8", true)] {
        let (content, stop) = content(true);
        let reply = message(&content, stop);
        let server = Loopback::start(move |seen| answer_with(&reply, seen)).await;
        let mut config = config(&server);
        config.model = model.to_owned();
        let client = AnthropicClient::new(config).unwrap();
        let mut request = request_of([Message::user("hi")]);
        request.reply_format = ReplyFormat::JsonSchema {
            name: "age".into(),
            schema: JsonText::from_text(
                r#"{"type":"object","properties":{"x":{"type":"integer","minimum":1}},"required":["x"]}"#,
            ),
        };
        let reply = stream(&client, &request).await.unwrap();
        assert_eq!(
            reply.reasoning(),
            "Let me look.",
            "it is shown all the same"
        );
        request.messages.push(message_of(reply));
        for id in ["loop-1", "loop-2"] {
            request.messages.push(messages::result(id, "look", "1"));
        }
        respond(&client, &request).await.unwrap();
        let body = json(&server.seen()[1])["messages"].to_string();
        for sealed in ["signature", "redacted_thinking"] {
            assert_eq!(body.contains(sealed), expected, "{model}: {body}");
        }
    }
}

/// A turn of Sonnet 4.5 with a call and the preceding thinking.
fn turn_with_call(id: &str, thoughts: &[&str]) -> Message {
    let mut turn = messages::calls([(id, "look", "{}")]);
    if let Message::Assistant(message) = &mut turn {
        let state = r#"{"provider":"anthropic","model":"claude-sonnet-4-5"}"#;
        let thoughts = thoughts.iter().map(|text| {
            Part::Reasoning(ReasoningPart {
                text: (*text).to_owned(),
                signature: Some("sealed".to_owned()),
                state: Some(neuraxis_core::ProviderState::from_text(state)),
                ..ReasoningPart::default()
            })
        });
        message.parts.splice(0..0, thoughts);
        message.model = Some(ModelRef::new("anthropic", "claude-sonnet-4-5"));
    }
    turn
}

#[tokio::test]
async fn budgeted_thinking_is_disabled_for_results_of_calls_made_without_thinking() {
    let result = |id| messages::result(id, "look", "1");
    let forced = || vec![Message::user("a"), turn_with_call("c1", &[]), result("c1")];
    let thought = || {
        let turn = turn_with_call("c1", &["Hm."]);
        vec![Message::user("a"), turn, result("c1")]
    };
    for (before, after, expected) in [
        (forced(), vec![], "disabled"),
        (forced(), vec![Message::user("b")], "disabled"),
        (forced(), vec![Message::system("s")], "disabled"),
        (
            forced(),
            vec![turn_with_call("c2", &[]), result("c2")],
            "disabled",
        ),
        (
            forced(),
            vec![Message::assistant("b"), Message::user("c")],
            "enabled",
        ),
        (thought(), vec![], "enabled"),
        // A model that does not think between calls thought about them at the beginning.
        (
            thought(),
            vec![turn_with_call("c2", &[]), result("c2")],
            "enabled",
        ),
        (
            thought(),
            vec![Message::user("b"), turn_with_call("c2", &[]), result("c2")],
            "disabled",
        ),
    ] {
        let request = request_of(before.into_iter().chain(after));
        let body = body(&request, |config| {
            config.model = "claude-sonnet-4-5".to_owned();
            config.thinking_budget = Some(2_048);
        })
        .await;
        assert_eq!(body["thinking"]["type"], expected, "{}", body["messages"]);
    }
}

#[tokio::test]
async fn thinking_is_disabled_once_the_service_rejects_a_turn_without_it() {
    let said = json!({"error": {"type": "invalid_request_error", "message":
        "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`"}});
    let said = said.to_string();
    let server = Loopback::start(
        move |seen| match seen.body.contains(r#""type":"enabled""#) {
            false => answer(seen),
            true => Answer::whole(400, "content-type: application/json", &said),
        },
    )
    .await;
    let mut config = config(&server);
    config.model = "claude-sonnet-4-5".to_owned();
    config.thinking_budget = Some(2_048);
    let client = AnthropicClient::new(config).unwrap();
    let request = request_of([
        Message::user("a"),
        turn_with_call("c1", &["Hm."]),
        messages::result("c1", "look", "1"),
    ]);
    for asked in [2, 3] {
        respond(&client, &request).await.unwrap();
        assert_eq!(server.seen().len(), asked);
    }
}

#[tokio::test]
async fn an_unknown_block_is_sent_back_unchanged() {
    let hologram = json!({"type": "hologram", "depth": 3, "data": {"a": [1, "é"]}});
    let reply = message(&[hologram.clone(), call(1, &json!({}))], "tool_use");
    let server = Loopback::start(move |seen| answer_with(&reply, seen)).await;
    let client = client(&server);
    let mut request = request_of([Message::user("hi")]);
    let reply = stream(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request
        .messages
        .push(messages::result("loop-1", "look", "1"));
    respond(&client, &request).await.unwrap();
    let body = json(&server.seen()[1]);
    assert_eq!(body["messages"][1]["content"][0], hologram);
}

#[tokio::test]
async fn adjacent_messages_of_one_role_are_merged_and_empty_content_is_not_sent() {
    let nothing = Message::Assistant(AssistantMessage {
        parts: vec![Part::text(" \n")],
        model: None,
    });
    let request = request_of([
        Message::system("One."),
        Message::system(""),
        Message::system("Two."),
        Message::user("a"),
        Message::user(""),
        nothing,
        Message::assistant("b"),
        Message::system(" "),
        Message::user("c"),
    ]);
    let body = body(&request, |config| {
        config.cache = neuraxis_anthropic::Cache::Off;
    })
    .await;
    assert_eq!(body["system"], json!([text("One."), text("Two.")]));
    assert_eq!(
        body["messages"],
        json!([
            {"role": "user", "content": [text("a"), text("(nothing)")]},
            {"role": "assistant", "content": [text("(no answer)"), text("b")]},
            {"role": "user", "content": [text("c")]},
        ])
    );
}

#[tokio::test]
async fn the_last_message_is_always_the_users() {
    for messages in [
        vec![Message::user("a"), Message::assistant("b")],
        vec![Message::system("Only this.")],
        vec![Message::assistant("b")],
        vec![],
    ] {
        let body = body(&request_of(messages), |_| {}).await;
        let last = body["messages"].as_array().unwrap().last().unwrap();
        assert_eq!(
            *last,
            json!({"role": "user", "content": [text("Please continue.")]})
        );
    }
}

/// Refuses every request that contains thinking.
fn refusing(seen: &Seen) -> Answer {
    if !seen.body.contains("signature") {
        return answer(seen);
    }
    let said = "messages.1.content.0: Invalid `signature` in `thinking` block: it is bound to a different conversation";
    let error =
        json!({"type": "error", "error": {"type": "invalid_request_error", "message": said}});
    Answer::whole(400, "content-type: application/json", &error.to_string())
}

#[tokio::test]
async fn thinking_that_the_service_refuses_is_left_out_from_then_on() {
    let server = Loopback::start(refusing).await;
    let client = client(&server);
    let mut request = after_calls(&client).await;
    let reply = stream(&client, &request).await.unwrap();
    let body = json(&server.seen()[2]);
    let kinds: Vec<&Value> = body["messages"][1]["content"]
        .as_array()
        .unwrap()
        .iter()
        .map(|block| &block["type"])
        .collect();
    assert_eq!(kinds, ["text", "tool_use", "tool_use"]);
    // Later thinking is sent back again, and refused again.
    request.messages.push(message_of(reply));
    request.messages.push(Message::user("two calls"));
    let reply = stream(&client, &request).await.unwrap();
    request.messages.push(message_of(reply));
    request.messages.push(Message::user("go on"));
    respond(&client, &request).await.unwrap();
    assert_eq!(server.seen().len(), 6);
}

#[tokio::test]
async fn a_refusal_that_persists_without_thinking_is_returned_as_an_error() {
    let said = json!({"error": {"type": "invalid_request_error", "message": "Invalid signature"}});
    let said = said.to_string();
    let server = Loopback::start(move |seen| match seen.body.contains("go on") {
        false => answer(seen),
        true => Answer::whole(400, "content-type: application/json", &said),
    })
    .await;
    let client = client(&server);
    let mut request = after_calls(&client).await;
    request.messages.push(Message::user("go on"));
    let error = respond(&client, &request).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::BadRequest);
    assert_eq!(server.seen().len(), 3);
}
