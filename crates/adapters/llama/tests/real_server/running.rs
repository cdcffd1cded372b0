//! A llama-server for a single test, and how this adapter reaches it.

use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_testkit::LlamaServer;

/// A llama-server with the scripted model. Dropping it ends the server.
pub(crate) struct Running(LlamaServer);

impl Running {
    /// Starts a server with additional arguments, and waits until it can answer.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self(LlamaServer::start_with(arguments))
    }

    pub(crate) fn config(&self) -> LlamaConfig {
        LlamaConfig::new(self.0.base_url())
    }

    pub(crate) fn client(&self) -> LlamaClient {
        LlamaClient::new(self.config()).unwrap()
    }
}
