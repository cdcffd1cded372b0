//! `[web.search]` and the supported search services: SearXNG, Brave and Tavily.
//!
//! The operator names the service, so the guard does not check its address: your own SearXNG is often on the same
//! machine. For the same reason, a service may be reached through a proxy from the environment, unlike pages. Redirects
//! are not followed, because they would carry the key along.

mod brave;
mod exchange;
mod searxng;
mod tavily;
mod tool;

use std::sync::Arc;
use std::time::Duration;

use neuraxis_core::duration_text;
use neuraxis_ports::{Secret, WebSearch};
use serde::{Deserialize, Serialize};
use url::Url;

use exchange::Exchange;
pub use tool::web_search;

/// The search service to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SearchProvider {
    /// A SearXNG instance. Its `search.formats` must include `json`.
    Searxng,
    /// The Brave Search API.
    Brave,
    /// Tavily.
    Tavily,
}

impl SearchProvider {
    /// Returns the name used in configuration.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Searxng => "searxng",
            Self::Brave => "brave",
            Self::Tavily => "tavily",
        }
    }

    /// Returns the address of a service that has a fixed one.
    const fn usual_url(self) -> Option<&'static str> {
        match self {
            Self::Searxng => None,
            Self::Brave => Some("https://api.search.brave.com"),
            Self::Tavily => Some("https://api.tavily.com"),
        }
    }
}

/// `[web.search]`: the service that `web_search` uses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct SearchConfig {
    /// Which service: `searxng`, `brave` or `tavily`. Default: none, in which case there is no search.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<SearchProvider>,
    /// The service's address. Brave and Tavily have a default; SearXNG has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The name of the environment variable that holds the API key, which Brave and Tavily require.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// How long a search may take. Default: 15 s, because a SearXNG queries other services in turn.
    #[serde(with = "duration_text")]
    pub timeout: Duration,
}

impl Default for SearchConfig {
    fn default() -> Self {
        Self {
            provider: None,
            base_url: None,
            api_key_env: None,
            timeout: Duration::from_secs(15),
        }
    }
}

impl SearchConfig {
    /// Creates a configuration for a service, with defaults for everything else.
    #[must_use]
    pub fn new(provider: SearchProvider) -> Self {
        Self {
            provider: Some(provider),
            ..Self::default()
        }
    }

    /// Returns whether anything is set that only has a meaning with a service.
    #[must_use]
    pub const fn is_configured(&self) -> bool {
        self.provider.is_some() || self.base_url.is_some() || self.api_key_env.is_some()
    }

    /// Creates the client of the service, with the key from the variable that [`api_key_env`](Self::api_key_env) names.
    ///
    /// # Errors
    ///
    /// A [`SearchConfigError`] that names the invalid setting of the section.
    pub fn connect(
        &self,
        api_key: Option<Secret>,
    ) -> Result<Arc<dyn WebSearch>, SearchConfigError> {
        let provider = self.provider.ok_or(SearchConfigError::NoProvider)?;
        let url = self.base_url.as_deref().or(provider.usual_url());
        let url = url.ok_or(SearchConfigError::NoUrl)?;
        let base = Url::parse(url.trim()).ok().filter(|url| {
            let is_web = matches!(url.scheme(), "http" | "https");
            is_web && url.has_host() && url.username().is_empty() && url.password().is_none()
        });
        let base = base.ok_or(SearchConfigError::Url)?;
        if api_key.is_none() && provider != SearchProvider::Searxng {
            return Err(SearchConfigError::NoKey {
                provider: provider.as_str(),
            });
        }
        let exchange = Exchange::new(base, api_key, self.timeout);
        Ok(match provider {
            SearchProvider::Searxng => Arc::new(searxng::Searxng(exchange)),
            SearchProvider::Brave => Arc::new(brave::Brave(exchange)),
            SearchProvider::Tavily => Arc::new(tavily::Tavily(exchange)),
        })
    }
}

/// Why a service cannot be used. Reveals neither key nor address: both may contain secrets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SearchConfigError {
    /// No service is named.
    #[error("provider is missing; known: searxng, brave, tavily")]
    NoProvider,
    /// The service has no address.
    #[error(
        "base_url is missing: set it to the address of SearXNG, such as \"http://127.0.0.1:8888\""
    )]
    NoUrl,
    /// The address is invalid.
    #[error(
        "base_url must be an address without user name and password, such as \"http://127.0.0.1:8888\""
    )]
    Url,
    /// The service requires a key.
    #[error(
        "api_key_env is missing: {provider} requires a key; name the environment variable that holds it"
    )]
    NoKey {
        /// The name of the service.
        provider: &'static str,
    },
}

impl SearchConfigError {
    /// Returns the name of the invalid setting in the section.
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::NoProvider => "provider",
            Self::NoUrl | Self::Url => "base_url",
            Self::NoKey { .. } => "api_key_env",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_search_setting_is_named_by_its_key() {
        let key_of = |config: &SearchConfig, key| config.connect(key).unwrap_err().key();
        let nobody = SearchConfig::default();
        assert_eq!(
            (nobody.is_configured(), key_of(&nobody, None)),
            (false, "provider")
        );
        let searxng = SearchConfig::new(SearchProvider::Searxng);
        assert!(searxng.is_configured());
        assert_eq!(key_of(&searxng, None), "base_url");
        for url in ["127.0.0.1:8888", "ftp://a", "http://me:canary@a/", ""] {
            let mut config = searxng.clone();
            config.base_url = Some(url.to_owned());
            let error = config.connect(None).unwrap_err();
            assert_eq!(error, SearchConfigError::Url, "{url}");
            assert!(!error.to_string().contains("canary"));
        }
        for provider in [SearchProvider::Brave, SearchProvider::Tavily] {
            let config = SearchConfig::new(provider);
            assert_eq!(key_of(&config, None), "api_key_env");
            assert!(config.connect(Some(Secret::new("k-canary"))).is_ok());
        }
    }

    #[test]
    fn a_search_key_is_not_shown() {
        let config = SearchConfig::new(SearchProvider::Brave);
        let search = config.connect(Some(Secret::new("k-canary"))).unwrap();
        assert!(!format!("{search:?}").contains("canary"));
    }
}
