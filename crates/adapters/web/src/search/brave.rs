//! The Brave Search API: `GET /res/v1/web/search`.

use std::num::NonZeroU32;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};
use reqwest::Method;
use serde::Deserialize;
use serde_json::Value;

use super::exchange::{Exchange, hits};

/// The maximum number of hits that the service returns at once.
const MAX_COUNT: u32 = 20;

/// The maximum length of a query, in characters and in words.
const MAX_QUERY_CHARS: usize = 400;
const MAX_QUERY_WORDS: usize = 50;

/// The Brave Search API.
#[derive(Debug)]
pub(super) struct Brave(pub(super) Exchange);

#[derive(Debug, Deserialize)]
struct Answer {
    /// Missing if nothing was found.
    #[serde(default)]
    web: Web,
}

#[derive(Debug, Default, Deserialize)]
struct Web {
    #[serde(default)]
    results: Vec<Value>,
}

#[async_trait]
impl WebSearch for Brave {
    async fn search(
        &self,
        query: &str,
        most: NonZeroU32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        if query.chars().count() > MAX_QUERY_CHARS
            || query.split_whitespace().count() > MAX_QUERY_WORDS
        {
            return Err(WebSearchError::Refused {
                why: format!(
                    "it has more than {MAX_QUERY_CHARS} characters or {MAX_QUERY_WORDS} words; make it shorter"
                ),
            });
        }
        let count = most.get().min(MAX_COUNT).to_string();
        let parameters = [("q", query), ("count", count.as_str())];
        let mut request = self
            .0
            .request(Method::GET, "res/v1/web/search", &parameters)?;
        if let Some(key) = self.0.key("") {
            request = request.header("x-subscription-token", key);
        }
        let answer: Answer = self.0.send(request).await?;
        Ok(hits(&answer.web.results, most))
    }
}
