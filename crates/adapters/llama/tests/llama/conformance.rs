//! The adapter follows the rules of its port.

use futures_util::TryStreamExt;
use neuraxis_core::{ReplyDelta, TokenCount};
use neuraxis_llama::{LlamaClient, LlamaConfig, Server};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::conformance::llm_client::Subject;
use neuraxis_testkit::loopback::{Act, Answer, Loopback};
use neuraxis_testkit::{call_context, request, spec};

use crate::client;
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
async fn usage_comes_from_the_counts_and_timings_of_the_server() {
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
async fn ollama_calls_that_share_an_index_are_all_returned() {
    const STREAM: &str = r#"data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_k1","index":0,"type":"function","function":{"name":"look","arguments":"{\"at\":\"sky\"}"}}]},"finish_reason":null}],"model":"tiny"}

data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_k2","index":0,"type":"function","function":{"name":"look","arguments":"{}"}}]},"finish_reason":null}],"model":"tiny"}

data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"tool_calls"}],"model":"tiny"}

data: [DONE]

"#;
    let server = Loopback::start(|_| Answer::events([STREAM.as_bytes()])).await;
    let mut request = request("two calls");
    request.tools = [spec("look").build()].into();
    let ctx = call_context();
    let stream = client(&server)
        .stream_respond(&request, &ctx)
        .await
        .unwrap();
    let deltas: Vec<_> = stream.try_collect().await.unwrap();
    let ids = deltas.iter().filter_map(|delta| match delta {
        ReplyDelta::ToolCall { provider_id, .. } => provider_id.as_deref(),
        _ => None,
    });
    assert_eq!(ids.collect::<Vec<_>>(), ["call_k1", "call_k2"]);
}

#[tokio::test]
async fn the_connection_of_a_stream_is_not_used_again() {
    // llama-server closes the connection, and a request sent in the meantime would be lost.
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

#[tokio::test]
async fn a_tool_name_respelled_by_lm_studio_is_restored() {
    let server = Loopback::start(chat).await;
    let mut request = request("two calls");
    // The server calls it `look`.
    request.tools = [spec("Look").build()].into();
    for (kind, expected) in [(Server::LmStudio, "Look"), (Server::Vllm, "look")] {
        let mut config = LlamaConfig::new(server.url());
        config.server = kind;
        let client = LlamaClient::new(config).unwrap();
        let reply = client.respond(&request, &call_context()).await.unwrap();
        assert_eq!(reply.calls().next().unwrap().name, expected.into());
        let ctx = call_context();
        let stream = client.stream_respond(&request, &ctx).await.unwrap();
        let deltas: Vec<_> = stream.try_collect().await.unwrap();
        let names = deltas.iter().filter_map(|delta| match delta {
            ReplyDelta::ToolCall { name, .. } => name.as_deref(),
            _ => None,
        });
        assert_eq!(names.collect::<Vec<_>>(), [expected, expected]);
    }
}
