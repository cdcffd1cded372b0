//! OpenAI as a provider that a configuration can name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, KeyDiscovery, LlmClient, ModelSource, Offer,
    Provider, ProviderKind, async_trait,
};
use neuraxis_wire::{Endpoint, MaxConcurrent, ModelList, is_asked_model};

use crate::client::{OpenAiClient, endpoint_of, models_route};
use crate::config::{OpenAiConfig, OpenAiError};
use crate::dialect::PROVIDER;

impl Provider for OpenAiConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::Service;
    const KEY_DISCOVERY: Option<KeyDiscovery> = Some(KeyDiscovery {
        key: "OPENAI_API_KEY",
        base_url: "OPENAI_BASE_URL",
        model_setting: "openai_model",
        model: "gpt-5.4-mini",
    });

    fn base_url(&self) -> Option<&str> {
        Some(&self.base_url)
    }

    fn file_mut(&mut self) -> Option<(&'static str, &mut PathBuf)> {
        self.ca_file.as_mut().map(|file| ("ca_file", file))
    }

    fn secret_headers(&self) -> Option<&BTreeMap<String, String>> {
        Some(&self.headers_env)
    }

    fn connect(mut self, ctx: &ConnectContext<'_>) -> Result<Connection, ConnectError> {
        MaxConcurrent::share(&mut self.max_concurrent, &self.base_url, ctx.shared);
        self.api_key = ctx.key.clone();
        self.secret_headers = ctx.headers.clone();
        if self.model.trim().is_empty() {
            self.check_headers()?;
            let endpoint = Endpoint::new(endpoint_of(self))?;
            let route = models_route(&endpoint);
            return Ok(Connection::unnamed(ModelList::new(endpoint, route)));
        }
        Ok(Connection::new(OpenAiClient::new(self)?))
    }
}

impl From<OpenAiError> for ConnectError {
    fn from(error: OpenAiError) -> Self {
        match error {
            OpenAiError::Endpoint(error) => error.into(),
            OpenAiError::NoModel => Self::new("provider", error),
            OpenAiError::OnlyResponses { setting } | OpenAiError::OnlyChat { setting } => {
                Self::new(setting, error)
            }
            OpenAiError::NoVariable { .. } | OpenAiError::UnreadHeader { .. } => {
                Self::new("headers_env", error)
            }
        }
    }
}

#[async_trait]
impl ModelSource for OpenAiClient {
    async fn offer(&self, within: Duration) -> Result<Offer, LlmError> {
        let mut offer = Offer::new(self.models(within).await?);
        offer.context_tokens = self.info().context_tokens;
        Ok(offer)
    }

    fn is_asked(&self, asked: &str, offered: &str) -> bool {
        is_asked_model(asked, offered)
    }

    fn advice(&self, error: &LlmErrorKind, table: &str) -> Option<String> {
        (*error == LlmErrorKind::BadRequest).then(|| {
            format!(
                "if the server does not know the Responses API, set {table}.api = \"chat\"; check base_url and model"
            )
        })
    }
}
