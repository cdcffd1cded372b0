//! Tavily: `POST /search`.
//!
//! The service could answer the query itself, or return whole pages. Neither is requested: what is cited must have been
//! read with `web_fetch`, which checks where it connects to and what it receives.

use std::num::NonZeroU32;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};
use reqwest::{Method, header};
use serde::Deserialize;
use serde_json::{Value, json};

use super::exchange::{Exchange, hits};

/// The maximum number of hits that the service returns at once.
const MAX_RESULTS: u32 = 20;

/// The Tavily search API.
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
        let body = json!({"query": query, "max_results": most.get().min(MAX_RESULTS)});
        let mut request = self.0.request(Method::POST, "search", &[])?;
        if let Some(key) = self.0.key("Bearer ") {
            request = request.header(header::AUTHORIZATION, key);
        }
        let request = request
            .header(header::CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let answer: Answer = self.0.send(request).await?;
        Ok(hits(&answer.results, most))
    }
}
