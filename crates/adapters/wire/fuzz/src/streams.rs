//! Streamed replies, through the client that reads them.

use std::sync::Arc;

use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{
    ChatClient, Dialect, Endpoint, EndpointConfig, ResponsesClient, ResponsesDialect, Secret,
};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::{CANARY, Outcome, collect, promptly, runtime, same};

/// Pieces an input is cut into, at the most: each is a write of its own.
const PIECES: usize = 64;

/// A client of either protocol, and the server it asks.
struct Bench<C> {
    runtime: Runtime,
    server: Server,
    client: C,
}

impl<C> Bench<C> {
    fn new(client: impl FnOnce(Arc<Endpoint>) -> C) -> Self {
        let server = Server::start();
        let mut config = EndpointConfig::new(&server.url);
        config.api_key = Some(Secret::new(CANARY));
        let endpoint = Arc::new(Endpoint::new(config).unwrap());
        Self {
            runtime: runtime(),
            client: client(endpoint),
            server,
        }
    }

    /// Compares a stream that came whole with the same in pieces, and reads its bytes as a whole reply, too.
    fn run(
        &self,
        input: &[u8],
        stream: impl AsyncFn(&C) -> Outcome,
        respond: impl AsyncFn(&C) -> Outcome,
    ) {
        let ask = || self.runtime.block_on(promptly(stream(&self.client)));
        // A piece of no bytes would end the body.
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
    static CHAT: Bench<ChatClient> = Bench::new(|endpoint| {
        let route = endpoint.route("x");
        ChatClient::new(endpoint, route, "m", Dialect::standard("test"))
    });
    static RESPONSES: Bench<ResponsesClient> = Bench::new(|endpoint| {
        let route = endpoint.route("x");
        ResponsesClient::new(endpoint, route, "m", ResponsesDialect::standard("test"))
    });
}

/// However a stream of Chat Completions is cut, it gives the same reply or the same error.
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

/// However a stream of Responses is cut, it gives the same reply or the same error.
pub fn responses(input: &[u8]) {
    let (request, ctx) = (request("hi"), call_context());
    RESPONSES.with(|bench| {
        bench.run(
            input,
            async |client| collect(client.stream(&request, &ctx).await?).await,
            async |client| client.respond(&request, &ctx).await,
        );
    });
}
