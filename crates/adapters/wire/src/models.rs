//! What models a server offers.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_ports::{ModelSource, Offer, async_trait};
use serde::Deserialize;
use serde_json::Value;

use crate::endpoint::{Endpoint, Route};
use crate::reply::what_is_wrong;

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

/// What a list says of one model. One that has no name cannot be asked.
type Entry = serde_json::Map<String, Value>;

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
    let entries = entries.map_err(|error| no_list(&what_is_wrong(&error)))?;
    let entries = entries.unwrap_or_default();
    if !entries.is_empty() && !entries.iter().any(|entry| entry.contains_key("id")) {
        return Err(no_list("nothing in it has an id"));
    }
    let ids = entries.iter().filter_map(|entry| entry.get("id"));
    let names = ids.filter_map(Value::as_str).map(str::to_owned);
    Ok(names
        .filter(|name| is_plain_line(name))
        .take(MAX_MODELS)
        .collect())
}

fn no_list(why: &str) -> LlmError {
    let said = format!("the list of models is not what a model server says: {why}");
    LlmError::new(LlmErrorKind::InvalidResponse, said)
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
