//! The decoding of the service's replies: clients have been seen to get each of these cases wrong.

use neuraxis_core::{LlmErrorKind, Reply, ReplyFinish, ReplyPart, TokenCount};
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::{Value, json};

use crate::shapes::{
    answer_with, call, content, message, named_events, pieces, redacted, streamed, text, thinking,
};
use crate::{both, client, stream};

/// The replies decoded from a message, whole and streamed.
async fn replies(message: Value) -> [Reply; 2] {
    let server = Loopback::start(move |seen| answer_with(&message, seen)).await;
    both(&client(&server), &request("hi"))
        .await
        .map(Result::unwrap)
}

/// The reply decoded from a stream.
async fn reply_to(events: Vec<Value>) -> Result<Reply, neuraxis_core::LlmError> {
    let server = Loopback::start(move |_| pieces(&named_events(&events))).await;
    stream(&client(&server), &request("hi")).await
}

fn calls(reply: &Reply) -> Vec<(&str, &str)> {
    let calls = reply.calls();
    calls
        .map(|call| {
            let id = call.provider_id.as_deref().unwrap_or_default();
            (id, call.arguments.as_str())
        })
        .collect()
}

#[tokio::test]
async fn blocks_keep_their_order_and_arguments_stay_as_written() {
    let (content, stop) = content(true);
    for reply in replies(message(&content, stop)).await {
        let kinds: Vec<_> = reply
            .parts
            .iter()
            .map(|part| match part {
                ReplyPart::Reasoning(_) => "reasoning",
                ReplyPart::Text(_) => "text",
                ReplyPart::ToolCall(_) => "call",
            })
            .collect();
        assert_eq!(kinds, ["reasoning", "reasoning", "text", "call", "call"]);
        let expected = [("toolu_01", r#"{"at":"sky \"é\" 🦀"}"#), ("toolu_02", "{}")];
        assert_eq!(calls(&reply), expected);
    }
}

#[tokio::test]
async fn arguments_sent_whole_in_the_start_event_are_used() {
    let mut events = streamed(&message(&[call(1, &json!({}))], "tool_use"));
    events[2]["content_block"]["input"] = json!({"at": "sky"});
    let reply = reply_to(events).await.unwrap();
    assert_eq!(calls(&reply), [("toolu_01", r#"{"at":"sky"}"#)]);
}

#[tokio::test]
async fn invalid_json_arguments_still_make_a_tool_call() {
    let blocks = [call(1, &json!({"at": "sky"})), call(2, &json!({}))];
    let mut events = streamed(&message(&blocks, "tool_use"));
    events[4]["delta"]["partial_json"] = json!("{{");
    let reply = reply_to(events).await.unwrap();
    assert_eq!(reply.calls().count(), 2);
    assert!(!reply.calls().next().unwrap().arguments.is_valid());
}

#[tokio::test]
async fn unknown_events_deltas_and_blocks_are_skipped() {
    let blocks = [
        json!({"type": "hologram", "depth": 3}),
        text("Good day."),
        json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {}}),
    ];
    let mut events = streamed(&message(&blocks, "end_turn"));
    let at_text = events
        .iter()
        .position(|event| event["content_block"]["type"] == "text")
        .unwrap();
    events.insert(
        at_text + 1,
        json!({"type": "content_block_delta", "index": 1,
            "delta": {"type": "citations_delta", "citation": {"type": "char_location", "cited_text": "x"}}}),
    );
    events.insert(1, json!({"type": "weather", "index": 7, "sky": [1]}));
    let reply = reply_to(events).await.unwrap();
    assert_eq!(reply.text(), "Good day.");
    assert_eq!(reply.finish, ReplyFinish::Stop);
}

#[tokio::test]
async fn each_stop_reason_maps_to_a_finish_and_unknown_ones_to_length() {
    for (reason, expected) in [
        ("end_turn", ReplyFinish::Stop),
        ("stop_sequence", ReplyFinish::Stop),
        ("max_tokens", ReplyFinish::Length),
        ("model_context_window_exceeded", ReplyFinish::Length),
        ("pause_turn", ReplyFinish::Length),
        ("compaction", ReplyFinish::Length),
        ("something_new", ReplyFinish::Length),
    ] {
        for reply in replies(message(&[text("Good d")], reason)).await {
            assert_eq!(reply.finish, expected, "{reason}");
            assert_eq!(reply.text(), "Good d");
        }
    }
}

#[tokio::test]
async fn a_reply_with_calls_that_ended_its_turn_finishes_with_tool_calls() {
    for reply in replies(message(&[call(1, &json!({}))], "end_turn")).await {
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
    }
}

#[tokio::test]
async fn a_tool_call_cut_off_by_the_token_limit_is_never_runnable() {
    let mut events = streamed(&message(&[call(1, &json!({"at": "sky"}))], "max_tokens"));
    // Neither the block nor its arguments have an end.
    events.retain(|event| event["type"] != "content_block_stop");
    events.remove(5);
    let reply = reply_to(events).await.unwrap();
    assert_eq!(reply.finish, ReplyFinish::Length);
    let mut events = streamed(&message(&[call(1, &json!({}))], "tool_use"));
    events.retain(|event| event["type"] != "content_block_stop");
    let error = reply_to(events).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
}

#[tokio::test]
async fn a_reply_without_content_is_an_empty_answer() {
    for reply in replies(message(&[], "end_turn")).await {
        assert_eq!((reply.parts.len(), reply.finish), (0, ReplyFinish::Stop));
    }
}

#[tokio::test]
async fn a_refusal_is_an_error_with_its_category_even_after_some_text() {
    let mut refused = message(&[text("Sure, first")], "refusal");
    refused["stop_details"] =
        json!({"type": "refusal", "category": "cyber", "explanation": "Not this."});
    let server = Loopback::start(move |seen| answer_with(&refused, seen)).await;
    for error in both(&client(&server), &request("hi")).await {
        let error = error.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::ContentFiltered);
        assert!(error.message.contains("category cyber"), "{error}");
        assert!(error.message.contains("Not this."), "{error}");
        let used = error.usage.expect("the usage is kept");
        assert_eq!(used.completion, TokenCount::measured(9));
    }
}

#[tokio::test]
async fn repeated_token_counts_are_not_added_up() {
    let mut events = streamed(&message(&[text("a")], "end_turn"));
    let last = events.len() - 1;
    events.insert(
        last,
        json!({"type": "message_delta", "delta": {}, "usage": {"input_tokens": 0, "output_tokens": 11}}),
    );
    // Some gateways send the beginning twice.
    events.insert(1, events[0].clone());
    events.insert(1, json!({"type": "message_start", "message": null}));
    let reply = reply_to(events).await.unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::measured(50));
    assert_eq!(reply.usage.completion, TokenCount::measured(11));
    assert_eq!(reply.usage.cache_written, Some(TokenCount::measured(10)));
}

#[tokio::test]
async fn uncounted_hidden_thinking_has_an_unknown_token_count() {
    for hidden in [thinking(""), redacted()] {
        let mut hidden = message(&[hidden, text("a")], "end_turn");
        hidden["usage"]["output_tokens_details"] = Value::Null;
        for reply in replies(hidden).await {
            assert_eq!(reply.usage.reasoning, TokenCount::UNKNOWN);
            assert_eq!(reply.parts.len(), 2, "it goes back all the same");
        }
    }
}

#[tokio::test]
async fn missing_or_invalid_counts_leave_the_usage_unknown() {
    let mut uncounted = message(&[text("a")], "end_turn");
    uncounted["usage"] = json!({"input_tokens": -1, "output_tokens": null});
    for reply in replies(uncounted).await {
        assert_eq!(reply.usage.prompt, TokenCount::UNKNOWN);
        assert_eq!(reply.usage.cache_written, None);
    }
}

#[tokio::test]
async fn a_reply_is_the_same_for_any_chunk_size() {
    let (content, stop) = content(true);
    let stream_of = named_events(&streamed(&message(&content, stop)));
    let mut replies = Vec::new();
    for size in [4_096, 1, 2, 3, 5, 64] {
        let text = stream_of.clone();
        let server = Loopback::start(move |_| Answer::events(text.as_bytes().chunks(size))).await;
        replies.push(stream(&client(&server), &request("hi")).await.unwrap());
    }
    assert!(
        replies.iter().all(|reply| *reply == replies[0]),
        "{replies:?}"
    );
}
