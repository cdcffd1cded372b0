//! OpenAI as a provider that configuration can name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{
    ConnectContext, ConnectError, Connection, KeyDiscovery, LlmClient, ModelSource, OfferedModels,
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
        MaxConcurrent::share(&mut self.max_concurrent, &self.base_url);
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
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        let mut offer = OfferedModels::new(self.models(within).await?);
        offer.context_tokens = self.info().context_tokens;
        Ok(offer)
    }

    fn is_asked(&self, requested: &str, offered: &str) -> bool {
        is_asked_model(requested, offered)
    }

    fn advice(&self, error: &LlmError, table: &str) -> Option<String> {
        let refusal = match error.kind {
            LlmErrorKind::BadRequest => error.message.to_ascii_lowercase(),
            _ => return None,
        };
        self.advice_on(&refusal, table)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Api;

    #[test]
    fn advice_on_a_refusal_names_the_relevant_setting() {
        const ELSEWHERE: &str = "https://gateway.example/v1";
        const OPENAI: &str = "https://api.openai.com/v1";
        for (base_url, api, said, expected) in [
            (
                ELSEWHERE,
                Api::Chat,
                "Temperature: only 1",
                Some("t.temperature"),
            ),
            (
                OPENAI,
                Api::Responses,
                "no 'temperature'",
                Some("t.temperature"),
            ),
            (
                ELSEWHERE,
                Api::Chat,
                "no max_tokens",
                Some("t.max_tokens_field"),
            ),
            (ELSEWHERE, Api::Chat, "API key not valid", None),
            (
                ELSEWHERE,
                Api::Responses,
                "Not Found",
                Some("t.api = \"chat\""),
            ),
            (OPENAI, Api::Responses, "Not Found", None),
        ] {
            let mut config = OpenAiConfig::new("any");
            base_url.clone_into(&mut config.base_url);
            config.api = api;
            let client = OpenAiClient::new(config).unwrap();
            let error = LlmError::new(LlmErrorKind::BadRequest, said);
            let advice = client.advice(&error, "t");
            match expected {
                Some(key) => assert!(advice.unwrap().contains(key), "{said}"),
                None => assert_eq!(advice, None, "{said}"),
            }
            let error = LlmError::new(LlmErrorKind::Unauthorized, said);
            assert_eq!(client.advice(&error, "t"), None);
        }
    }
}
