//! The adapter against a server on loopback that behaves as llama-server documents.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test tells what is wrong by a panic"
)]

mod conformance;
mod context;
mod count;
mod errors;
mod probe;
mod reach;
mod ready;
mod requests;
mod shapes;

use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_testkit::loopback::Loopback;

/// Creates a client of a server on loopback.
fn client(server: &Loopback) -> LlamaClient {
    LlamaClient::new(LlamaConfig::new(server.url())).unwrap()
}
