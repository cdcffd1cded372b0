//! Streamed replies, through the clients that read them.

use std::sync::Arc;

use neuraxis_anthropic::{AnthropicClient, AnthropicConfig};
use neuraxis_openai::{OpenAiClient, OpenAiConfig};
use neuraxis_ports::LlmClient;
use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, Secret};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::{CANARY, Outcome, collect, promptly, runtime, same};

/// The maximum number of pieces that an input is split into: each is a separate write.
const PIECES: usize = 64;

/// A client of one protocol, and the server it calls.
struct Bench<C> {
    runtime: Runtime,
    server: Server,
    client: C,
}

impl<C> Bench<C> {
    fn new(client: impl FnOnce(&str, Secret) -> C) -> Self {
        let server = Server::start();
        Self {
            runtime: runtime(),
            client: client(&server.url, Secret::new(CANARY)),
            server,
        }
    }

    /// Compares a stream that arrived whole with the same stream in pieces, and also reads its bytes as a whole reply.
    fn run(
        &self,
        input: &[u8],
        stream: impl AsyncFn(&C) -> Outcome,
        respond: impl AsyncFn(&C) -> Outcome,
    ) {
        let ask = || self.runtime.block_on(promptly(stream(&self.client)));
        // An empty piece would end the body.
        self.server.events(input.chunks(input.len().max(1)));
        let whole = ask();
        let size = input.len().div_ceil(PIECES).max(1);
        self.server.events(input.chunks(size));
        same(whole, ask());
        let json = "content-type: application/json\r\n";
        self.server.whole(200, json, input);
        let _ = self.runtime.block_on(promptly(respond(&self.client)));
    }
}

thread_local! {
    static CHAT: Bench<ChatClient> = Bench::new(|url, key| {
        let mut config = EndpointConfig::new(url);
        config.api_key = Some(key);
        let endpoint = Arc::new(Endpoint::new(config).unwrap());
        let route = endpoint.route("x");
        ChatClient::new(endpoint, route, "m", Dialect::standard("test"))
    });
    static RESPONSES: Bench<OpenAiClient> = Bench::new(|url, key| {
        let mut config = OpenAiConfig::new("m");
        url.clone_into(&mut config.base_url);
        config.api_key = Some(key);
        OpenAiClient::new(config).unwrap()
    });
    static MESSAGES: Bench<AnthropicClient> = Bench::new(|url, key| {
        let mut config = AnthropicConfig::new("m");
        url.clone_into(&mut config.base_url);
        config.api_key = Some(key);
        AnthropicClient::new(config).unwrap()
    });
}

/// However a Chat Completions stream is split, it results in the same reply or the same error.
pub fn chat(input: &[u8]) {
    let (request, ctx) = (request("hi"), call_context());
    CHAT.with(|bench| {
        bench.run(
            input,
            async |client| collect(client.stream(&request, &ctx).await?).await,
            async |client| client.respond(&request, &ctx).await,
        );
    });
}

/// However a Responses stream is split, it results in the same reply or the same error.
pub fn responses(input: &[u8]) {
    RESPONSES.with(|bench| run_client(bench, input));
}

/// However a stream of Anthropic's Messages API is split, it results in the same reply or the same error.
pub fn messages(input: &[u8]) {
    MESSAGES.with(|bench| run_client(bench, input));
}

fn run_client(bench: &Bench<impl LlmClient>, input: &[u8]) {
    let (request, ctx) = (request("hi"), call_context());
    bench.run(
        input,
        async |client| collect(client.stream_respond(&request, &ctx).await?).await,
        async |client| client.respond(&request, &ctx).await,
    );
}
