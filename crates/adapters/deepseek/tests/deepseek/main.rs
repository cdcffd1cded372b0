//! The adapter against a server on loopback that behaves as DeepSeek documents.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod bad_input;
mod conformance;
mod corpus;
mod errors;
mod models;
mod reach;
mod requests;
mod shapes;
mod traps;
mod warnings;

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, ModelRequest, Reply, ReplyAssembler, ReplyDelta};
use neuraxis_deepseek::{DeepSeekClient, DeepSeekConfig, Secret};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::call_context;
use neuraxis_testkit::loopback::Loopback;

/// A key that must never be shown.
const CANARY: &str = "sk-canary-77aa";

/// Creates a client of a server on loopback, with the given setup.
fn client_with(server: &Loopback, set_up: impl FnOnce(&mut DeepSeekConfig)) -> DeepSeekClient {
    let mut config = DeepSeekConfig::default();
    config.base_url = server.url();
    config.api_key = Some(Secret::new(CANARY));
    set_up(&mut config);
    DeepSeekClient::new(config).unwrap()
}

fn client(server: &Loopback) -> DeepSeekClient {
    client_with(server, |_| {})
}

async fn deltas(
    client: &DeepSeekClient,
    request: &ModelRequest,
) -> Result<Vec<ReplyDelta>, LlmError> {
    let stream = client.stream_respond(request, &call_context()).await?;
    stream.try_collect().await
}

async fn streamed(client: &DeepSeekClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    let mut assembler = ReplyAssembler::default();
    for delta in deltas(client, request).await? {
        assembler.push(delta)?;
    }
    assembler.finish()
}

/// Returns the results of a request, whole and streamed.
async fn both(client: &DeepSeekClient, request: &ModelRequest) -> [Result<Reply, LlmError>; 2] {
    let whole = client.respond(request, &call_context()).await;
    [whole, streamed(client, request).await]
}
