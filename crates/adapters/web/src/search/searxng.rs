//! SearXNG: `GET /search?q=…&format=json`.

use std::num::NonZeroU32;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};
use reqwest::{Method, header};
use serde::Deserialize;

use super::exchange::{Exchange, hits};

/// A SearXNG. It gives a page of some ten hits or more, however many are asked for. A key, if there is one, is sent as a bearer
/// token, for a proxy before it.
#[derive(Debug)]
pub(super) struct Searxng(pub(super) Exchange);

#[derive(Debug, Deserialize)]
struct Answer {
    results: Vec<Found>,
}

#[derive(Debug, Deserialize)]
struct Found {
    #[serde(default)]
    title: Option<String>,
    url: String,
    #[serde(default)]
    content: Option<String>,
}

#[async_trait]
impl WebSearch for Searxng {
    async fn search(
        &self,
        query: &str,
        most: NonZeroU32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        let asked = [("q", query), ("format", "json")];
        let mut request = self.0.request(Method::GET, "search", &asked)?;
        if let Some(key) = self.0.key("Bearer ") {
            request = request.header(header::AUTHORIZATION, key);
        }
        let answer: Answer = self.0.send(request).await?;
        let found = answer.results.into_iter().map(|found| {
            SearchHit::new(
                found.title.unwrap_or_default(),
                found.url,
                found.content.unwrap_or_default(),
            )
        });
        Ok(hits(found, most.get() as usize))
    }
}
