//! Malformed streams.

use neuraxis_core::LlmErrorKind;
use neuraxis_testkit::loopback::{Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::json;

use crate::shapes::events;
use crate::{both, client, streamed};

/// Returns the kind of error in which a stream of these bytes ends.
async fn kind(stream: impl Into<Vec<u8>>) -> LlmErrorKind {
    let stream = stream.into();
    let server = Loopback::start(move |_| Answer::events([stream.as_slice()])).await;
    let error = streamed(&client(&server), &request("hi"))
        .await
        .unwrap_err();
    error.kind
}

/// Returns a stream of one piece of a message.
fn piece(delta: &serde_json::Value) -> String {
    events(std::slice::from_ref(delta), "stop").concat()
}

#[tokio::test]
async fn an_unreadable_reply_is_an_invalid_response() {
    let call = |index: usize, id: &str, name: &str| json!({"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let calls = |calls: &[serde_json::Value]| piece(&json!({ "tool_calls": calls }));
    let text = piece(&json!({"content": "Hi"}));
    for stream in [
        "data: {\"choices\":[\n\n".to_owned(),
        "data: hello\n\n".to_owned(),
        calls(&[call(0, "a", "look"), call(1, "a", "look")]),
        calls(&[call(0, "a", "look"), call(0, "a", "wait")]),
        calls(&[call(0, "a", "")]),
        text.replace("\"stop\"", "\"over\""),
        text.replace("\"stop\"", "\"tool_calls\""),
        text.replace(
            "data: [DONE]",
            "data: {\"choices\":[{\"finish_reason\":\"length\"}]}",
        ),
    ] {
        assert_eq!(
            kind(stream.clone()).await,
            LlmErrorKind::InvalidResponse,
            "{stream}"
        );
    }
    let invalid =
        [b"data: {\"choices\":[{\"delta\":{\"content\":\"\xff\"}}]}\n\n".to_vec()].concat();
    assert_eq!(kind(invalid).await, LlmErrorKind::InvalidResponse);
}

#[tokio::test]
async fn an_html_page_or_compressed_body_is_named_as_such() {
    for (headers, expected) in [
        ("content-type: text/html", "text/html"),
        (
            "content-type: text/event-stream\r\ncontent-encoding: gzip",
            "gzip",
        ),
    ] {
        let server = Loopback::start(move |_| Answer::whole(200, headers, "<html>")).await;
        let error = streamed(&client(&server), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.message.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_stream_is_read_the_same_byte_by_byte_and_with_any_line_ending() {
    let pieces = [
        json!({"reasoning_content": "Hé 🦀"}),
        json!({"content": "1 <"}),
        json!({"content": "｜ 2"}),
        json!({"content": "\n<｜DSML｜tool_calls><｜DSML｜invoke name=\"look\">"}),
        json!({"content": "</｜DSML｜invoke></｜DSML｜tool_calls>"}),
    ];
    let stream = events(&pieces, "stop").concat();
    let crlf = stream.replace('\n', "\r\n");
    let marked = format!("\u{feff}{}", stream.replace('\n', "\r"));
    for stream in [stream, crlf, marked] {
        let server = Loopback::start(move |_| Answer::events(stream.as_bytes().chunks(1))).await;
        let reply = streamed(&client(&server), &request("hi")).await.unwrap();
        assert_eq!(reply.reasoning(), "Hé 🦀");
        assert_eq!(reply.text(), "1 <｜ 2\n");
        assert_eq!(reply.calls().count(), 1);
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server =
        Loopback::start(|_| Answer::whole(302, "location: https://elsewhere.example/steal", ""))
            .await;
    for reply in both(&client(&server), &request("hi")).await {
        let error = reply.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains("elsewhere.example"), "{error}");
    }
    assert_eq!(server.seen().len(), 2);
}
