//! Servers that send what no server should: each has its kind of error, and none delays a call beyond its limits.

use std::time::Duration;

use neuraxis_anthropic::AnthropicClient;
use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::{Value, json};

use crate::shapes::{call, content, message, named_events, pieces, streamed, text};
use crate::{both, client, config, respond, stream};

/// A time limit that an exchange on loopback exceeds only on purpose, yet short enough to wait for.
const SOON: Duration = Duration::from_millis(50);

fn good() -> Vec<Value> {
    let (content, stop) = content(true);
    streamed(&message(&content, stop))
}

async fn error_of(text: String) -> LlmError {
    let server = Loopback::start(move |_| pieces(&text)).await;
    stream(&client(&server), &request("hi")).await.unwrap_err()
}

/// The error of a stream that begins correctly and continues with `rest`.
async fn error_after_start(rest: &str) -> LlmErrorKind {
    let start = named_events(&good()[..5]);
    error_of(format!("{start}{rest}")).await.kind
}

#[tokio::test]
async fn invalid_json_is_an_invalid_response_streamed_or_whole() {
    for json in ["{", "nonsense", "[1", "{\"type\":7}", "{}", "\"text\""] {
        let kind = error_after_start(&format!("data: {json}\n\n")).await;
        assert_eq!(kind, LlmErrorKind::InvalidResponse, "{json}");
    }
    for body in ["{\"id\": ", "[]", "{}", "{\"type\":\"completion\"}"] {
        let server = Loopback::start(move |_| Answer::json(body)).await;
        let error = respond(&client(&server), &request("hi")).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{body}");
    }
}

#[tokio::test]
async fn an_inconsistent_event_sequence_is_an_invalid_response() {
    let start = |index: i64, block: Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let delta = |index: i64, delta: Value| json!({"type": "content_block_delta", "index": index, "delta": delta});
    let stop = |index: i64| json!({"type": "content_block_stop", "index": index});
    let words = json!({"type": "text_delta", "text": "a"});
    for events in [
        vec![start(0, text("")), start(0, text(""))],
        vec![delta(0, words.clone())],
        vec![stop(0)],
        vec![start(0, text("")), stop(0), delta(0, words.clone())],
        vec![start(0, text("")), stop(0), stop(0)],
        vec![start(-1, text(""))],
        vec![start(0, call(1, &json!({}))), delta(0, words)],
        vec![start(0, call(1, &json!({}))), start(1, call(1, &json!({})))],
        vec![start(
            0,
            json!({"type": "tool_use", "id": "a", "input": {}}),
        )],
        vec![start(0, json!({"text": "of what kind?"}))],
        vec![json!({"type": "content_block_start", "index": 0})],
        vec![
            start(0, text("")),
            json!({"type": "content_block_delta", "index": 0}),
        ],
        vec![
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}}),
            json!({"type": "message_stop"}),
        ],
    ] {
        let error = error_of(named_events(&events)).await;
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{events:?}");
    }
}

#[tokio::test]
async fn a_reply_with_too_many_blocks_is_aborted() {
    let block = |index: usize, block: &Value| json!({"type": "content_block_start", "index": index, "content_block": block});
    let texts: Vec<_> = (0..1_001).map(|index| block(index, &text(""))).collect();
    let calls: Vec<_> = (0..302)
        .map(|index| block(index as usize, &call(index, &json!({}))))
        .collect();
    for events in [texts, calls] {
        let error = error_of(named_events(&events)).await;
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.message.contains("more than"), "{error}");
    }
}

#[tokio::test]
async fn a_stream_that_ends_too_early_is_incomplete() {
    let events = good();
    for count in [0, 1, 5, events.len() - 2, events.len() - 1] {
        let error = error_of(named_events(&events[..count])).await;
        assert_eq!(error.kind, LlmErrorKind::Incomplete, "{count}");
    }
    let mut unreasoned = events.clone();
    unreasoned.remove(events.len() - 2);
    let error = error_of(named_events(&unreasoned)).await;
    assert_eq!(error.kind, LlmErrorKind::Incomplete);
    assert_eq!(
        error_after_start("data: {\"type\":").await,
        LlmErrorKind::Incomplete
    );
}

#[tokio::test]
async fn invalid_utf_8_is_an_invalid_response() {
    let mut bytes = named_events(&good()).into_bytes();
    let at = bytes.windows(4).position(|four| four == b"look").unwrap();
    bytes[at] = 0xff;
    let server = Loopback::start(move |_| Answer::events([bytes.as_slice()])).await;
    let error = stream(&client(&server), &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    let body = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".as_bytes();
    let whole = [body, b"\xff\xfe"].concat();
    let server = Loopback::start(move |_| Answer::nothing().then(Act::Send(whole.clone()))).await;
    let error = respond(&client(&server), &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
}

#[tokio::test]
async fn an_endless_line_is_aborted() {
    static X: [u8; 65_536] = [b'x'; 65_536];
    let server = Loopback::start(|_| {
        let start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ".to_vec();
        Answer::nothing()
            .then(Act::Send(start))
            .then(Act::Forever(&X))
    })
    .await;
    let error = stream(&client(&server), &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    server.hung_up().await;
}

#[tokio::test]
async fn a_stalled_stream_times_out_and_a_cut_one_is_incomplete() {
    let start = named_events(&good()[..5]);
    for (act, expected) in [
        (Act::Stall, LlmErrorKind::Timeout),
        (Act::Reset, LlmErrorKind::Incomplete),
        (Act::Close, LlmErrorKind::Incomplete),
    ] {
        let text = start.clone();
        let server =
            Loopback::start(move |_| Answer::open_events([text.as_bytes()]).then(act.clone()))
                .await;
        let mut config = config(&server);
        config.timeouts.idle = SOON;
        let client = AnthropicClient::new(config).unwrap();
        let error = stream(&client, &request("hi")).await.unwrap_err();
        assert_eq!(error.kind, expected);
    }
}

#[tokio::test]
async fn a_server_that_only_sends_pings_times_out() {
    static PING: &[u8] = b"event: ping\ndata: {\"type\":\"ping\"}\n\n";
    let server = Loopback::start(|_| {
        let start = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n".to_vec();
        Answer::nothing()
            .then(Act::Send(start))
            .then(Act::Forever(PING))
    })
    .await;
    let mut config = config(&server);
    config.timeouts.output = SOON;
    let client = AnthropicClient::new(config).unwrap();
    let error = stream(&client, &request("hi")).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.output"), "{error}");
}

#[tokio::test]
async fn an_html_page_a_compressed_body_and_a_redirect_are_refused() {
    for (status, headers, expected, said) in [
        (
            200,
            "content-type: text/html",
            LlmErrorKind::InvalidResponse,
            "text/html",
        ),
        (
            200,
            "content-type: application/json\r\ncontent-encoding: gzip",
            LlmErrorKind::InvalidResponse,
            "gzip",
        ),
        (
            307,
            "location: https://evil.example/",
            LlmErrorKind::BadRequest,
            "https://evil.example",
        ),
    ] {
        let server = Loopback::start(move |_| Answer::whole(status, headers, "{}")).await;
        for error in both(&client(&server), &request("hi")).await {
            let error = error.unwrap_err();
            assert_eq!(error.kind, expected);
            assert!(error.message.contains(said), "{error}");
        }
    }
}
