//! `[web]`: what may be fetched, with which limits, and which service searches the web.

use std::time::Duration;

use neuraxis_core::duration_text;
use serde::{Deserialize, Serialize};

use crate::error::FetchError;
use crate::fetch;
use crate::guard::{AllowedHost, Guard};
use crate::search::SearchConfig;

/// The configuration section `[web]`. Durations are written with their unit, such as `"20s"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WebConfig {
    /// Hosts, as `"host:port"`, that may be fetched although their addresses are not public, such as those of your own
    /// network. Default: none.
    pub allow_hosts: Vec<AllowedHost>,
    /// Whether a site's `robots.txt` is fetched first and respected. Default: true, because a model chooses the pages,
    /// not the user.
    pub robots: bool,
    /// The user agent of the requests; the part before the first `/` is matched against `robots.txt`. Default:
    /// `neuraxis/` with the version.
    pub user_agent: String,
    /// The maximum number of bytes that are read of a document. Of a longer page, the beginning is returned; a longer
    /// PDF is refused. Default: 10,485,760, enough for nearly all papers and handbooks.
    pub max_bytes: u64,
    /// How long fetching a document may take, including redirects and `robots.txt`. In addition, a call may wait up to
    /// five times as long while other requests to the same host are in progress. Default: 20 s, because a slower site
    /// is rarely worth the wait.
    #[serde(with = "duration_text")]
    pub timeout: Duration,
    /// The maximum number of redirects within one host that are followed; redirects to another host are left to the
    /// model. Default: 5.
    pub max_redirects: u32,
    /// How long converting a document to text may take. Default: 10 s; some documents are built to take forever.
    #[serde(with = "duration_text")]
    pub convert_timeout: Duration,
    /// The maximum number of characters of a document in one result; the rest is on further pages. At least 1,000.
    /// Default: 20,000, about 5,000 tokens.
    #[serde(deserialize_with = "page_chars")]
    pub page_chars: usize,
    /// The maximum total size in bytes of cached documents, which let a run read further pages without fetching again.
    /// Default: 33,554,432.
    pub cache_bytes: usize,
    /// `[web.search]`: the service that `web_search` uses. Default: none, in which case the tool does not exist.
    pub search: SearchConfig,
}

/// The minimum number of characters in a page: with fewer, the calls would cost more than the pages are worth.
const MIN_PAGE_CHARS: usize = 1_000;

impl Default for WebConfig {
    fn default() -> Self {
        Self {
            allow_hosts: Vec::new(),
            robots: true,
            user_agent: concat!("neuraxis/", env!("CARGO_PKG_VERSION")).to_owned(),
            max_bytes: 10 << 20,
            timeout: Duration::from_secs(20),
            max_redirects: 5,
            convert_timeout: Duration::from_secs(10),
            page_chars: 20_000,
            cache_bytes: 32 << 20,
            search: SearchConfig::default(),
        }
    }
}

impl WebConfig {
    /// Checks a URL as `web_fetch` does before it sends anything: whether it is valid, and leads to a public address or
    /// an allowed host. A host name passes; the addresses it leads to are checked once it is resolved.
    ///
    /// # Errors
    ///
    /// The error that the model would get.
    pub fn check(&self, url: &str) -> Result<(), FetchError> {
        Guard::new(&self.allow_hosts).check(&fetch::read(url)?)?;
        Ok(())
    }
}

fn page_chars<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    let chars = usize::deserialize(deserializer)?;
    if chars < MIN_PAGE_CHARS {
        let message = "expected at least 1000 characters";
        return Err(serde::de::Error::custom(message));
    }
    Ok(chars)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn omitted_web_settings_have_defaults_and_unknown_ones_are_refused() {
        let text = "allow_hosts = ['127.0.0.1:8080']\nrobots = false\ntimeout = '5s'";
        let config: WebConfig = toml::from_str(text).unwrap();
        assert_eq!(config.timeout, Duration::from_secs(5));
        assert_eq!(config.allow_hosts.len(), 1);
        assert_eq!(config.max_redirects, WebConfig::default().max_redirects);
        for (text, said) in [
            ("robot = true", "unknown field `robot`"),
            ("allow_hosts = ['intranet']", "expected a host and a port"),
            ("page_chars = 10", "expected at least 1000 characters"),
            ("timeout = 5", "a duration with its unit"),
            ("[search]\nprovider = 'bing'", "unknown variant `bing`"),
            ("[search]\nkey = 'x'", "unknown field `key`"),
        ] {
            let error = toml::from_str::<WebConfig>(text).unwrap_err();
            assert!(error.message().contains(said), "{error}");
        }
    }

    #[test]
    fn a_written_section_reads_back_equal() {
        let config = WebConfig {
            allow_hosts: vec!["[::1]:81".parse().unwrap()],
            ..WebConfig::default()
        };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<WebConfig>(&text).unwrap(), config);
    }
}
