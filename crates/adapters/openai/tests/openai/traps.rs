//! The pitfalls of these protocols, one per test.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, Message, ModelRequest, ReplyFinish, TokenCount};
use neuraxis_openai::{Api, LateSystem, OpenAiClient, ReasoningEffort};
use neuraxis_testkit::loopback::{Answer, Loopback, Seen};
use neuraxis_testkit::{messages, request, request_of, spec};
use serde_json::{Value, json};

use crate::shapes::{
    answer, answer_with, call_item, chat_stream, chat_usage, chunk, chunks, is_streamed,
    message_item, named_events, pieces, response, streamed, usage_chunk,
};
use crate::{APIS, both, client, config, respond, stream};

fn with_tools() -> ModelRequest {
    let mut request = request("hello");
    request.tools = [spec("look").build()].into();
    request
}

/// Returns a Chat Completions client of a model that accepts tools there only while it does not reason.
fn newest(server: &Loopback, effort: Option<ReasoningEffort>) -> OpenAiClient {
    let mut config = config(server, Api::Chat);
    config.model = "gpt-5.6".to_owned();
    config.reasoning_effort = effort;
    OpenAiClient::new(config).unwrap()
}

#[tokio::test]
async fn a_refused_late_system_message_is_sent_as_a_user_message() {
    let strict = |seen: &Seen| {
        const REFUSAL: &str = r#"{"error":{"message":"System message must be at the beginning.","type":"BadRequestError","param":null,"code":400}}"#;
        match seen.body.matches(r#""role":"system""#).count() {
            0 | 1 => answer(seen),
            _ => Answer::whole(400, "content-type: application/json", REFUSAL),
        }
    };
    let late = request_of([
        Message::system("first"),
        Message::user("hello"),
        messages::calls([("c1", "look", "{}")]),
        messages::result("c1", "look", "1"),
        Message::system("Sum it up."),
    ]);
    for (late_system, asked) in [
        (None, 2),
        (Some(LateSystem::Auto), 2),
        (Some(LateSystem::User), 1),
        (Some(LateSystem::System), 1),
    ] {
        let server = Loopback::start(strict).await;
        let mut config = config(&server, Api::Chat);
        config.model = "qwen3.5".to_owned();
        config.late_system = late_system;
        let client = OpenAiClient::new(config).unwrap();
        match respond(&client, &late).await {
            Ok(_) => assert_ne!(late_system, Some(LateSystem::System)),
            Err(error) => {
                assert_eq!(late_system, Some(LateSystem::System), "{error}");
                assert!(!error.is_retryable(), "{error}");
            }
        }
        assert_eq!(server.seen().len(), asked, "{late_system:?}");
    }
}

#[tokio::test]
async fn the_newest_models_do_not_reason_with_tools_on_chat_completions() {
    let server = Loopback::start(answer).await;
    let client = newest(&server, None);
    respond(&client, &with_tools()).await.unwrap();
    respond(&client, &request("hello")).await.unwrap();
    let seen = server.seen();
    assert!(
        seen[0].body.contains(r#""reasoning_effort":"none""#),
        "{}",
        seen[0].body
    );
    assert!(
        !seen[1].body.contains("reasoning_effort"),
        "{}",
        seen[1].body
    );
}

#[tokio::test]
async fn tools_with_reasoning_on_chat_completions_are_refused_without_sending() {
    let server = Loopback::start(answer).await;
    let client = newest(&server, Some(ReasoningEffort::High));
    for error in both(&client, &with_tools()).await {
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains("Responses API"), "{error}");
    }
    assert!(server.seen().is_empty());
}

#[tokio::test]
async fn the_newest_models_accept_tools_and_reasoning_on_responses() {
    let server = Loopback::start(answer).await;
    let mut config = config(&server, Api::Responses);
    config.model = "gpt-5.6".to_owned();
    config.reasoning_effort = Some(ReasoningEffort::High);
    let client = OpenAiClient::new(config).unwrap();
    respond(&client, &with_tools()).await.unwrap();
    assert!(
        server.seen()[0]
            .body
            .contains(r#""reasoning":{"effort":"high"}"#)
    );
}

#[tokio::test]
async fn a_responses_stream_may_end_with_or_without_done() {
    let text = named_events(&streamed(&response(&[message_item("Good day.")])));
    for end in ["", "data: [DONE]\n\n"] {
        let text = format!("{text}{end}");
        let server = Loopback::start(move |_| pieces(&text)).await;
        let reply = stream(&client(&server, Api::Responses), &request("hi"))
            .await
            .unwrap();
        assert_eq!(reply.text(), "Good day.");
    }
}

#[tokio::test]
async fn a_chat_completions_stream_without_done_is_incomplete_and_keeps_its_usage() {
    let text = chunks(&chat_stream(true)).replace("data: [DONE]\n\n", "");
    let server = Loopback::start(move |_| pieces(&text)).await;
    let error = stream(&client(&server, Api::Chat), &request("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
    assert_eq!(error.usage.unwrap().total, TokenCount::measured(59));
}

#[tokio::test]
async fn missing_or_null_usage_is_unknown() {
    let mut stream_of = chat_stream(false);
    stream_of.pop();
    let server = Loopback::start(move |_| pieces(&chunks(&stream_of))).await;
    let reply = stream(&client(&server, Api::Chat), &request("hi"))
        .await
        .unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::UNKNOWN);
    let mut silent = response(&[message_item("Hi")]);
    silent["usage"] = Value::Null;
    let server = Loopback::start(move |seen| answer_with(&silent, is_streamed(seen))).await;
    let reply = stream(&client(&server, Api::Responses), &request("hi"))
        .await
        .unwrap();
    assert_eq!(reply.usage.total, TokenCount::UNKNOWN);
}

#[tokio::test]
async fn missing_usage_details_count_as_zero() {
    let mut chunk = usage_chunk();
    for details in ["prompt_tokens_details", "completion_tokens_details"] {
        chunk["usage"].as_object_mut().unwrap().remove(details);
    }
    let mut stream_of = chat_stream(false);
    stream_of.pop();
    stream_of.push(chunk);
    let server = Loopback::start(move |_| pieces(&chunks(&stream_of))).await;
    let reply = stream(&client(&server, Api::Chat), &request("hi"))
        .await
        .unwrap();
    assert_eq!(reply.usage.cached, TokenCount::measured(0));
    assert_eq!(reply.usage.reasoning, TokenCount::measured(0));
    assert_eq!(reply.usage.prompt, TokenCount::measured(50));
}

#[tokio::test]
async fn a_refusal_is_text_with_a_refused_finish_on_both_apis() {
    let refusal = json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "refusal", "refusal": "I can't help with that."}]});
    let refused = response(&[refusal]);
    let whole = json!({"choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": null, "refusal": "I can't help with that."}}], "usage": chat_usage()});
    let parts = [
        chunk(
            &json!({"role": "assistant", "content": null, "refusal": ""}),
            None,
        ),
        chunk(&json!({"refusal": "I can't "}), None),
        chunk(&json!({"refusal": "help with that."}), None),
        chunk(&json!({}), Some("stop")),
    ];
    let server =
        Loopback::start(
            move |seen| match (seen.line.contains("responses"), is_streamed(seen)) {
                (true, is_streamed) => answer_with(&refused, is_streamed),
                (false, true) => pieces(&chunks(&parts)),
                (false, false) => Answer::json(&whole.to_string()),
            },
        )
        .await;
    for api in APIS {
        let client = client(&server, api);
        for reply in [
            respond(&client, &request("hi")).await.unwrap(),
            stream(&client, &request("hi")).await.unwrap(),
        ] {
            assert_eq!(reply.text(), "I can't help with that.");
            assert_eq!(reply.finish, ReplyFinish::Refused, "{api:?}");
        }
    }
}

#[tokio::test]
async fn the_incomplete_reason_determines_the_finish() {
    for (reason, expected) in [
        ("max_output_tokens", ReplyFinish::Length),
        ("max_tokens", ReplyFinish::Length),
        ("content_filter", ReplyFinish::ContentFilter),
    ] {
        let mut cut = response(&[message_item("Good d")]);
        cut["status"] = json!("incomplete");
        cut["incomplete_details"] = json!({"reason": reason});
        let server = Loopback::start(move |seen| answer_with(&cut, is_streamed(seen))).await;
        let client = client(&server, Api::Responses);
        assert_eq!(
            respond(&client, &request("hi")).await.unwrap().finish,
            expected
        );
        assert_eq!(
            stream(&client, &request("hi")).await.unwrap().finish,
            expected
        );
    }
}

#[tokio::test]
async fn the_calls_of_a_truncated_reply_are_never_returned() {
    let mut events = streamed(&response(&[call_item(1, "{\"at\":\"sky\"}")]));
    events.pop();
    let server = Loopback::start(move |_| pieces(&named_events(&events))).await;
    let error = stream(&client(&server, Api::Responses), &request("hi"))
        .await
        .unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
}

#[tokio::test]
async fn the_legacy_function_call_finish_is_understood() {
    let mut stream_of = chat_stream(true);
    let last = stream_of.len() - 2;
    stream_of[last]["choices"][0]["finish_reason"] = json!("function_call");
    let server = Loopback::start(move |_| pieces(&chunks(&stream_of))).await;
    let reply = stream(&client(&server, Api::Chat), &request("hi"))
        .await
        .unwrap();
    assert_eq!(reply.finish, ReplyFinish::ToolCalls);
}

#[tokio::test]
async fn models_with_valid_names_are_listed() {
    let server = Loopback::start(|seen| {
        assert_eq!(seen.line, "GET /v1/models?v=1");
        Answer::json(r#"{"object":"list","data":[{"id":"gpt-5.3","object":"model"},{"id":"bad\u0000name"},{"id":""},{"id":"o3"}]}"#)
    })
    .await;
    let mut config = config(&server, Api::Responses);
    config.query.insert("v".to_owned(), "1".to_owned());
    let client = OpenAiClient::new(config).unwrap();
    let within = Duration::from_secs(5);
    assert_eq!(client.models(within).await.unwrap(), ["gpt-5.3", "o3"]);
}

#[tokio::test]
async fn a_bare_model_list_is_read_and_nameless_models_are_skipped() {
    let server = Loopback::start(|_| {
        Answer::json(r#" [{"id":"m/one","type":"chat"},{"id":null},{"id":"m/two"}]"#)
    })
    .await;
    let client = client(&server, Api::Chat);
    let listed = client.models(Duration::from_secs(5)).await.unwrap();
    assert_eq!(listed, ["m/one", "m/two"]);
}

#[tokio::test]
async fn an_unusable_model_list_is_an_error_with_its_kind() {
    let within = Duration::from_secs(5);
    for (status, body, expected) in [
        (
            401,
            r#"{"error":{"code":"invalid_api_key","message":"no"}}"#,
            LlmErrorKind::Unauthorized,
        ),
        (200, r#"{"hello":"world"}"#, LlmErrorKind::InvalidResponse),
        (200, "[1]", LlmErrorKind::InvalidResponse),
    ] {
        let server =
            Loopback::start(move |_| Answer::whole(status, "content-type: application/json", body))
                .await;
        let error = client(&server, Api::Chat).models(within).await.unwrap_err();
        assert_eq!(error.kind, expected, "{body}");
    }
    let server = Loopback::start(|_| Answer::json(r#"{"data":null}"#)).await;
    assert!(
        client(&server, Api::Chat)
            .models(within)
            .await
            .unwrap()
            .is_empty()
    );
}
