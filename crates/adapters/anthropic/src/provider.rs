//! Anthropic as a provider that a configuration can name.

use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, KeyDiscovery, LlmClient, ModelSource, OfferedModels,
    Provider, ProviderKind, async_trait,
};
use neuraxis_wire::{Endpoint, EndpointError, MaxConcurrent, ModelList};

use crate::PROVIDER;
use crate::client::{AnthropicClient, endpoint_of, models_route};
use crate::config::{AnthropicConfig, AnthropicError};

/// The number of digits in the date that distinguishes a model's full name from its short one.
const DATE_DIGITS: usize = 8;

impl Provider for AnthropicConfig {
    const NAME: &'static str = PROVIDER;
    const KIND: ProviderKind = ProviderKind::Service;
    const KEY_DISCOVERY: Option<KeyDiscovery> = Some(KeyDiscovery {
        key: "ANTHROPIC_API_KEY",
        base_url: "ANTHROPIC_BASE_URL",
        model_setting: "anthropic_model",
        model: "claude-haiku-5-5",
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
        if self.model.trim().is_empty() {
            let endpoint = Endpoint::new(endpoint_of(self)).map_err(AnthropicError::from)?;
            let route = models_route(&endpoint);
            return Ok(Connection::unnamed(ModelList::new(endpoint, route)));
        }
        Ok(Connection::new(AnthropicClient::new(self)?))
    }
}

impl From<AnthropicError> for ConnectError {
    fn from(error: AnthropicError) -> Self {
        let key = match &error {
            AnthropicError::Endpoint(EndpointError::HeaderValue(name)) => match name.as_str() {
                "anthropic-beta" => "betas",
                "anthropic-version" => "version",
                _ => "api_key_env",
            },
            AnthropicError::Endpoint(error) => error.key(),
            AnthropicError::NoModel => "provider",
            AnthropicError::SmallBudget(_) | AnthropicError::BudgetAndThinking => "thinking_budget",
            AnthropicError::NothingToShow => "show_thinking",
        };
        Self::new(key, error)
    }
}

#[async_trait]
impl ModelSource for AnthropicClient {
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        let mut offer = OfferedModels::new(self.models(within).await?);
        offer.context_tokens = self.info().context_tokens;
        Ok(offer)
    }

    /// The list has full names, with dates; `requested` may be a short one.
    fn is_asked(&self, requested: &str, offered: &str) -> bool {
        let is_date = |rest: &str| {
            let date = rest.strip_prefix('-').unwrap_or_default();
            date.len() == DATE_DIGITS && date.bytes().all(|digit| digit.is_ascii_digit())
        };
        let requested = requested.strip_suffix("-latest").unwrap_or(requested);
        let rest = offered.strip_prefix(requested);
        rest.is_some_and(|rest| rest.is_empty() || is_date(rest))
    }

    fn advice(&self, error: &LlmError, table: &str) -> Option<String> {
        let is_refused = error.kind == LlmErrorKind::BadRequest
            && error.message.to_ascii_lowercase().contains("temperature");
        is_refused.then(|| format!("set {table}.temperature = \"left_out\""))
    }
}
