//! The adapter with a loopback server that follows Anthropic's documentation.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod caching;
mod conformance;
mod corpus;
mod errors;
mod hostile;
mod reach;
mod replies;
mod requests;
mod shapes;
mod turns;

use neuraxis_anthropic::{AnthropicClient, AnthropicConfig, Secret};
use neuraxis_core::{LlmError, ModelRequest, Reply};
use neuraxis_testkit::asking::{json, respond, stream};
use neuraxis_testkit::loopback::{Loopback, Seen};
use serde_json::Value;

use crate::shapes::answer;

/// A key that must never be displayed.
const CANARY: &str = "sk-ant-canary-5f1e";

/// Creates the configuration for a client of a loopback server.
fn config(server: &Loopback) -> AnthropicConfig {
    let mut config = AnthropicConfig::new("claude-opus-4-8");
    config.base_url = server.url();
    config.api_key = Some(Secret::new(CANARY));
    config
}

fn client(server: &Loopback) -> AnthropicClient {
    AnthropicClient::new(config(server)).unwrap()
}

/// The results of a whole and a streamed call.
async fn both(client: &AnthropicClient, request: &ModelRequest) -> [Result<Reply, LlmError>; 2] {
    [
        respond(client, request).await,
        stream(client, request).await,
    ]
}

/// Returns the HTTP request that is sent for a model request.
async fn sent(request: &ModelRequest, set_up: impl FnOnce(&mut AnthropicConfig)) -> Seen {
    let server = Loopback::start(answer).await;
    let mut config = config(&server);
    set_up(&mut config);
    let client = AnthropicClient::new(config).unwrap();
    respond(&client, request).await.unwrap();
    server.seen().remove(0)
}

/// The body that is sent for a request.
async fn body(request: &ModelRequest, set_up: impl FnOnce(&mut AnthropicConfig)) -> Value {
    json(&sent(request, set_up).await)
}
