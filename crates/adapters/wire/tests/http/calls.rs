//! Successful and cancelled calls.

use futures_util::{FutureExt, StreamExt};
use neuraxis_core::{LlmErrorKind, TokenCount};
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::{call_context, request};

use neuraxis_wire::{EndpointConfig, Secret};

use crate::{CANARY, STREAM, WHOLE, client, client_at, respond, stream};

/// Answers as requested: streamed or whole.
fn as_asked(body: &str) -> Answer {
    if body.contains("\"stream\":true") {
        Answer::events([STREAM.as_bytes()])
    } else {
        Answer::json(WHOLE)
    }
}

#[tokio::test]
async fn a_reply_is_the_same_whole_streamed_and_streamed_byte_by_byte() {
    let server = Loopback::start(|seen| as_asked(&seen.body)).await;
    let whole = respond(&client(&server)).await.unwrap();
    assert_eq!(whole.text(), "Héllo 🦀");
    assert_eq!(whole.reasoning(), "hm");
    assert_eq!(whole.usage.total, TokenCount::measured(9));
    assert_eq!(stream(&client(&server)).await.unwrap(), whole);
    let dribbling = Loopback::start(|_| Answer::events(STREAM.as_bytes().chunks(1))).await;
    assert_eq!(stream(&client(&dribbling)).await.unwrap(), whole);
}

#[tokio::test]
async fn the_future_of_a_waiting_call_is_small() {
    let client = client_at("http://127.0.0.1:9", |_| {});
    let (request, ctx) = (request("hi"), call_context());
    let (whole, streamed) = (
        client.respond(&request, &ctx),
        client.stream(&request, &ctx),
    );
    let kept = [size_of_val(&whole), size_of_val(&streamed)];
    // Thousands wait at a time, and allocators keep blocks of up to about 1,000 bytes ready without a search.
    assert!(kept.iter().all(|bytes| *bytes <= 1_024), "{kept:?}");
}

#[tokio::test]
async fn consecutive_calls_share_one_connection() {
    let server = Loopback::start(|seen| as_asked(&seen.body)).await;
    let client = client(&server);
    for _ in 0..5 {
        stream(&client).await.unwrap();
        respond(&client).await.unwrap();
    }
    assert_eq!(server.seen().len(), 10);
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_server_that_hangs_up_after_streams_gets_a_new_connection_for_each() {
    let set_up = |config: &mut EndpointConfig| config.hangs_up_after_streams = Some("llama.cpp");
    for (server_header, connections) in
        [("server: llama.cpp", 4), ("server: other", 2), ("x: y", 2)]
    {
        let server = Loopback::start(move |_| {
            let headers = format!("content-type: text/event-stream\r\n{server_header}");
            Answer::whole(200, &headers, STREAM)
        })
        .await;
        let client = client_at(&server.url(), set_up);
        for _ in 0..4 {
            stream(&client).await.unwrap();
        }
        assert_eq!(server.connections(), connections, "{server_header}");
        assert!(server.seen()[0].headers.contains("connection: close"));
    }
}

#[tokio::test]
async fn a_reply_completes_even_if_the_server_keeps_the_connection_open() {
    let server =
        Loopback::start(|_| Answer::open_events([STREAM.as_bytes()]).then(Act::Stall)).await;
    assert_eq!(stream(&client(&server)).await.unwrap().text(), "Héllo 🦀");
    server.hung_up().await;
}

#[tokio::test]
async fn the_api_key_is_sent_as_a_bearer_token_and_never_shown() {
    let server = Loopback::start(|_| Answer::json(WHOLE)).await;
    let client = client(&server);
    respond(&client).await.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "POST /v1/chat/completions");
    let headers = &seen.headers;
    assert!(
        headers.contains(&format!("authorization: bearer {CANARY}")),
        "{headers}"
    );
    assert!(
        headers.contains("content-type: application/json"),
        "{headers}"
    );
    assert!(!format!("{client:?}").contains("canary"), "{client:?}");
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_waits_closes_its_connection() {
    let server = Loopback::start(|_| Answer::open_events([]).then(Act::Stall)).await;
    let client = client(&server);
    let (ctx, request) = (call_context(), request("hi"));
    let mut reply = client.stream(&request, &ctx).await.unwrap();
    assert!(reply.next().now_or_never().is_none());
    ctx.cancellation.cancel();
    let error = reply.next().await.unwrap().unwrap_err();
    assert_eq!(error.kind, LlmErrorKind::Cancelled);
    server.hung_up().await;
    assert!(reply.next().await.is_none(), "nothing follows an error");
}

#[tokio::test]
async fn a_call_that_is_cancelled_before_its_answer_closes_its_connection() {
    let server = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    let client = client(&server);
    let (ctx, request) = (call_context(), request("hi"));
    let call = client.respond(&request, &ctx);
    let cancelled = async {
        while server.seen().is_empty() {
            tokio::task::yield_now().await;
        }
        ctx.cancellation.cancel();
    };
    let (reply, ()) = tokio::join!(call, cancelled);
    assert_eq!(reply.unwrap_err().kind, LlmErrorKind::Cancelled);
    server.hung_up().await;
}

#[tokio::test]
async fn a_stream_that_is_dropped_closes_its_connection() {
    let server = Loopback::start(|_| {
        let first = STREAM.split_inclusive("\n\n").take(4).collect::<String>();
        Answer::open_events([first.as_bytes()]).then(Act::Stall)
    })
    .await;
    let client = client(&server);
    let (ctx, request) = (call_context(), request("hi"));
    let mut reply = client.stream(&request, &ctx).await.unwrap();
    assert!(reply.next().await.unwrap().is_ok());
    drop(reply);
    server.hung_up().await;
}

#[tokio::test]
async fn accept_and_content_type_headers_are_sent_once_whatever_is_configured() {
    let server = Loopback::start(|seen| as_asked(&seen.body)).await;
    let client = client_at(&server.url(), |config| {
        for (name, value) in [("Accept", "text/html"), ("X-Team", "blue")] {
            config.headers.push((name.to_owned(), Secret::new(value)));
        }
    });
    respond(&client).await.unwrap();
    stream(&client).await.unwrap();
    let told = |headers: &str, name: &str| -> Vec<String> {
        let lines = headers.lines().filter_map(|line| line.split_once(": "));
        let its = lines.filter(|(other, _)| *other == name);
        its.map(|(_, value)| value.trim().to_owned()).collect()
    };
    for (seen, accept) in server
        .seen()
        .iter()
        .zip(["application/json", "text/event-stream"])
    {
        assert_eq!(told(&seen.headers, "accept"), [accept]);
        assert_eq!(told(&seen.headers, "content-type"), ["application/json"]);
        assert_eq!(told(&seen.headers, "x-team"), ["blue"]);
    }
}

#[tokio::test]
async fn a_call_sends_its_traceparent_but_no_tracestate() {
    let server = Loopback::start(|seen| as_asked(&seen.body)).await;
    let client = client(&server);
    let mut ctx = call_context();
    for trace in [
        Some("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
        None,
    ] {
        let context = trace.map(|it| it.parse::<neuraxis_core::TraceContext>().unwrap());
        ctx.trace = context.map(|it| it.with_state(Some("vendor=1".to_owned())));
        client.respond(&request("hi"), &ctx).await.unwrap();
        let mut reply = client.stream(&request("hi"), &ctx).await.unwrap();
        while reply.next().await.is_some() {}
        for seen in server.seen().iter().rev().take(2) {
            let headers = seen.headers.to_lowercase();
            let told = trace.map(|trace| format!("traceparent: {trace}"));
            assert_eq!(headers.contains("traceparent"), told.is_some());
            assert!(told.is_none_or(|told| headers.contains(&told)), "{headers}");
            assert!(!headers.contains("tracestate"), "{headers}");
        }
    }
}
