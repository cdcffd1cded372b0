//! A model as one role reaches it, and a provider without a named model.

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::{LlmError, Role};
use neuraxis_ports::{LlmClient, ModelInfo, ModelSource, OfferedModels};

use super::key::KeySource;
use crate::providers::Provider;

/// A model, as one role reaches it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Endpoint {
    /// The role.
    pub role: Role,
    /// The address of the model, without potential secrets. `None` if it is not reached over a network.
    pub address: Option<String>,
    /// Where the key comes from.
    pub key: KeySource,
    pub(super) provider: Provider,
    pub(super) client: Arc<dyn LlmClient>,
    pub(super) source: Arc<dyn ModelSource>,
}

impl Endpoint {
    /// Returns the provider of the model.
    #[must_use]
    pub const fn provider(&self) -> Provider {
        self.provider
    }

    /// Returns what is known about the model without contacting it.
    #[must_use]
    pub fn info(&self) -> ModelInfo {
        self.client.info()
    }

    /// Returns the client.
    #[must_use]
    pub fn client(&self) -> Arc<dyn LlmClient> {
        Arc::clone(&self.client)
    }

    /// Asks the endpoint what it offers, within a time limit. Calls no model, so it costs nothing.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if nothing answers, the key is refused, or what answers is not a model server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        self.source.offer(within).await
    }

    /// Returns whether an offered name is that of the model in use.
    #[must_use]
    pub fn is_asked(&self, offered: &str) -> bool {
        self.source.is_asked(&self.info().model.model, offered)
    }

    /// Returns what to do about an error, if the provider has more specific advice than the error kind.
    #[must_use]
    pub fn advice(&self, error: &LlmError) -> Option<String> {
        self.source.advice(error, &format!("models.{}", self.role))
    }
}

/// A provider without a named model. It can list its models.
#[derive(Debug)]
#[non_exhaustive]
pub struct UnnamedModel {
    /// The provider.
    pub provider: Provider,
    /// Its address, without potential secrets.
    pub address: String,
    /// Where the key comes from.
    pub key: KeySource,
    pub(super) source: Arc<dyn ModelSource>,
}

impl UnnamedModel {
    /// Asks the provider what it offers, within a time limit. Calls no model, so it costs nothing.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] if nothing answers, the key is refused, or what answers is not a model server.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        self.source.offer(within).await
    }
}
