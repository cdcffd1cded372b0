//! A model, as one role reaches it.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_cassette::CassetteClient;
use neuraxis_core::{LlmError, Role};
use neuraxis_deepseek::DeepSeekClient;
use neuraxis_llama::{LlamaClient, ServerState};
use neuraxis_offline::OfflineModel;
use neuraxis_openai::OpenAiClient;
use neuraxis_ports::{LlmClient, ModelInfo};

use super::key::KeySource;
use crate::config::Provider;

/// A model, as one role reaches it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Endpoint {
    /// The role.
    pub role: Role,
    /// Where the model answers, without what may be a secret. None where nothing is reached over a network.
    pub address: Option<String>,
    /// Where the key comes from.
    pub key: KeySource,
    pub(super) client: Client,
}

/// A client of which it is known what it is.
#[derive(Debug, Clone)]
pub(super) enum Client {
    OpenAi(Arc<OpenAiClient>),
    DeepSeek(Arc<DeepSeekClient>),
    Llama(Arc<LlamaClient>),
    Offline(Arc<OfflineModel>),
    Cassette(Arc<CassetteClient>),
}

/// What an endpoint offers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Offer {
    /// Whether it can answer yet.
    pub readiness: Readiness,
    /// The names of its models.
    pub models: Vec<String>,
    /// The context size of the model that is asked, in tokens, where known.
    pub context_tokens: Option<u64>,
}

/// Whether an endpoint can answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    /// It can.
    Ready,
    /// It is still loading its model.
    Loading,
}

impl Endpoint {
    /// Returns who has the model.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        match &self.client {
            Client::OpenAi(_) => Provider::OpenAi,
            Client::DeepSeek(_) => Provider::DeepSeek,
            Client::Llama(_) => Provider::Llama,
            Client::Offline(_) => Provider::Offline,
            Client::Cassette(_) => Provider::Cassette,
        }
    }

    /// Returns what is known of the model without asking it.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        self.client().info()
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> Arc<dyn LlmClient> {
        match &self.client {
            Client::OpenAi(client) => Arc::clone(client) as Arc<dyn LlmClient>,
            Client::DeepSeek(client) => Arc::clone(client) as Arc<dyn LlmClient>,
            Client::Llama(client) => Arc::clone(client) as Arc<dyn LlmClient>,
            Client::Offline(client) => Arc::clone(client) as Arc<dyn LlmClient>,
            Client::Cassette(client) => Arc::clone(client) as Arc<dyn LlmClient>,
        }
    }

    /// Asks what it offers, within a time. No model is asked, so that nothing is paid for.
    ///
    /// # Errors
    ///
    /// An [`LlmError`], when nobody answers, the key is refused, or what answers is no model server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn offer(&self, within: Duration) -> Result<Offer, LlmError> {
        let info = self.info();
        let mut offer = Offer {
            readiness: Readiness::Ready,
            models: Vec::new(),
            context_tokens: info.context_tokens,
        };
        match &self.client {
            Client::OpenAi(client) => offer.models = client.models(within).await?,
            Client::DeepSeek(client) => offer.models = client.models(within).await?,
            Client::Llama(client) => {
                let probe = client.probe(within).await?;
                if probe.state == ServerState::Loading {
                    offer.readiness = Readiness::Loading;
                }
                offer.models = probe.models;
                offer.context_tokens = offer.context_tokens.or(probe.context_tokens);
            }
            Client::Offline(_) | Client::Cassette(_) => {
                offer.models = vec![info.model.model.to_string()];
            }
        }
        Ok(offer)
    }
}
