//! Peculiarities of DeepSeek that have broken other clients.

use std::time::Duration;

use neuraxis_core::{LlmErrorKind, ReplyDelta, ReplyFinish, TokenCount};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::json;

use crate::shapes::{chat, document, either, events, text};
use crate::{both, client, client_with, deltas, streamed};

const KEEP_ALIVE: &[u8] = b": keep-alive\n\n";

#[tokio::test]
async fn keep_alive_lines_are_not_part_of_a_reply() {
    // The formats have blank lines before a whole reply and comments between the pieces of a streamed one.
    assert!(document(&json!({}), "stop").starts_with("\n\n"));
    assert!(events(&[], "stop")[0].starts_with(": keep-alive"));
    let server = Loopback::start(chat).await;
    for reply in both(&client(&server), &request("hello")).await {
        assert_eq!(reply.unwrap().text(), "Good day.");
    }
}

#[tokio::test]
async fn keep_alive_lines_do_not_count_as_output() {
    let chunk = |bytes: &[u8]| {
        let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
        chunk.extend_from_slice(bytes);
        chunk.extend_from_slice(b"\r\n");
        chunk.leak() as &'static [u8]
    };
    let server = Loopback::start(move |_| {
        Answer::open_events([KEEP_ALIVE]).then(Act::Forever(chunk(KEEP_ALIVE)))
    })
    .await;
    let client = client_with(&server, |config| {
        config.timeouts.output = Duration::from_millis(50);
    });
    let error = streamed(&client, &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.output"), "{error}");
    server.hung_up().await;
}

#[tokio::test]
async fn a_silent_service_hits_the_idle_timeout() {
    let server = Loopback::start(|_| Answer::open_events([KEEP_ALIVE]).then(Act::Stall)).await;
    let client = client_with(&server, |config| {
        config.timeouts.idle = Duration::from_millis(50);
    });
    let error = streamed(&client, &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.idle"), "{error}");
}

#[tokio::test]
async fn a_service_that_stops_midway_is_a_server_error_with_usage() {
    let server = Loopback::start(|seen| {
        text(
            seen,
            &["Half an ", "answer"],
            "insufficient_system_resource",
        )
    })
    .await;
    for reply in both(&client(&server), &request("hi")).await {
        let error = reply.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::server(None));
        assert!(error.is_retryable());
        assert_eq!(error.usage.unwrap().prompt, TokenCount::measured(70));
    }
}

#[tokio::test]
async fn calls_written_as_text_become_calls_and_are_never_shown() {
    let server = Loopback::start(chat).await;
    let client = client(&server);
    let request = request("leak");
    for delta in deltas(&client, &request).await.unwrap() {
        if let ReplyDelta::Text { text, .. } = delta {
            assert!(!text.contains("DSML") && !text.contains('<'), "{text}");
        }
    }
    for reply in both(&client, &request).await {
        let reply = reply.unwrap();
        assert_eq!(reply.text(), "I will look.\n\n");
        assert_eq!(reply.finish, ReplyFinish::ToolCalls);
        let call = reply.calls().next().unwrap();
        assert_eq!(&*call.name, "look");
        assert_eq!(call.arguments.as_str(), r#"{"at":"sky"}"#);
    }
}

#[tokio::test]
async fn unreadable_markup_is_an_invalid_response_with_known_usage() {
    let half = [
        "Well. <｜DSML｜tool_calls>",
        "<｜DSML｜invoke name=\"look\">",
    ];
    let server = Loopback::start(move |seen| text(seen, &half, "stop")).await;
    for reply in both(&client(&server), &request("hi")).await {
        let error = reply.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.is_retryable());
        assert_eq!(error.usage.unwrap().completion, TokenCount::measured(30));
    }
}

#[tokio::test]
async fn an_empty_answer_is_an_invalid_response() {
    // What JSON mode returns instead of output that is not JSON, and how thinking sometimes ends.
    let thought = json!({"role": "assistant", "content": " \n", "reasoning_content": "Hm."});
    let pieces = [
        json!({"reasoning_content": "Hm."}),
        json!({"content": " \n"}),
    ];
    let server = Loopback::start(move |seen| either(seen, &pieces, &thought, "stop")).await;
    for reply in both(&client(&server), &request("hi")).await {
        let error = reply.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.is_retryable() && error.usage.is_some());
    }
}

#[tokio::test]
async fn thinking_that_used_up_the_limit_is_a_reply_cut_short() {
    let thought = json!({"role": "assistant", "content": "", "reasoning_content": "Hm."});
    let pieces = [json!({"reasoning_content": "Hm."})];
    let server = Loopback::start(move |seen| either(seen, &pieces, &thought, "length")).await;
    for reply in both(&client(&server), &request("hi")).await {
        let reply = reply.unwrap();
        assert_eq!(reply.finish, ReplyFinish::Length);
        assert_eq!(
            (reply.text(), reply.reasoning()),
            (String::new(), "Hm.".to_owned())
        );
    }
}

#[tokio::test]
async fn a_stream_cut_anywhere_before_its_end_is_incomplete() {
    let whole = events(
        &[json!({"content": "Good "}), json!({"content": "day."})],
        "stop",
    );
    for count in 0..whole.len() {
        let events = whole[..count].to_vec();
        let server =
            Loopback::start(move |_| Answer::events(events.iter().map(String::as_bytes))).await;
        let error = streamed(&client(&server), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete, "after {count} events");
    }
}

#[tokio::test]
async fn usage_may_arrive_with_or_after_the_end_and_the_latest_counts() {
    let early = r#"data: {"choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"prompt_cache_hit_tokens":0,"prompt_cache_miss_tokens":1}}"#;
    let late = r#"data: {"choices":[],"usage":{"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":6,"completion_tokens":3}}"#;
    let stream = format!("{early}\n\n{late}\n\ndata: [DONE]\n\n");
    let server = Loopback::start(move |_| Answer::events([stream.as_bytes()])).await;
    let reply = streamed(&client(&server), &request("hi")).await.unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::measured(70));
    assert_eq!(reply.usage.cached, TokenCount::measured(64));
    assert_eq!(reply.usage.completion, TokenCount::measured(3));
}

#[tokio::test]
async fn a_broken_connection_leaves_the_reply_incomplete() {
    for act in [Act::Reset, Act::Close] {
        let begun = events(&[json!({"content": "Good "})], "stop")[..4].concat();
        let server =
            Loopback::start(move |_| Answer::open_events([begun.as_bytes()]).then(act.clone()))
                .await;
        let error = streamed(&client(&server), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete);
    }
}

#[tokio::test]
async fn consecutive_calls_share_one_connection() {
    let server = Loopback::start(chat).await;
    let client = client(&server);
    for message in ["hello", "two calls", "leak"] {
        streamed(&client, &request(message)).await.unwrap();
    }
    assert_eq!(server.connections(), 1);
}
