//! The port to web search services.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

/// Finds web pages by search terms.
///
/// **Retries.** By the engine, like any call of a read-only tool. **Cancel safety.** Dropping the future abandons the
/// search. **Order.** Several searches may run at the same time.
#[async_trait]
pub trait WebSearch: Debug + Send + Sync + 'static {
    /// Finds at most `most` pages, the best first. Finding none is not an error.
    ///
    /// # Errors
    ///
    /// A [`WebSearchError`], which does not contain the key.
    async fn search(&self, query: &str, most: NonZeroU32)
    -> Result<Vec<SearchHit>, WebSearchError>;
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// The title of the page, as plain text.
    pub title: String,
    /// The page's address, as the service returns it.
    pub url: String,
    /// The part of the page that matches the search, or a description, as plain text; empty if the service returns
    /// none.
    pub snippet: String,
}

impl SearchHit {
    /// Creates a search hit.
    pub fn new(
        title: impl Into<String>,
        url: impl Into<String>,
        snippet: impl Into<String>,
    ) -> Self {
        Self {
            title: title.into(),
            url: url.into(),
            snippet: snippet.into(),
        }
    }
}

/// Why a search failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebSearchError {
    /// The service refuses the key, or requires one.
    #[error("the search service refuses the key; the operator must set it")]
    Unauthorized,
    /// There were too many requests.
    #[error("the search service's rate limit is reached{}", wait(*retry_after))]
    RateLimited {
        /// How long to wait, if the service says so.
        retry_after: Option<Duration>,
    },
    /// The service refuses this search.
    #[error("the search service refuses the search: {why}")]
    Refused {
        /// The service's message, without the key.
        why: String,
    },
    /// The service failed.
    #[error("the search service failed with status {status}")]
    Failing {
        /// The HTTP status of its response.
        status: u16,
    },
    /// The service cannot be reached, or the connection broke.
    #[error("the search service cannot be reached: {why}")]
    Unreachable {
        /// The cause, without the address.
        why: String,
    },
    /// The service did not answer in time.
    #[error("the search service did not answer in time")]
    Timeout,
    /// The service answered, but none of the engines that it asks did.
    #[error("none of the engines behind the search service answered: {why}")]
    NobodyLooked {
        /// Which engines failed and why, according to the service.
        why: String,
    },
    /// The response does not follow the protocol.
    #[error("the search service returned an unreadable answer: {why}")]
    InvalidResponse {
        /// What is wrong with it.
        why: String,
    },
}

impl WebSearchError {
    /// Returns whether the same search may succeed later.
    #[must_use]
    pub const fn is_temporary(&self) -> bool {
        matches!(
            self,
            Self::RateLimited { .. }
                | Self::Failing { .. }
                | Self::NobodyLooked { .. }
                | Self::Unreachable { .. }
                | Self::Timeout
        )
    }
}

fn wait(retry_after: Option<Duration>) -> String {
    let hint = retry_after.map(|wait| format!("; try again in {} seconds", wait.as_secs()));
    hint.unwrap_or_default()
}
