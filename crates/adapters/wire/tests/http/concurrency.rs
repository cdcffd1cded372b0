//! The limit on concurrent replies.

use std::num::NonZeroUsize;

use futures_util::{FutureExt, StreamExt};
use neuraxis_core::LlmErrorKind;
use neuraxis_ports::ReplyStream;
use neuraxis_testkit::loopback::{Act, Answer, Loopback, Seen};
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{ChatClient, Endpoint, EndpointConfig, MaxConcurrent, models};

use crate::{SOON, STREAM, WHOLE, client_at, promptly, respond, stream};

fn most(count: usize) -> MaxConcurrent {
    MaxConcurrent::new(NonZeroUsize::new(count).unwrap())
}

fn limited(server: &Loopback, count: usize) -> ChatClient {
    sharing(server, &most(count))
}

fn sharing(server: &Loopback, limit: &MaxConcurrent) -> ChatClient {
    let limit = limit.clone();
    client_at(&server.url(), |config| config.max_concurrent = Some(limit))
}

/// Streams stall after their beginning; all other requests are answered.
fn streams_stall(seen: &Seen) -> Answer {
    let first: String = STREAM.split_inclusive("\n\n").take(4).collect();
    if seen.line.starts_with("GET") {
        Answer::json(r#"{"data":[{"id":"m"}]}"#)
    } else if seen.body.contains("\"stream\":true") {
        Answer::open_events([first.as_bytes()]).then(Act::Stall)
    } else {
        Answer::json(WHOLE)
    }
}

async fn begin(client: &ChatClient) -> ReplyStream {
    let begun = client.stream(&request("hi"), &call_context()).await;
    let mut reply = begun.unwrap();
    assert!(reply.next().await.unwrap().is_ok());
    reply
}

#[tokio::test]
async fn a_call_beyond_the_concurrency_limit_waits_for_a_free_slot() {
    let server = Loopback::start(streams_stall).await;
    let client = limited(&server, 2);
    let (first, second) = (begin(&client).await, begin(&client).await);
    let mut third = Box::pin(respond(&client));
    for _ in 0..100 {
        assert!((&mut third).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().len(), 2, "the third was not sent");
    drop(first);
    assert_eq!(third.await.unwrap().text(), "Héllo 🦀");
    drop(second);
}

#[tokio::test]
async fn a_slot_is_released_after_a_reply_and_after_an_error() {
    let server = Loopback::start(|seen| match seen.body.contains("\"stream\":true") {
        true => Answer::events([STREAM.as_bytes()]),
        false => Answer::whole(500, "x: y", "{}"),
    })
    .await;
    let client = limited(&server, 1);
    for _ in 0..3 {
        stream(&client).await.unwrap();
        respond(&client).await.unwrap_err();
    }
    let broken = Loopback::start(|_| Answer::whole(500, "x: y", "{}")).await;
    let client = limited(&broken, 1);
    for _ in 0..3 {
        stream(&client).await.unwrap_err();
    }
}

#[tokio::test]
async fn waiting_for_a_slot_can_be_cancelled() {
    let server = Loopback::start(streams_stall).await;
    let client = limited(&server, 1);
    let _first = begin(&client).await;
    let (ctx, request) = (call_context(), request("hi"));
    for is_streamed in [false, true] {
        let mut waiting = Box::pin(async {
            if is_streamed {
                client.stream(&request, &ctx).await.map(drop)
            } else {
                client.respond(&request, &ctx).await.map(drop)
            }
        });
        if !is_streamed {
            assert!((&mut waiting).now_or_never().is_none());
            assert_eq!(ctx.waited(), None, "it waits still");
            ctx.cancellation.cancel();
        }
        let error = promptly(waiting).await.unwrap_err();
        assert_eq!(error.kind, LlmErrorKind::Cancelled);
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn a_call_waits_for_a_slot_at_most_the_total_timeout() {
    let server = Loopback::start(streams_stall).await;
    let client = client_at(&server.url(), |config| {
        config.max_concurrent = Some(most(1));
        config.timeouts.total = Some(SOON);
    });
    let begun = client.stream(&request("hi"), &call_context()).await;
    let _first = begun.unwrap();
    for error in [
        respond(&client).await.unwrap_err(),
        stream(&client).await.unwrap_err(),
    ] {
        let busy = LlmErrorKind::RateLimited { retry_after: None };
        assert_eq!(error.kind, busy, "the model is not to blame");
        assert!(error.message.contains("max_concurrent"), "{error}");
    }
    assert_eq!(server.seen().len(), 1);
}

#[tokio::test]
async fn waiting_for_a_slot_does_not_count_against_the_total_timeout() {
    let server = Loopback::start(|seen| match seen.body.contains("\"stream\":true") {
        true => streams_stall(seen),
        false => Answer::nothing().then(Act::Stall),
    })
    .await;
    let limit = most(1);
    let holding = begin(&sharing(&server, &limit)).await;
    let client = client_at(&server.url(), |config| {
        config.max_concurrent = Some(limit);
        config.timeouts.total = Some(SOON * 20);
    });
    let (ctx, request) = (call_context(), request("hi"));
    let mut waiting = Box::pin(client.respond(&request, &ctx));
    assert!((&mut waiting).now_or_never().is_none());
    tokio::time::sleep(SOON).await;
    drop(holding);
    let error = waiting.await.unwrap_err();
    assert!(error.message.ends_with("sent nothing for 1s"), "{error}");
    assert!(ctx.waited() >= Some(SOON), "{:?}", ctx.waited());
}

#[tokio::test]
async fn listing_models_needs_no_slot() {
    let server = Loopback::start(streams_stall).await;
    let mut config = EndpointConfig::new(server.url());
    config.max_concurrent = Some(most(1));
    let endpoint = std::sync::Arc::new(Endpoint::new(config).unwrap());
    let route = endpoint.route("v1/chat/completions");
    let dialect = neuraxis_wire::Dialect::standard("test");
    let client = ChatClient::new(endpoint.clone(), route, "m", dialect);
    let _first = begin(&client).await;
    let route = endpoint.route("v1/models");
    let listed = promptly(models(&endpoint, &route, SOON * 100)).await;
    assert_eq!(listed.unwrap(), ["m"]);
}

#[tokio::test]
async fn clones_of_a_limit_are_shared_by_all_endpoints() {
    let server = Loopback::start(streams_stall).await;
    let limit = most(1);
    let (first, second) = (sharing(&server, &limit), sharing(&server, &limit));
    let stalled = begin(&first).await;
    let mut waiting = Box::pin(respond(&second));
    for _ in 0..100 {
        assert!((&mut waiting).now_or_never().is_none());
        tokio::task::yield_now().await;
    }
    assert_eq!(server.seen().len(), 1, "the second was not sent");
    drop(stalled);
    waiting.await.unwrap();
}

#[test]
fn a_concurrency_limit_is_a_positive_integer() {
    let limit: MaxConcurrent = serde_json::from_str("3").unwrap();
    assert_eq!(limit, most(3));
    assert_eq!(serde_json::to_string(&limit).unwrap(), "3");
    for nothing in ["0", "-1", "\"4\""] {
        assert!(serde_json::from_str::<MaxConcurrent>(nothing).is_err());
    }
}
