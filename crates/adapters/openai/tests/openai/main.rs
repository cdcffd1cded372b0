//! The adapter against a server on loopback that speaks as OpenAI documents it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod conformance;
mod corpus;
mod errors;
mod hostile;
#[path = "../../../wire/tests/http/loopback.rs"]
mod loopback;
mod reach;
mod requests;
mod shapes;
#[path = "../../../wire/tests/http/streams.rs"]
mod streams;
mod traps;
mod turns;

use futures_util::TryStreamExt;
use neuraxis_core::{LlmError, ModelRequest, Reply, ReplyAssembler};
use neuraxis_openai::{Api, OpenAiClient, OpenAiConfig, Secret};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::call_context;

use crate::loopback::Loopback;

/// A key that must never show.
const CANARY: &str = "sk-canary-5f1e";

const APIS: [Api; 2] = [Api::Responses, Api::Chat];

/// Makes the configuration of a client of a server on loopback.
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

async fn respond(client: &OpenAiClient, request: &ModelRequest) -> Result<Reply, LlmError> {
    let ctx = call_context();
    promptly(client.respond(request, &ctx)).await
}

async fn stream(client: &OpenAiClient, request: &ModelRequest) -> Result<Reply, LlmError> {
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

/// The errors of a whole and of a streamed call.
async fn both(client: &OpenAiClient, request: &ModelRequest) -> [LlmError; 2] {
    [
        respond(client, request).await.unwrap_err(),
        stream(client, request).await.unwrap_err(),
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
