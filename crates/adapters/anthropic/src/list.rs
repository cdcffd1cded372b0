//! What models a server has, before one of them is chosen.

use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_wire::{Endpoint, EndpointError};

use crate::client::endpoint_of;
use crate::config::AnthropicConfig;

/// How many models are listed: as many as the service lists at once.
const LISTED_MODELS: &str = "1000";

/// Lists a server's models, for choosing one: the configuration need not name any.
#[derive(Debug)]
pub struct ModelList {
    endpoint: Endpoint,
}

impl ModelList {
    /// Prepares the connection. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], when the address cannot be used, or TLS cannot be set up.
    pub fn new(config: AnthropicConfig) -> Result<Self, EndpointError> {
        let endpoint = Endpoint::new(endpoint_of(config))?;
        Ok(Self { endpoint })
    }

    /// Asks the server for the names of its models, within a time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`], when there is no server, it wants another key, or it lists no models.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn models(&self, within: Duration) -> Result<Vec<String>, LlmError> {
        models(&self.endpoint, within).await
    }
}

/// Asks a server for the names of its models.
pub(crate) async fn models(endpoint: &Endpoint, within: Duration) -> Result<Vec<String>, LlmError> {
    let route = endpoint.route("v1/models");
    let route = route.with_query("limit", LISTED_MODELS);
    neuraxis_wire::models(endpoint, &route, within).await
}
