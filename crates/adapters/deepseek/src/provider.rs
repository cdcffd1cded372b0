//! DeepSeek as a provider that configuration can name.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, KeyDiscovery, LlmClient, ModelSource, OfferedModels,
    Provider, ProviderKind, async_trait,
};
use neuraxis_wire::{MaxConcurrent, is_asked_model};

use crate::client::{DeepSeekClient, PROVIDER};
use crate::config::{DEFAULT_MODEL, DeepSeekConfig};

impl Provider for DeepSeekConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::Service;
    const KEY_DISCOVERY: Option<KeyDiscovery> = Some(KeyDiscovery {
        key: "DEEPSEEK_API_KEY",
        base_url: "DEEPSEEK_BASE_URL",
        model_setting: "deepseek_model",
        model: DEFAULT_MODEL,
    });

    fn base_url(&self) -> Option<&str> {
        Some(&self.base_url)
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        self.ca_file.as_mut().map(|file| ("ca_file", file))
    }

    fn connect(mut self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        MaxConcurrent::share(&mut self.max_concurrent, &self.base_url);
        self.api_key = ctx.key.clone();
        Ok(Connection::new(DeepSeekClient::new(self)?))
    }
}

#[async_trait]
impl ModelSource for DeepSeekClient {
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        let mut offer = OfferedModels::new(self.models(within).await?);
        offer.context_tokens = self.info().context_tokens;
        Ok(offer)
    }

    fn is_asked(&self, requested: &str, offered: &str) -> bool {
        is_asked_model(requested, offered)
    }
}
