//! Tavily: `POST /search`.
//!
//! It could answer the question itself, or return whole pages. Neither is asked for: what is cited has to have been read,
//! by `web_fetch`, which looks at where it connects to and at what comes back.

use std::num::NonZeroU32;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};
use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::exchange::{Exchange, hits};

/// The most hits that the service gives at once.
const MAX_RESULTS: u32 = 20;

/// Tavily.
#[derive(Debug)]
pub(super) struct Tavily(pub(super) Exchange);

#[derive(Debug, Deserialize)]
struct Answer {
    results: Vec<Value>,
}

#[async_trait]
impl WebSearch for Tavily {
    async fn search(
        &self,
        query: &str,
        most: NonZeroU32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        let asked = json!({"query": query, "max_results": most.get().min(MAX_RESULTS)});
        let mut request = self.0.request(Method::POST, "search", &[])?;
        if let Some(key) = self.0.key("Bearer ") {
            request = request.header(header::AUTHORIZATION, key);
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(asked.to_string());
        let answer: Answer = self.0.send(request).await?;
        Ok(hits(&answer.results, most))
    }
}
