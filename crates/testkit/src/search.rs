//! A search service with scripted results.

use std::num::NonZeroU32;
use std::sync::Mutex;

use neuraxis_ports::{SearchHit, WebSearch, WebSearchError, async_trait};

use crate::scripted::lock;

/// Returns the given results for every query, and records the queries.
///
/// ```
/// use neuraxis_ports::{SearchHit, WebSearch};
/// use neuraxis_testkit::ScriptedSearch;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), neuraxis_ports::WebSearchError> {
/// let search = ScriptedSearch::new([SearchHit::new("Rivers of Europe", "https://example.org/rivers", "")]);
/// assert_eq!(search.search("long rivers", std::num::NonZeroU32::MIN).await?.len(), 1);
/// assert_eq!(search.queries(), ["long rivers"]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct ScriptedSearch {
    hits: Vec<SearchHit>,
    failure: Option<WebSearchError>,
    queries: Mutex<Vec<String>>,
}

impl ScriptedSearch {
    /// Creates a service that finds these pages.
    pub fn new(hits: impl IntoIterator<Item = SearchHit>) -> Self {
        Self {
            hits: hits.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Creates a service that fails every time.
    #[must_use]
    pub fn failing(error: WebSearchError) -> Self {
        Self {
            failure: Some(error),
            ..Self::default()
        }
    }

    /// Returns the queries so far.
    #[must_use]
    pub fn queries(&self) -> Vec<String> {
        lock(&self.queries).clone()
    }
}

#[async_trait]
impl WebSearch for ScriptedSearch {
    async fn search(
        &self,
        query: &str,
        most: NonZeroU32,
    ) -> Result<Vec<SearchHit>, WebSearchError> {
        lock(&self.queries).push(query.to_owned());
        if let Some(error) = &self.failure {
            return Err(error.clone());
        }
        let found = self.hits.iter().cloned();
        Ok(found.take(most.get() as usize).collect())
    }
}
