//! The port to services that know where on the web something stands.

use std::fmt::Debug;
use std::num::NonZeroU32;
use std::time::Duration;

use async_trait::async_trait;

/// Finds pages of the web by words.
///
/// **Who repeats.** The engine, as any call of a tool that only reads. **Cancel safety.** Dropping the future gives the search
/// up. **Order.** Several searches may be made at the same time.
#[async_trait]
pub trait WebSearch: Debug + Send + Sync + 'static {
    /// Finds at most so many pages, the best first. None is no error.
    ///
    /// # Errors
    ///
    /// A [`WebSearchError`], which tells no key.
    async fn search(&self, query: &str, most: NonZeroU32)
    -> Result<Vec<SearchHit>, WebSearchError>;
}

/// A page that a search found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SearchHit {
    /// What the page calls itself; plain text.
    pub title: String,
    /// The page's address, as the service gives it.
    pub url: String,
    /// What of it fits the search, or what it is about; plain text, empty if the service says nothing.
    pub snippet: String,
}

impl SearchHit {
    /// Names a page.
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

/// Why nothing was found out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WebSearchError {
    /// The service refuses the key, or wants one.
    #[error("the search service refuses the key; the operator has to set it")]
    Unauthorized,
    /// Too much was asked for.
    #[error("the search service is asked too often{}", wait(*retry_after))]
    RateLimited {
        /// How long to wait, if the service says so.
        retry_after: Option<Duration>,
    },
    /// The service refuses the search as it stands.
    #[error("the search service refuses the search: {why}")]
    Refused {
        /// What it says, without the key.
        why: String,
    },
    /// The service fails.
    #[error("the search service fails with status {status}")]
    Failing {
        /// The status of its answer.
        status: u16,
    },
    /// The service cannot be reached, or the connection broke.
    #[error("the search service cannot be reached: {why}")]
    Unreachable {
        /// What stands in the way, without the address.
        why: String,
    },
    /// The service did not answer in time.
    #[error("the search service did not answer in time")]
    Timeout,
    /// The service answered, and none of the engines that it asks did.
    #[error("none of the engines behind the search service answered: {why}")]
    NobodyLooked {
        /// Which, and why, as the service says.
        why: String,
    },
    /// What it answered is not what its protocol says.
    #[error("the search service gave an answer that cannot be read: {why}")]
    InvalidResponse {
        /// What is wrong with it.
        why: String,
    },
}

impl WebSearchError {
    /// Tells whether the same search may succeed later.
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
    let said =
        retry_after.map(|wait| format!("; it can be asked again in {} seconds", wait.as_secs()));
    said.unwrap_or_default()
}
