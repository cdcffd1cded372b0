//! SearXNG: `GET /search?q=…&format=json`.

use std::num::NonZeroU32;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};
use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::Value;

use super::exchange::{Exchange, hits};

/// The maximum number of unresponsive engines that are named.
const MAX_NAMED: usize = 5;

/// The maximum number of characters in the report about them.
const MAX_WHY_CHARS: usize = 300;

/// A SearXNG instance. It returns a page of about ten hits or more, however many are requested. If there is a key, it
/// is sent as a bearer token, for a proxy in front of the instance.
#[derive(Debug)]
pub(super) struct Searxng(pub(super) Exchange);

#[derive(Debug, Deserialize)]
struct Answer {
    results: Vec<Value>,
    /// The engines that did not answer, each with the reason.
    #[serde(default)]
    unresponsive_engines: Vec<Value>,
}

#[async_trait]
impl WebSearch for Searxng {
    async fn search(
        &self,
        query: &str,
        most: NonZeroU32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        let parameters = [("q", query), ("format", "json")];
        let mut request = self.0.request(Method::GET, "search", &parameters)?;
        if let Some(key) = self.0.key("Bearer ") {
            request = request.header(header::AUTHORIZATION, key);
        }
        let answer: Answer = self.0.send(request).await?;
        if answer.results.is_empty() && !answer.unresponsive_engines.is_empty() {
            // Reporting that nothing was found would be wrong: no engine searched.
            let engines = answer.unresponsive_engines.iter().take(MAX_NAMED);
            let engines: Vec<String> = engines.map(silence).collect();
            let why = engines.join(", ").chars().take(MAX_WHY_CHARS).collect();
            return Err(WebSearchError::NobodyLooked { why });
        }
        Ok(hits(&answer.results, most))
    }
}

/// Describes an engine that did not answer; the entry is usually a list of its name and the reason.
fn silence(engine: &Value) -> String {
    let parts = engine.as_array().into_iter().flatten();
    let texts: Vec<&str> = parts.filter_map(Value::as_str).collect();
    let text = match texts.as_slice() {
        [name, why, ..] => format!("{name} ({why})"),
        [name] => (*name).to_owned(),
        [] => "an engine".to_owned(),
    };
    text.chars().filter(|letter| !letter.is_control()).collect()
}
