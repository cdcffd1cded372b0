//! The adapter against a server on loopback that speaks as Anthropic documents it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod caching;
mod conformance;
mod corpus;
mod errors;
mod hostile;
#[path = "../../../wire/tests/http/loopback.rs"]
mod loopback;
mod reach;
mod replies;
mod requests;
mod shapes;
#[path = "../../../wire/tests/http/streams.rs"]
mod streams;
mod turns;

use futures_util::TryStreamExt;
use neuraxis_anthropic::{AnthropicClient, AnthropicConfig, Secret};
use neuraxis_core::{
    AssistantMessage, LlmError, Message, ModelRequest, Part, Reply, ReplyAssembler, ReplyPart,
    ToolCall, ToolCallId,
};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::call_context;
use serde_json::Value;

use crate::loopback::{Loopback, Seen};
use crate::shapes::answer;

/// A key that must never show.
const CANARY: &str = "sk-ant-canary-5f1e";

/// Makes the configuration of a client of a server on loopback.
fn config(server: &Loopback) -> AnthropicConfig {
    let mut config = AnthropicConfig::new("claude-opus-4-8");
    config.base_url = server.url();
    config.api_key = Some(Secret::new(CANARY));
    config
}

fn client(server: &Loopback) -> AnthropicClient {
    AnthropicClient::new(config(server)).unwrap()
}

async fn respond(client: &AnthropicClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    let ctx = call_context();
    promptly(client.respond(request, &ctx)).await
}

async fn stream(client: &AnthropicClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    promptly(async {
        let ctx = call_context();
        let mut deltas = client.stream_respond(request, &ctx).await?;
        let mut assembler = ReplyAssembler::default();
        while let Some(delta) = deltas.try_next().await? {
            assembler.push(delta)?;
        }
        assembler.finish()
    })
    .await
}

/// What a whole and a streamed call come to.
async fn both(client: &AnthropicClient, request: &ModelRequest) -> [Result<Reply, LlmError>; 2] {
    [
        respond(client, request).await,
        stream(client, request).await,
    ]
}

/// Waits for what must not hang, and lets no error pass that tells the key.
async fn promptly<T>(call: impl Future<Output = Result<T, LlmError>>) -> Result<T, LlmError> {
    let result = tokio::time::timeout(std::time::Duration::from_secs(20), call).await;
    let result = result.expect("the call hangs");
    if let Err(error) = &result {
        assert!(!format!("{error:?}").contains("canary"), "{error:?}");
    }
    result
}

/// Returns what is sent for a request.
async fn sent(request: &ModelRequest, set_up: impl FnOnce(&mut AnthropicConfig)) -> Seen {
    let server = Loopback::start(answer).await;
    let mut config = config(&server);
    set_up(&mut config);
    let client = AnthropicClient::new(config).unwrap();
    respond(&client, request).await.unwrap();
    server.seen().remove(0)
}

fn json(seen: &Seen) -> Value {
    serde_json::from_str(&seen.body).unwrap()
}

/// The body that is sent for a request.
async fn body(request: &ModelRequest, set_up: impl FnOnce(&mut AnthropicConfig)) -> Value {
    json(&sent(request, set_up).await)
}

/// Turns a reply into the message that the loop keeps of it.
fn message_of(reply: Reply) -> Message {
    let mut number = 0;
    let parts = reply.parts.into_iter().map(|part| match part {
        ReplyPart::Text(part) => Part::Text(part),
        ReplyPart::Reasoning(part) => Part::Reasoning(part),
        ReplyPart::ToolCall(call) => {
            number += 1;
            Part::ToolCall(ToolCall {
                id: ToolCallId::from_text(format!("loop-{number}")),
                name: call.name,
                arguments: call.arguments,
                provider_id: call.provider_id,
                state: call.state,
            })
        }
    });
    Message::Assistant(AssistantMessage {
        parts: parts.collect(),
        model: Some(reply.model),
    })
}
