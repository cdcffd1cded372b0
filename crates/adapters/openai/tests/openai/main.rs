//! The adapter against a server on loopback that behaves as OpenAI documents.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod conformance;
mod corpus;
mod errors;
mod hostile;
mod reach;
mod requests;
mod shapes;
mod traps;
mod turns;

use neuraxis_core::{LlmError, ModelRequest};
use neuraxis_openai::{Api, OpenAiClient, OpenAiConfig, Secret};
use neuraxis_testkit::asking::{respond, stream};
use neuraxis_testkit::loopback::Loopback;

/// A key that must never be shown.
const CANARY: &str = "sk-canary-5f1e";

const APIS: [Api; 2] = [Api::Responses, Api::Chat];

/// Returns the configuration of a client of a server on loopback.
fn config(server: &Loopback, api: Api) -> OpenAiConfig {
    let mut config = OpenAiConfig::new("gpt-5.3");
    config.base_url = format!("{}/v1", server.url());
    config.api = api;
    config.api_key = Some(Secret::new(CANARY));
    config
}

fn client(server: &Loopback, api: Api) -> OpenAiClient {
    OpenAiClient::new(config(server, api)).unwrap()
}

/// Returns the errors of a whole and of a streamed call.
async fn both(client: &OpenAiClient, request: &ModelRequest) -> [LlmError; 2] {
    [
        respond(client, request).await.unwrap_err(),
        stream(client, request).await.unwrap_err(),
    ]
}
