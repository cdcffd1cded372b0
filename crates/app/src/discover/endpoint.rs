//! A model as one role reaches it, and a provider of which no model is named yet.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, Role};
use neuraxis_ports::{LlmClient, ModelInfo, ModelSource, Offer};

use super::key::KeySource;
use crate::providers::Provider;

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
    pub(super) provider: Provider,
    pub(super) client: Arc<dyn LlmClient>,
    pub(super) source: Arc<dyn ModelSource>,
}

impl Endpoint {
    /// Returns who has the model.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns what is known of the model without asking it.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        self.client.info()
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> Arc<dyn LlmClient> {
        Arc::clone(&self.client)
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
        self.source.offer(within).await
    }

    /// Tells whether a name on offer is that of the model which is asked.
    #[must_use]
    pub fn is_asked(&self, offered: &str) -> bool {
        self.source.is_asked(&self.info().model.model, offered)
    }

    /// Says what to do about an error, where the provider knows more than what its kind tells.
    #[must_use]
    pub fn advice(&self, error: &LlmError) -> Option<String> {
        self.source.advice(error, &format!("models.{}", self.role))
    }
}

/// A provider of which no model is named yet. It can be asked which ones it has.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnnamedModel {
    /// The provider.
    pub provider: Provider,
    /// Where it answers, without what may be a secret.
    pub address: String,
    /// Where the key comes from.
    pub key: KeySource,
    pub(super) source: Arc<dyn ModelSource>,
}

impl UnnamedModel {
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
        self.source.offer(within).await
    }
}
