//! The models that a server offers.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{ModelSource, OfferedModels, async_trait};
use serde::Deserialize;
use serde_json::Value;

use crate::endpoint::{Endpoint, Route};
use crate::reply::what_is_wrong;

/// The maximum number of models listed per server, and the maximum bytes of a line such as a name.
const MAX_MODELS: usize = 2_000;
const MAX_LINE: usize = 300;

/// Lists a server's models, to choose one when none is named yet.
#[derive(Debug)]
pub struct ModelList {
    endpoint: Endpoint,
    route: Route,
}

impl ModelList {
    /// Creates the list of a server; `route` is that of [`models()`]. Nothing is sent yet.
    #[must_use]
    pub const fn new(endpoint: Endpoint, route: Route) -> Self {
        Self { endpoint, route }
    }
}

#[async_trait]
impl ModelSource for ModelList {
    async fn offer(&self, within: Duration) -> Result<OfferedModels, LlmError> {
        let names = models(&self.endpoint, &self.route, within).await?;
        Ok(OfferedModels::new(names))
    }
}

#[derive(Deserialize)]
struct List {
    /// Null if there is none; a response without this field is not from a model server.
    #[serde(deserialize_with = "Option::deserialize")]
    data: Option<Vec<Entry>>,
}

/// A list's entry for one model. A model without a name cannot be called.
type Entry = serde_json::Map<String, Value>;

/// Returns the names of a server's models, waiting at most `within`; `route` is usually `v1/models`. The names are in
/// the server's order, without those that cannot be displayed and sent unchanged.
///
/// # Errors
///
/// An [`LlmError`] if the server cannot be reached, wants another key, or is not a model server.
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
    // Together sends a bare list.
    let entries = match body.trim_ascii_start().starts_with(b"[") {
        true => serde_json::from_slice::<Vec<Entry>>(&body).map(Some),
        false => serde_json::from_slice::<List>(&body).map(|list| list.data),
    };
    let entries = entries.map_err(|error| no_list(&what_is_wrong(&error)))?;
    let entries = entries.unwrap_or_default();
    if !entries.is_empty() && !entries.iter().any(|entry| entry.contains_key("id")) {
        return Err(no_list("none of its entries has an id"));
    }
    let ids = entries.iter().filter_map(|entry| entry.get("id"));
    let names = ids.filter_map(Value::as_str).map(str::to_owned);
    Ok(names
        .filter(|name| is_plain_line(name))
        .take(MAX_MODELS)
        .collect())
}

fn no_list(why: &str) -> LlmError {
    let said = format!("the list of models is not that of a model server: {why}");
    LlmError::new(LlmErrorKind::InvalidResponse, said)
}

/// Returns whether a name in a server's list is the model `requested`: Ollama adds a tag to a name without one.
#[must_use]
pub fn is_asked_model(requested: &str, offered: &str) -> bool {
    offered == requested || offered.strip_suffix(":latest") == Some(requested)
}

/// Returns whether a string from a server is a short line that can be displayed and sent unchanged.
#[must_use]
pub fn is_plain_line(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_LINE && !text.chars().any(char::is_control)
}
