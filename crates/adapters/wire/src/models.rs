//! What models a server offers.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{ModelSource, Offer, async_trait};
use serde::Deserialize;

use crate::endpoint::{Endpoint, Route};

/// How many models of a server are listed, and how many bytes a line such as a name may have.
const MAX_MODELS: usize = 2_000;
const MAX_LINE: usize = 300;

/// Lists a server's models, for choosing one where none is named yet.
#[derive(Debug)]
pub struct ModelList {
    endpoint: Endpoint,
    route: Route,
}

impl ModelList {
    /// Makes the list of a server; the route is that of [`models()`]. Nothing is sent yet.
    #[must_use]
    pub const fn new(endpoint: Endpoint, route: Route) -> Self {
        Self { endpoint, route }
    }
}

#[async_trait]
impl ModelSource for ModelList {
    async fn offer(&self, within: Duration) -> Result<Offer, LlmError> {
        let names = models(&self.endpoint, &self.route, within).await?;
        Ok(Offer::new(names))
    }
}

#[derive(Deserialize)]
struct List {
    /// Null where there is none; but what has no list at all is no model server.
    #[serde(deserialize_with = "Option::deserialize")]
    data: Option<Vec<Entry>>,
}

#[derive(Deserialize)]
struct Entry {
    /// Null for one that cannot be asked by any name.
    #[serde(deserialize_with = "Option::deserialize")]
    id: Option<String>,
}

/// Asks a server for the names of its models, within a time; `route` is usually `v1/models`. In the server's order,
/// without names that cannot be shown and sent as they are.
///
/// # Errors
///
/// An [`LlmError`], when there is no server, it wants another key, or it is no model server.
///
/// # Cancel safety
///
/// Dropping the future closes the connection.
pub async fn models(
    endpoint: &Endpoint,
    route: &Route,
    within: Duration,
) -> Result<Vec<String>, LlmError> {
    let body = endpoint.get(route, within).await?;
    // Together's has nothing around it.
    let entries = match body.trim_ascii_start().starts_with(b"[") {
        true => serde_json::from_slice::<Vec<Entry>>(&body).map(Some),
        false => serde_json::from_slice::<List>(&body).map(|list| list.data),
    };
    let entries = entries.map_err(|error| {
        let said = format!("the list of models is not what a model server says: {error}");
        LlmError::new(LlmErrorKind::InvalidResponse, said)
    })?;
    let names = entries.into_iter().flatten().filter_map(|entry| entry.id);
    Ok(names
        .filter(|name| is_plain_line(name))
        .take(MAX_MODELS)
        .collect())
}

/// Tells whether a name in a server's list is that of the model which is asked by the name `asked`: Ollama adds a tag to a
/// name that has none.
#[must_use]
pub fn is_asked_model(asked: &str, offered: &str) -> bool {
    offered == asked || offered.strip_suffix(":latest") == Some(asked)
}

/// Tells whether a text from a server is a short line that can be shown and sent as it is.
#[must_use]
pub fn is_plain_line(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_LINE && !text.chars().any(char::is_control)
}
