//! The adapter keeps to the rules of its port.

use futures_util::TryStreamExt;
use neuraxis_core::TokenCount;
use neuraxis_ports::LlmClient;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::{call_context, request};

use crate::client;
use crate::loopback::{Act, Answer, Loopback};
use crate::shapes::chat;

async fn subject() -> Subject {
    let server = Loopback::start(chat).await;
    let stalled = Loopback::start(|_| Answer::nothing().then(Act::Stall)).await;
    Subject::new(client(&server), [request("hello"), request("two calls")])
        .with_stalled(client(&stalled))
        .keeping((server, stalled))
}

neuraxis_testkit::llm_client_suite!(subject().await);

#[tokio::test]
async fn what_the_server_counts_is_the_usage() {
    let server = Loopback::start(chat).await;
    let reply = client(&server)
        .respond(&request("hello"), &call_context())
        .await
        .unwrap();
    assert_eq!(reply.usage.prompt, TokenCount::measured(50));
    assert_eq!(reply.usage.cached, TokenCount::measured(36));
    assert_eq!(reply.usage.completion, TokenCount::measured(4));
    let reply = client(&server)
        .respond(&request("two calls"), &call_context())
        .await
        .unwrap();
    assert_eq!(
        reply.usage.cached,
        TokenCount::measured(0),
        "from the timings"
    );
    assert_eq!(*reply.model.model, *"tiny");
}

#[tokio::test]
async fn the_connection_of_a_stream_is_not_used_again() {
    // llama-server closes it, and a request that was sent in the meantime would be lost.
    const EVENTS: &str = "content-type: text/event-stream\r\nserver: llama.cpp";
    const STREAM: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";
    let server = Loopback::start(|_| Answer::whole(200, EVENTS, STREAM)).await;
    let client = client(&server);
    for _ in 0..3 {
        let ctx = call_context();
        let stream = client.stream_respond(&request("hi"), &ctx).await.unwrap();
        assert!(stream.try_collect::<Vec<_>>().await.is_ok());
    }
    assert_eq!(server.connections(), 3);
}
