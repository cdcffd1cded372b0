//! Responses of a server that refuses or fails.

use std::sync::Arc;

use neuraxis_testkit::{call_context, request};
use neuraxis_wire::{ChatClient, Dialect, Endpoint, EndpointConfig, Secret};
use tokio::runtime::Runtime;

use crate::server::Server;
use crate::{CANARY, promptly, runtime};

/// One status for each meaning that a status has by itself.
const STATUSES: [u16; 10] = [302, 400, 401, 402, 404, 413, 422, 429, 500, 503];

/// Far above the limit on any message, and far below the longest input.
const MAX_MESSAGE: usize = 8 * 1024;

struct Bench {
    runtime: Runtime,
    server: Server,
    client: ChatClient,
}

thread_local! {
    static BENCH: Bench = {
        let server = Server::start();
        let mut config = EndpointConfig::new(&server.url);
        config.api_key = Some(Secret::new(CANARY));
        let endpoint = Arc::new(Endpoint::new(config).unwrap());
        let route = endpoint.route("x");
        let client = ChatClient::new(endpoint, route, "m", Dialect::standard("test"));
        Bench { runtime: runtime(), server, client }
    };
}

/// Builds a response whose wait time is the input's first line and whose body is the rest. It must result in an error
/// of bounded length, on one line that contains no terminal escape sequence.
pub fn errors(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n');
    let (wait, body) = input.split_at(end.unwrap_or(0));
    let wait: String = wait
        .iter()
        .map(|byte| char::from(*byte))
        .filter(|letter| letter.is_ascii_graphic() || *letter == ' ')
        .collect();
    let body = body.strip_prefix(b"\n").unwrap_or(body);
    let headers = format!("retry-after: {wait}\r\nlocation: {wait}\r\n");
    let (request, ctx) = (request("hi"), call_context());
    BENCH.with(|bench| {
        for status in STATUSES {
            bench.server.whole(status, &headers, body);
            let call = promptly(bench.client.respond(&request, &ctx));
            let error = bench
                .runtime
                .block_on(call)
                .expect_err("a refusal is no reply");
            assert!(
                error.message.len() <= MAX_MESSAGE,
                "{}",
                error.message.len()
            );
            assert!(
                !error.message.contains(char::is_control),
                "{:?}",
                error.message
            );
        }
    });
}
