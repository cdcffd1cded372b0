//! Servers that fail, send false data, stall or break off: each has its kind of error, and none delays a call beyond
//! its limits.

use std::time::Duration;

use futures_util::StreamExt;
use neuraxis_core::{LlmError, LlmErrorKind, TokenCount};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::ChatClient;

use crate::{CANARY, SOON, STREAM, WHOLE, client, client_at, deltas, respond, stream};

/// The errors of a whole and of a streamed call.
async fn both(client: &ChatClient) -> [LlmError; 2] {
    [
        respond(client).await.unwrap_err(),
        stream(client).await.unwrap_err(),
    ]
}

/// The kind of both errors, which must be the same.
async fn kind(client: &ChatClient) -> LlmErrorKind {
    let [whole, streamed] = both(client).await;
    assert_eq!(whole.kind, streamed.kind, "{whole} / {streamed}");
    whole.kind
}

fn events(text: &str) -> Answer {
    Answer::events([text.as_bytes()])
}

#[tokio::test]
async fn an_unreachable_server_is_named() {
    let server = Loopback::start(|_| Answer::json(WHOLE)).await;
    let url = server.url();
    drop(server);
    // The listener closes when its task ends.
    while tokio::net::TcpStream::connect(url.trim_start_matches("http://"))
        .await
        .is_ok()
    {
        tokio::task::yield_now().await;
    }
    for error in both(&client_at(&url, |_| {})).await {
        assert_eq!(error.kind, LlmErrorKind::Connection);
        assert!(
            error.message.contains(&url) && error.message.contains("refused"),
            "{error}"
        );
    }
}

#[tokio::test]
async fn a_server_without_tls_is_a_connection_error() {
    let server = Loopback::start(|_| Answer::json(WHOLE)).await;
    let client = client_at(&server.url().replace("http:", "https:"), |_| {});
    assert_eq!(kind(&client).await, LlmErrorKind::Connection);
    assert!(server.seen().is_empty(), "nothing was sent in the clear");
}

#[tokio::test]
async fn a_connection_that_is_never_established_is_aborted() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let client = client_at(&url, |config| config.timeouts.connect = SOON);
    assert_eq!(kind(&client).await, LlmErrorKind::Connection);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_names_its_target() {
    let other = Loopback::start(|_| Answer::json(WHOLE)).await;
    let target = other.url();
    let location = format!("location: {target}/v1/chat/completions?key={CANARY}");
    let server = Loopback::start(move |_| Answer::whole(307, &location, "")).await;
    for error in both(&client(&server)).await {
        assert_eq!(error.kind, LlmErrorKind::BadRequest);
        assert!(error.message.contains(&target), "{error}");
        assert!(error.message.contains("base_url"), "{error}");
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn a_rate_limit_reports_how_long_to_wait() {
    for (header, wait) in [
        ("retry-after: 7", Duration::from_secs(7)),
        ("retry-after-ms: 1500", Duration::from_millis(1_500)),
        (
            "date: Sun, 06 Nov 1994 08:49:00 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT",
            Duration::from_secs(37),
        ),
    ] {
        let server = Loopback::start(move |_| Answer::whole(429, header, "{}")).await;
        let limited = LlmErrorKind::RateLimited {
            retry_after: Some(wait),
        };
        assert_eq!(kind(&client(&server)).await, limited);
    }
}

#[tokio::test]
async fn an_error_inside_a_stream_follows_the_pieces_before_it() {
    let first: String = STREAM.split_inclusive("\n\n").take(4).collect();
    let text = format!(
        "{first}data: {{\"error\":{{\"code\":529,\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}}}\n\n"
    );
    let server = Loopback::start(move |_| events(&text)).await;
    let client = client(&server);
    let reply = client
        .stream(&request("hi"), &call_context())
        .await
        .unwrap();
    let items: Vec<_> = reply.collect().await;
    assert_eq!(items.iter().filter(|item| item.is_ok()).count(), 2);
    let error = items.last().unwrap().as_ref().unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::server(Some(529)));
}

#[tokio::test]
async fn an_unexpected_document_instead_of_a_reply_is_named() {
    let server =
        Loopback::start(|_| Answer::whole(200, "content-type: text/html; charset=utf-8", "<html>"))
            .await;
    for error in both(&client(&server)).await {
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.message.contains("text/html"), "{error}");
    }
    let server = Loopback::start(|_| Answer::json(WHOLE)).await;
    let error = stream(&client(&server)).await.unwrap_err();
    assert!(
        error
            .message
            .contains("application/json instead of a stream"),
        "{error}"
    );
    let server =
        Loopback::start(|_| Answer::json(r#"{"error":{"code":401,"message":"no"}}"#)).await;
    assert_eq!(kind(&client(&server)).await, LlmErrorKind::Unauthorized);
}

#[tokio::test]
async fn a_reply_without_a_content_type_is_read_as_requested() {
    let server = Loopback::start(|_| Answer::whole(200, "x: y", WHOLE)).await;
    assert_eq!(respond(&client(&server)).await.unwrap().text(), "Héllo 🦀");
    let server = Loopback::start(|_| Answer::whole(200, "x: y", STREAM)).await;
    assert_eq!(stream(&client(&server)).await.unwrap().text(), "Héllo 🦀");
}

#[tokio::test]
async fn a_compressed_body_is_refused() {
    let server = Loopback::start(|_| {
        Answer::whole(
            200,
            "content-type: application/json\r\ncontent-encoding: gzip",
            "\u{1f}",
        )
    })
    .await;
    for error in both(&client(&server)).await {
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
        assert!(error.message.contains("encoding gzip"), "{error}");
    }
    assert!(!server.seen()[0].headers.contains("accept-encoding"));
}

#[tokio::test]
async fn unreadable_events_are_an_invalid_response() {
    for text in [
        "data: {\n\n",
        "data: <html>\n\n",
        "data: {}\n\n",
        "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"over\"}]}\n\n",
    ] {
        let server = Loopback::start(move |_| events(text)).await;
        let error = stream(&client(&server)).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::InvalidResponse, "{text}");
    }
    let server = Loopback::start(|_| Answer::events([b"data: \xff\n\n".as_slice()])).await;
    let error = stream(&client(&server)).await.unwrap_err();
    assert!(error.message.contains("UTF-8"), "{error}");
    for body in ["", "{", "null", "{\"choices\":[]}"] {
        let server = Loopback::start(move |_| Answer::json(body)).await;
        assert!(respond(&client(&server)).await.is_err(), "{body}");
    }
}

#[tokio::test]
async fn a_line_of_fifty_megabytes_is_refused() {
    let server = Loopback::start(|_| {
        let piece = [b'x'; 64 * 1024];
        Answer::events(std::iter::repeat_n(piece.as_slice(), 800))
    })
    .await;
    let error = stream(&client(&server)).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    assert!(error.message.contains("longer than"), "{error}");
}

#[tokio::test]
async fn an_endless_whole_reply_is_aborted() {
    const HEAD: &str = "HTTP/1.1 200 x\r\ncontent-type: application/json\r\n\r\n";
    const SPACES: &[u8] = &[b' '; 64 * 1024];
    let server = Loopback::start(|_| {
        Answer::nothing()
            .then(Act::Send(HEAD.into()))
            .then(Act::Forever(SPACES))
    })
    .await;
    let error = respond(&client(&server)).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::InvalidResponse);
    assert!(error.message.contains("more than"), "{error}");
    server.hung_up().await;
}

#[tokio::test]
async fn an_endless_error_page_is_cut_off() {
    const HEAD: &str = "HTTP/1.1 502 x\r\ncontent-type: text/html\r\n\r\n";
    const WORDS: &[u8] = &[b'x'; 64 * 1024];
    let server = Loopback::start(|_| {
        Answer::nothing()
            .then(Act::Send(HEAD.into()))
            .then(Act::Forever(WORDS))
    })
    .await;
    let error = respond(&client(&server)).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::server(Some(502)));
    assert!(error.message.len() < 600, "{error}");
    server.hung_up().await;
}

#[tokio::test]
async fn a_stream_cut_at_any_place_is_incomplete_and_never_a_reply() {
    const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
    for end in (0..STREAM.len()).step_by(7).chain([STREAM.len() - 1]) {
        let part = [HEAD.as_bytes(), &STREAM.as_bytes()[..end]].concat();
        let server = Loopback::start(move |_| {
            Answer::nothing()
                .then(Act::Send(part.clone()))
                .then(Act::Close)
        })
        .await;
        let error = deltas(&client(&server)).await.unwrap_err();
        assert_eq!(
            error.kind,
            LlmErrorKind::Incomplete,
            "cut at {end}: {error}"
        );
    }
}

#[tokio::test]
async fn a_stream_without_done_or_finish_is_incomplete_and_keeps_its_usage() {
    let no_end = STREAM.replace("data: [DONE]\n\n", "");
    let no_finish = STREAM.replace("\"stop\"", "null");
    for text in [no_end, no_finish] {
        let server = Loopback::start(move |_| events(&text)).await;
        let error = stream(&client(&server)).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Incomplete);
        assert_eq!(error.usage.unwrap().prompt, TokenCount::measured(5));
    }
}

#[tokio::test]
async fn missing_usage_is_unknown() {
    let text = STREAM.replace(
        ",\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4}",
        "",
    );
    let server = Loopback::start(move |_| events(&text)).await;
    let reply = stream(&client(&server)).await.unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::UNKNOWN);
}

#[tokio::test]
async fn a_connection_broken_before_the_answer_is_a_connection_error() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Reset)).await;
    assert_eq!(kind(&client(&server)).await, LlmErrorKind::Connection);
}

#[tokio::test]
async fn a_connection_broken_in_the_middle_leaves_the_reply_incomplete() {
    let first: String = STREAM.split_inclusive("\n\n").take(4).collect();
    let server = Loopback::start(move |_| {
        // The first byte of a chunk that never completes ensures that the earlier data was sent.
        Answer::open_events([first.as_bytes()])
            .then(Act::Send(b"1".to_vec()))
            .then(Act::Reset)
    })
    .await;
    assert_eq!(
        stream(&client(&server)).await.unwrap_err().kind,
        LlmErrorKind::Incomplete
    );
    let server = Loopback::start(|_| {
        let head =
            "HTTP/1.1 200 x\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{";
        Answer::nothing()
            .then(Act::Send(head.into()))
            .then(Act::Close)
    })
    .await;
    assert_eq!(
        respond(&client(&server)).await.unwrap_err().kind,
        LlmErrorKind::Incomplete
    );
}

#[tokio::test]
async fn a_server_that_never_answers_times_out() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let client = client_at(&server.url(), |config| {
        config.timeouts.first_byte = SOON;
        config.timeouts.whole_reply = SOON;
    });
    assert_eq!(kind(&client).await, LlmErrorKind::Timeout);
    server.hung_up().await;
}

#[tokio::test]
async fn a_stalled_stream_times_out() {
    let first: String = STREAM.split_inclusive("\n\n").take(4).collect();
    let server =
        Loopback::start(move |_| Answer::open_events([first.as_bytes()]).then(Act::Stall)).await;
    let client = client_at(&server.url(), |config| config.timeouts.idle = SOON);
    let error = stream(&client).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.idle"), "{error}");
    server.hung_up().await;
}

#[tokio::test]
async fn endless_keep_alive_times_out() {
    let server =
        Loopback::start(|_| Answer::open_events([]).then(Act::Forever(b"2\r\n:\n\r\n"))).await;
    let client = client_at(&server.url(), |config| config.timeouts.output = SOON);
    let error = stream(&client).await.unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Timeout);
    assert!(error.message.contains("timeouts.output"), "{error}");
    server.hung_up().await;
}

#[tokio::test]
async fn the_total_timeout_applies_to_whole_and_streamed_replies() {
    let server = Loopback::start(|seen| {
        let answer = if seen.body.contains("\"stream\":true") {
            Answer::open_events([STREAM.as_bytes().get(..60).unwrap_or_default()])
        } else {
            Answer::nothing()
        };
        answer.then(Act::Stall)
    })
    .await;
    let client = client_at(&server.url(), |config| config.timeouts.total = Some(SOON));
    assert_eq!(kind(&client).await, LlmErrorKind::Timeout);
}
