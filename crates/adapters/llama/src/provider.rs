//! A llama-server, or a similar server, as a provider that configuration can name.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, LlmClient, ModelSource, OfferedModels, Provider,
    ProviderKind, Readiness, async_trait,
};
use neuraxis_wire::{MaxConcurrent, is_asked_model};

use crate::client::{LlamaClient, UNNAMED};
use crate::config::LlamaConfig;
use crate::probe::ServerState;
use crate::server::PROVIDER;

impl Provider for LlamaConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::OwnServer;

    fn base_url(&self) -> Option<&str> {
        Some(&self.base_url)
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        self.ca_file.as_mut().map(|file| ("ca_file", file))
    }

    fn connect(mut self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        MaxConcurrent::share(&mut self.max_concurrent, &self.base_url);
        self.api_key = ctx.key.clone();
        Ok(Connection::new(LlamaClient::new(self)?))
    }
}

#[async_trait]
impl ModelSource for LlamaClient {
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        let known = self.info().context_tokens;
        let probe = self.probe(within).await?;
        let mut offer = OfferedModels::new(probe.models);
        if probe.state == ServerState::Loading {
            offer.readiness = Readiness::Loading;
        }
        offer.context_tokens = known.or(probe.context_tokens);
        Ok(offer)
    }

    /// A llama-server that serves one model accepts any name for it.
    fn is_asked(&self, requested: &str, offered: &str) -> bool {
        requested == UNNAMED || is_asked_model(requested, offered)
    }
}
