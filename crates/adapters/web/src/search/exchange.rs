//! A request to a search service and its answer, common to all services.

use std::error::Error;
use std::iter::successors;
use std::num::NonZeroU32;
use std::sync::OnceLock;
use std::time::Duration;

use http::header::{self, HeaderValue};
use neuraxis_ports::{SearchHit, Secret, WebSearchError};
use reqwest::{Client, Method, RequestBuilder, Response, redirect, retry};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;
use url::{Host, Url};

/// The maximum size of an answer, in bytes.
const MAX_ANSWER: usize = 4 << 20;

/// The maximum number of characters of a service's error message that are kept.
const MAX_MESSAGE_CHARS: usize = 200;

/// The maximum length of a title and of a snippet, in characters.
const MAX_TITLE: usize = 300;
const MAX_SNIPPET: usize = 1_000;

/// The maximum number of bytes of either as the service writes it, with tags: parsing nested tags takes quadratic time.
const MAX_MARKED_UP: usize = 8 << 10;

/// The maximum length in bytes of an incomplete entity, or of an incomplete tag that cannot be told from text.
const MAX_BEGUN: usize = 32;

/// The connection to a service.
#[derive(Debug)]
pub(super) struct Exchange {
    base: Url,
    api_key: Option<Secret>,
    timeout: Duration,
    /// Created on first use: loading the machine's certificates takes a while.
    client: OnceLock<Result<Client, String>>,
}

impl Exchange {
    pub(super) const fn new(base: Url, api_key: Option<Secret>, timeout: Duration) -> Self {
        Self {
            base,
            api_key,
            timeout,
            client: OnceLock::new(),
        }
    }

    /// Returns the key as a header value, after the given prefix.
    pub(super) fn key(&self, before: &str) -> Option<HeaderValue> {
        let key = self.api_key.as_ref()?;
        let mut value = HeaderValue::from_str(&format!("{before}{}", key.expose())).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// Creates a request to a path below the service's address, with the given query parameters.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        query: &[(&str, &str)],
    ) -> Result<RequestBuilder, WebSearchError> {
        let made = || client(&self.base).map_err(|error| cause(&error));
        let client = self.client.get_or_init(made).as_ref();
        let client = client.map_err(|why| WebSearchError::Unreachable { why: why.clone() })?;
        let mut url = self.base.clone();
        let beneath = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{beneath}/{path}"));
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        Ok(client
            .request(method, url)
            .header(header::ACCEPT, "application/json"))
    }

    /// Sends a request and parses the JSON answer.
    pub(super) async fn send<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
    ) -> Result<T, WebSearchError> {
        let exchange = timeout(self.timeout, self.exchange(request)).await;
        let body = exchange.map_err(|_| WebSearchError::Timeout)??;
        serde_json::from_slice(&body).map_err(|error| WebSearchError::InvalidResponse {
            // Only the position is reported, not what the unknown server wrote.
            why: format!(
                "not JSON of the expected form, at line {}, column {}",
                error.line(),
                error.column()
            ),
        })
    }

    async fn exchange(&self, request: RequestBuilder) -> Result<Vec<u8>, WebSearchError> {
        let response = request.send().await.map_err(|error| failure(&error))?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get(header::RETRY_AFTER);
        let retry_after = retry_after.and_then(|value| value.to_str().ok()?.trim().parse().ok());
        match status {
            200..300 => read(response).await,
            401 => Err(WebSearchError::Unauthorized),
            403 if self.api_key.is_some() => Err(WebSearchError::Unauthorized),
            429 => Err(WebSearchError::RateLimited {
                retry_after: retry_after.map(Duration::from_secs),
            }),
            300..=399 => Err(WebSearchError::Refused {
                why: format!("it redirects (status {status}); check base_url in [web.search]"),
            }),
            403 => Err(WebSearchError::Refused {
                why:
                    "status 403, which SearXNG returns unless search.formats in its settings contains json"
                        .to_owned(),
            }),
            500.. => Err(WebSearchError::Failing { status }),
            _ => {
                let said = read(response).await.unwrap_or_default();
                Err(WebSearchError::Refused {
                    why: format!("status {status}{}", self.error_message(&said)),
                })
            }
        }
    }

    /// Returns a service's error message on one line, without the key.
    fn error_message(&self, body: &[u8]) -> String {
        let text = String::from_utf8_lossy(body);
        let text = match &self.api_key {
            Some(key) => key.redact(&text),
            None => text.into_owned(),
        };
        let line = one_line(&text, MAX_MESSAGE_CHARS);
        if line.is_empty() {
            line
        } else {
            format!(": {line}")
        }
    }
}

fn client(base: &Url) -> reqwest::Result<Client> {
    let client = Client::builder()
        .user_agent(concat!("neuraxis/", env!("CARGO_PKG_VERSION")))
        .redirect(redirect::Policy::none())
        .retry(retry::never().max_retries_per_request(0))
        .referer(false);
    // For a proxy, a loopback address is the proxy's own machine, not this one. SOCKS is not supported.
    if is_loopback(base) || has_socks_proxy(base, |name| std::env::var(name).ok()) {
        return client.no_proxy().build();
    }
    client.build()
}

/// Returns whether the proxy that the environment names for an address uses SOCKS. As in the HTTP client, the variable
/// of the scheme comes before the general one, and upper case before lower case.
fn has_socks_proxy(base: &Url, variable: impl Fn(&str) -> Option<String>) -> bool {
    let own = match base.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy"],
        _ => ["HTTP_PROXY", "http_proxy"],
    };
    let named = |names: [&str; 2]| {
        let proxy = names.into_iter().find_map(&variable);
        proxy.filter(|proxy| !proxy.trim().is_empty())
    };
    let proxy = named(own).or_else(|| named(["ALL_PROXY", "all_proxy"]));
    proxy.is_some_and(|proxy| proxy.trim_start().to_ascii_lowercase().starts_with("socks"))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

async fn read(mut response: Response) -> Result<Vec<u8>, WebSearchError> {
    let mut body = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(|error| failure(&error))? {
        body.extend_from_slice(&piece);
        if body.len() > MAX_ANSWER {
            return Err(WebSearchError::InvalidResponse {
                why: format!("it has more than {MAX_ANSWER} bytes"),
            });
        }
    }
    Ok(body)
}

/// The client's own error would reveal the URL, and with it the query.
fn failure(error: &reqwest::Error) -> WebSearchError {
    if error.is_timeout() {
        return WebSearchError::Timeout;
    }
    WebSearchError::Unreachable { why: cause(error) }
}

/// Returns the innermost cause: the errors around it reveal the URL.
fn cause(error: &reqwest::Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    let last = causes.last().map(ToString::to_string);
    last.unwrap_or_else(|| "the connection broke".to_owned())
}

/// Returns at most `most` hits that lead to the web, as plain text. An invalid hit does not affect the others.
pub(super) fn hits(found: &[Value], most: NonZeroU32) -> Vec<SearchHit> {
    let hits = found.iter().filter_map(hit);
    hits.take(most.get() as usize).collect()
}

/// Parses a hit as the services describe it. Fields that are not text are left out, and so is a hit without an address.
fn hit(found: &Value) -> Option<SearchHit> {
    let text = |name: &str| found.get(name).and_then(Value::as_str);
    let address = text("url")?;
    let url = Url::parse(address).ok()?;
    let is_web = matches!(url.scheme(), "http" | "https") && url.has_host();
    is_web.then(|| {
        // An excerpt, which Brave calls description.
        let snippet = text("content").or_else(|| text("description"));
        SearchHit::new(
            plain(text("title").unwrap_or_default(), MAX_TITLE),
            address,
            plain(snippet.unwrap_or_default(), MAX_SNIPPET),
        )
    })
}

/// Removes the tags and entities with which services mark matches.
fn plain(text: &str, most: usize) -> String {
    if !text.contains(['<', '&']) {
        return one_line(text, most);
    }
    let fragment = dom_query::Document::fragment(beginning(text));
    one_line(&fragment.text(), most)
}

/// Returns the beginning of a text with tags and entities that is parsed. An entity or tag that was cut is left out,
/// because half an entity would be shown.
fn beginning(text: &str) -> &str {
    if text.len() <= MAX_MARKED_UP {
        return text;
    }
    let (cut, _) = text.split_at(text.floor_char_boundary(MAX_MARKED_UP));
    let begun = cut.rfind(['<', '&']).map(|at| cut.split_at(at));
    match begun {
        Some((before, rest)) if rest.len() <= MAX_BEGUN && !rest.contains(['>', ';']) => before,
        _ => cut,
    }
}

fn one_line(text: &str, most: usize) -> String {
    let words: Vec<&str> = text
        .split(|letter: char| letter.is_whitespace() || letter.is_control())
        .collect();
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    words.join(" ").chars().take(most).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn search_hits_are_plain_text_with_web_urls_only() {
        let found = |title: &str, url: &str, content: &str| json!({"title": title, "url": url, "content": content});
        let all = [
            found(
                "<strong>Rust</strong> &amp; more",
                "https://example.org/",
                "a\n b\u{1b} c &lt;T&gt;",
            ),
            found("x", "javascript:alert(1)", ""),
            found("y", "no url", ""),
            found(&"z".repeat(999), "http://example.org/z", ""),
            found("third", "http://example.org/3", ""),
        ];
        let two = NonZeroU32::new(2).unwrap();
        let hits = hits(&all, two);
        let expected = SearchHit::new("Rust & more", "https://example.org/", "a b c <T>");
        assert_eq!(hits[0], expected);
        assert_eq!((hits.len(), hits[1].title.len()), (2, MAX_TITLE));
    }

    #[test]
    fn a_socks_proxy_is_detected_from_the_environment() {
        let secure = Url::parse("https://search.example/").unwrap();
        let open = Url::parse("http://search.example/").unwrap();
        let socks = "socks5h://127.0.0.1:1080";
        let is_socks = |base: &Url, variables: &[(&str, &str)]| {
            has_socks_proxy(base, |name: &str| {
                let found = variables.iter().find(|(it, _)| *it == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(is_socks(&secure, &[("ALL_PROXY", socks)]));
        assert!(is_socks(
            &secure,
            &[("https_proxy", "SOCKS5://127.0.0.1:1")]
        ));
        assert!(is_socks(
            &secure,
            &[("HTTPS_PROXY", ""), ("all_proxy", socks)]
        ));
        assert!(is_socks(&open, &[("ALL_PROXY", socks)]));
        assert!(!is_socks(&open, &[("HTTPS_PROXY", socks)]));
        let http = "http://127.0.0.1:1";
        assert!(!is_socks(
            &secure,
            &[("HTTPS_PROXY", http), ("ALL_PROXY", socks)]
        ));
        assert!(!is_socks(&secure, &[("ALL_PROXY", http)]));
        assert!(!is_socks(&secure, &[]));
    }

    #[test]
    fn only_the_beginning_of_a_text_full_of_tags_is_read() {
        let tags = "<i></i>".repeat(MAX_MARKED_UP / "<i></i>".len());
        assert_eq!(plain(&format!("x{tags}&amp;late"), MAX_TITLE), "x");
        assert_eq!(plain(&format!("x{tags}éé"), MAX_TITLE), "x");
        assert_eq!(plain(&format!("x{tags}<b>late"), MAX_TITLE), "x");
        assert_eq!(plain("AT&T <b>now</b> &", MAX_TITLE), "AT&T now &");
    }
}
