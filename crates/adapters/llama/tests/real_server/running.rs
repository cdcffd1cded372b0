//! A llama-server of a test's own, and how this adapter reaches it.

use neuraxis_llama::{LlamaClient, LlamaConfig};
use neuraxis_testkit::LlamaServer;

/// A llama-server with the scripted model. It ends when it is dropped.
pub(crate) struct Running(LlamaServer);

impl Running {
    /// Starts a server with more arguments, and waits until it can answer.
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
