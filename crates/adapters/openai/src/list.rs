//! What models a server has, before one of them is chosen.

use std::time::Duration;

use neuraxis_core::LlmError;
use neuraxis_wire::Endpoint;

use crate::client::endpoint_of;
use crate::config::{OpenAiConfig, OpenAiError};

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
    /// [`OpenAiError`], when a secret header was not read, the address cannot be used, or TLS cannot be set up.
    pub fn new(config: OpenAiConfig) -> Result<Self, OpenAiError> {
        config.check_headers()?;
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
        neuraxis_wire::models(&self.endpoint, &self.endpoint.route("models"), within).await
    }
}
