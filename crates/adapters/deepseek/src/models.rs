//! What the service has to offer.

use std::time::Duration;

use neuraxis_core::{LlmError, LlmErrorKind};
use neuraxis_wire::Endpoint;
use serde::Deserialize;

/// How many models are listed, and how long a name may be.
const MAX_MODELS: usize = 1_000;
const MAX_NAME: usize = 300;

#[derive(Deserialize)]
struct ModelList {
    data: Vec<ModelEntry>,
}

#[derive(Deserialize)]
struct ModelEntry {
    id: String,
}

/// Returns the names of the models, in the order of the service.
pub(crate) async fn models(endpoint: &Endpoint, within: Duration) -> Result<Vec<String>, LlmError> {
    let body = endpoint.get(&endpoint.route("models"), within).await?;
    let list: ModelList = serde_json::from_slice(&body).map_err(|error| {
        let said = format!("what stands at /models is not a list of models: {error}");
        LlmError::new(LlmErrorKind::InvalidResponse, said)
    })?;
    let names = list.data.into_iter().map(|entry| entry.id);
    Ok(names
        .filter(|name| is_plain(name))
        .take(MAX_MODELS)
        .collect())
}

/// Tells whether a name can be shown and sent as it is.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && name.len() <= MAX_NAME && !name.chars().any(char::is_control)
}
