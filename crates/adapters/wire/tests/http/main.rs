//! The Chat Completions client with well-behaved and misbehaving servers on loopback.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod calls;
mod concurrency;
mod corpus;
mod faults;
mod late_system;
mod reach;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, Reply, ReplyAssembler, ReplyDelta};
use neuraxis_testkit::asking::promptly;
use neuraxis_testkit::loopback::Loopback;
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, Secret};

/// A key that must never be displayed.
const CANARY: &str = "sk-canary-5f1e";

/// A streamed reply: reasoning, text with a multi-byte character, and its end.
const STREAM: &str = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":null},\"finish_reason\":null}]}\n\n\
: keep-alive\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hé\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"llo 🦀\"}}]}\n\n\
data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n\
data: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":4}}\n\n\
data: [DONE]\n\n";

/// The same reply, whole.
const WHOLE: &str = r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Héllo 🦀","reasoning_content":"hm"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":4}}"#;

/// Creates a client of the server at an address, with a key, adjusted by `set_up`.
fn client_at(url: &str, set_up: impl FnOnce(&mut EndpointConfig)) -> ChatClient {
    let mut config = EndpointConfig::new(url);
    config.api_key = Some(Secret::new(CANARY));
    set_up(&mut config);
    let endpoint = Arc::new(Endpoint::new(config).unwrap());
    let route = endpoint.route("v1/chat/completions");
    ChatClient::new(endpoint, route, "m", Dialect::standard("test"))
}

fn client(server: &Loopback) -> ChatClient {
    client_at(&server.url(), |_| {})
}

/// A time limit that an exchange on loopback exceeds only on purpose, yet short enough to wait for.
const SOON: Duration = Duration::from_millis(50);

async fn respond(client: &ChatClient) -> Result<Reply, LlmError> {
    promptly(client.respond(&request("hi"), &call_context())).await
}

async fn deltas(client: &ChatClient) -> Result<Vec<ReplyDelta>, LlmError> {
    promptly(async {
        let stream = client.stream(&request("hi"), &call_context()).await?;
        stream.try_collect().await
    })
    .await
}

async fn stream(client: &ChatClient) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas(client).await? {
        assembler.push(delta)?;
    }
    assembler.finish()
}
