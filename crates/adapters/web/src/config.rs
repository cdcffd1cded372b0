//! `[web]`: what may be fetched, within which bounds, and who is asked where something stands.

use std::time::Duration;

use neuraxis_core::duration_text;
use serde::{Deserialize, Serialize};

use crate::error::FetchError;
use crate::fetch;
use crate::guard::{AllowedHost, Guard};
use crate::search::SearchConfig;

/// `[web]`. In configuration a duration is written with its unit, such as `"20s"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct WebConfig {
    /// Hosts that may be fetched though their addresses are not public, as `"host:port"`: those of one's own network. None.
    pub allow_hosts: Vec<AllowedHost>,
    /// Whether `robots.txt` of a site is asked first and kept to. True: a model chooses the pages, and not the person.
    pub robots: bool,
    /// How the requests name themselves; what stands before the first `/` is looked for in `robots.txt`. `neuraxis/` with
    /// the version.
    pub user_agent: String,
    /// The most bytes that are read of a document; of a longer page the beginning is given, a longer PDF is refused.
    /// 10,485,760: nearly all papers and handbooks.
    pub max_bytes: u64,
    /// How long fetching a document may take, its redirects and `robots.txt` included. Five times as long a call waits
    /// besides while other requests to the same host are under way. 20 s: a site that is slower than that is rarely worth the
    /// wait.
    #[serde(with = "duration_text")]
    pub timeout: Duration,
    /// The most redirects within one host that are followed; one to another host is the model's to follow. 5.
    pub max_redirects: u32,
    /// How long making text of a document may take. 10 s: some are made to take forever.
    #[serde(with = "duration_text")]
    pub convert_timeout: Duration,
    /// The most characters of a document in one result, the next ones being the next page; 1,000 at the least. 20,000: some
    /// 5,000 tokens.
    #[serde(deserialize_with = "page_chars")]
    pub page_chars: usize,
    /// The most bytes of documents that are kept, so that a run reads further pages without fetching again. 33,554,432.
    pub cache_bytes: usize,
    /// `[web.search]`: the service that `web_search` asks. None, and then there is no such tool.
    pub search: SearchConfig,
}

/// The fewest characters of a page: fewer would make more calls than pages are worth.
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
    /// Looks at a URL as `web_fetch` does before anything is sent: whether it is one, and leads to a public address or to a
    /// host that is allowed. A name passes; where it leads is looked at once it is resolved.
    ///
    /// # Errors
    ///
    /// What the model would read.
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
    fn what_is_left_out_keeps_its_default_and_what_is_unknown_is_refused() {
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
    fn a_section_is_written_as_it_is_read() {
        let config = WebConfig {
            allow_hosts: vec!["[::1]:81".parse().unwrap()],
            ..WebConfig::default()
        };
        let text = toml::to_string(&config).unwrap();
        assert_eq!(toml::from_str::<WebConfig>(&text).unwrap(), config);
    }
}
