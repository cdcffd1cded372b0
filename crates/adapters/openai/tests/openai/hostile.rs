//! Servers that send what no server should: each causes the right kind of error, and none blocks a call.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use neuraxis_core::{LlmErrorKind, Reply};
use neuraxis_openai::{Api, OpenAiClient};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::request;
use serde_json::{Value, json};

use crate::shapes::{
    call_item, chat_stream, chunk, chunks, message_item, named_events, output, pieces, response,
    streamed,
};
use crate::{APIS, both, client, config, stream};

/// A time within which nothing on loopback should happen, yet short enough to wait for.
const SOON: Duration = Duration::from_millis(50);

/// Returns a valid stream of a protocol.
fn good(api: Api) -> String {
    match api {
        Api::Responses => named_events(&streamed(&response(&output(true)))),
        Api::Chat => chunks(&chat_stream(true)),
    }
}

/// Returns the error of a stream that begins validly and continues like this.
async fn error_after_start(api: Api, rest: &str) -> LlmErrorKind {
    let start: String = good(api).split_inclusive("\n\n").take(4).collect();
    let text = format!("{start}{rest}");
    let server = Loopback::start(move |_| pieces(&text)).await;
    stream(&client(&server, api), &request("hi"))
        .await
        .unwrap_err()
        .kind
}

#[tokio::test]
async fn invalid_json_is_an_invalid_response_streamed_or_whole() {
    for api in APIS {
        for json in [
            "{",
            "nonsense",
            "[1",
            "{\"type\":7}",
            "{\"choices\":7}",
            "\"text\"",
        ] {
            let kind = error_after_start(api, &format!("data: {json}\n\n")).await;
            assert_eq!(kind, LlmErrorKind::InvalidResponse, "{api:?} {json}");
        }
        let server = Loopback::start(|_| Answer::json("{\"id\": ")).await;
        let error = crate::respond(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    }
}

#[tokio::test]
async fn an_html_page_instead_of_a_reply_is_named_by_its_type() {
    let server = Loopback::start(|_| Answer::whole(200, "content-type: text/html", "<html>")).await;
    for api in APIS {
        for error in both(&client(&server, api), &request("hi")).await {
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
            assert!(error.message.contains("text/html"), "{error}");
        }
    }
}

#[tokio::test]
async fn invalid_utf_8_is_an_invalid_response() {
    for api in APIS {
        let mut bytes = good(api).into_bytes();
        let at = bytes.windows(4).position(|four| four == b"look").unwrap();
        bytes[at] = 0xff;
        let server = Loopback::start(move |_| Answer::events([bytes.as_slice()])).await;
        let error = stream(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        let body = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n".as_bytes();
        let whole = [body, b"\xff\xfe"].concat();
        let server =
            Loopback::start(move |_| Answer::nothing().then(Act::Send(whole.clone()))).await;
        let error = crate::respond(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    }
}

/// Returns one server's replies to the same request, each answered with the next of these streams in pieces of the
/// given size in bytes.
async fn replies(api: Api, streams: Vec<(String, usize)>) -> Vec<Reply> {
    let count = streams.len();
    let next = AtomicUsize::new(0);
    let server = Loopback::start(move |_| {
        let (text, size) = &streams[next.fetch_add(1, Ordering::SeqCst)];
        Answer::events(text.as_bytes().chunks(*size))
    })
    .await;
    let client = client(&server, api);
    let mut replies = Vec::new();
    for _ in 0..count {
        replies.push(stream(&client, &request("hi")).await.unwrap());
    }
    replies
}

#[tokio::test]
async fn any_line_ending_comments_and_a_byte_order_mark_are_accepted() {
    for api in APIS {
        let odd = |ending: &str| {
            let text = good(api).replace('\n', ending);
            let start = format!("\u{feff}: hello{ending}{ending}id: 7{ending}retry: 1{ending}");
            (start + &text, 7)
        };
        let replies = replies(
            api,
            vec![(good(api), 4_096), odd("\n"), odd("\r\n"), odd("\r")],
        )
        .await;
        assert!(
            replies.iter().all(|reply| *reply == replies[0]),
            "{replies:?}"
        );
    }
}

#[tokio::test]
async fn a_reply_is_the_same_for_any_chunk_size() {
    for api in APIS {
        let sizes = [4_096, 1, 2, 3, 5, 64];
        let replies = replies(api, sizes.map(|size| (good(api), size)).into()).await;
        assert!(
            replies.iter().all(|reply| *reply == replies[0]),
            "{replies:?}"
        );
    }
}

#[tokio::test]
async fn an_unfinished_last_event_is_incomplete() {
    for api in APIS {
        let kind = error_after_start(api, "data: {\"type\":").await;
        assert_eq!(kind, LlmErrorKind::Incomplete, "{api:?}");
        let mut text = good(api);
        text.truncate(text.trim_end().len());
        let server = Loopback::start(move |_| pieces(&text)).await;
        let error = stream(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete, "{api:?}");
    }
}

#[tokio::test]
async fn an_endless_line_is_aborted() {
    static X: [u8; 65_536] = [b'x'; 65_536];
    for api in APIS {
        let server = Loopback::start(|_| {
            let start =
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: ".to_vec();
            Answer::nothing()
                .then(Act::Send(start))
                .then(Act::Forever(&X))
        })
        .await;
        let error = stream(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        server.hung_up().await;
    }
}

#[tokio::test]
async fn inconsistent_calls_are_an_invalid_response() {
    let item = |at: usize, item: Value| json!({"type": "response.output_item.added", "output_index": at, "item": item});
    let call = |index: u32, id: &str, name: &str| {
        chunk(
            &json!({"tool_calls": [{"index": index, "id": id, "function": {"name": name, "arguments": "{}"}}]}),
            None,
        )
    };
    let other_name = json!({"type": "response.output_item.done", "output_index": 0,
        "item": {"type": "function_call", "call_id": "call_1", "name": "other", "arguments": "{}"}});
    let first = item(0, call_item(1, ""));
    for (api, events) in [
        (
            Api::Responses,
            vec![first.clone(), item(2, call_item(2, ""))],
        ),
        (
            Api::Responses,
            vec![first.clone(), item(1, call_item(1, ""))],
        ),
        (Api::Responses, vec![first.clone(), other_name]),
        (Api::Responses, vec![first, item(0, message_item("x"))]),
        (Api::Chat, vec![call(0, "a", "look"), call(1, "a", "look")]),
        (Api::Chat, vec![call(0, "a", "look"), call(0, "a", "other")]),
    ] {
        let text = match api {
            Api::Responses => named_events(&events),
            Api::Chat => chunks(&events),
        };
        let server = Loopback::start(move |_| pieces(&text)).await;
        let error = stream(&client(&server, api), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{events:?}");
    }
}

#[tokio::test]
async fn an_unknown_or_inconsistent_finish_is_an_invalid_response() {
    let mut unknown = response(&output(false));
    unknown["status"] = json!("splendid");
    let odd = json!({"type": "response.completed", "response": unknown});
    let mut contradiction = response(&output(false));
    contradiction["status"] = json!("incomplete");
    let contradiction = json!({"type": "response.completed", "response": contradiction});
    for event in [odd, contradiction] {
        let server =
            Loopback::start(move |_| pieces(&named_events(std::slice::from_ref(&event)))).await;
        let error = stream(&client(&server, Api::Responses), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    }
    for finishes in [
        ["splendid", "splendid"],
        ["stop", "length"],
        ["tool_calls", "tool_calls"],
    ] {
        let events = finishes.map(|finish| chunk(&json!({}), Some(finish)));
        let server = Loopback::start(move |_| pieces(&chunks(&events))).await;
        let error = stream(&client(&server, Api::Chat), &request("hi"))
            .await
            .unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{finishes:?}");
    }
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let headers = "content-type: application/json\r\ncontent-encoding: gzip";
    let server = Loopback::start(move |_| Answer::whole(200, headers, "{}")).await;
    for api in APIS {
        for error in both(&client(&server, api), &request("hi")).await {
            assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
            assert!(error.message.contains("gzip"), "{error}");
        }
    }
}

#[tokio::test]
async fn a_stalled_stream_times_out_and_a_cut_one_is_incomplete() {
    for api in APIS {
        let start: String = good(api).split_inclusive("\n\n").take(4).collect();
        for (act, expected) in [
            (Act::Stall, LlmErrorKind::Timeout),
            (Act::Reset, LlmErrorKind::Incomplete),
            (Act::Close, LlmErrorKind::Incomplete),
        ] {
            let text = start.clone();
            let server =
                Loopback::start(move |_| Answer::open_events([text.as_bytes()]).then(act.clone()))
                    .await;
            let mut config = config(&server, api);
            config.timeouts.idle = SOON;
            let client = OpenAiClient::new(config).unwrap();
            let error = stream(&client, &request("hi")).await.unwrap_err();
            assert_eq!(error.kind, expected, "{api:?}");
        }
    }
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let server =
        Loopback::start(|_| Answer::whole(307, "location: https://evil.example/", "")).await;
    for api in APIS {
        for error in both(&client(&server, api), &request("hi")).await {
            assert_eq!(error.kind, LlmErrorKind::BadRequest);
            assert!(error.message.contains("https://evil.example"), "{error}");
        }
    }
}
