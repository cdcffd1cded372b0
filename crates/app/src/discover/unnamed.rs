//! A provider of which no model is named yet.

use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_openai::ModelList;

use super::endpoint::{Offer, Readiness};
use super::key::KeySource;
use crate::config::Provider;

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
    pub(super) list: ModelList,
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
        Ok(Offer {
            readiness: Readiness::Ready,
            models: self.list.models(within).await?,
            context_tokens: None,
        })
    }
}
