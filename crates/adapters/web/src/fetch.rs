//! Fetches documents: one request at a time per host, each redirect judged separately, and nothing fetched twice in a
//! run.

mod request;

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap};
use neuraxis_core::{RunId, clip};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout, timeout_at};
use url::Url;

use crate::config::WebConfig;
use crate::convert::{ConvertRequest, Kind, convert_apart};
use crate::error::FetchError;
use crate::guard::{Guard, NameLookup};
use crate::lru_cache::LruCache;
use crate::named_locks::NamedLocks;
use crate::page;
use crate::robots::{self, Rules};
use request::{Answer, Clients};

/// The maximum total size in bytes of cached `robots.txt` rules.
const ROBOTS_CACHE_BYTES: usize = 4 << 20;

/// The maximum length of a URL, in bytes: longer URLs carry data out rather than name something.
const MAX_URL_BYTES: usize = 2_048;

/// The maximum length of a title, in characters. Each page of the document repeats the title, and a document's first
/// heading may contain the entire page.
const MAX_TITLE_CHARS: usize = 300;

/// The limit on the total time a call waits for its turn, as a multiple of the time limit for fetching a document.
const MAX_WAITS: u32 = 5;

/// The time that a call has left.
struct RemainingTime {
    /// For its requests to the site. Does not run while other requests to the same host are in progress.
    requests: Duration,
    /// For waiting for its turn.
    waiting: Duration,
}

/// Fetches documents within the configured limits.
#[derive(Debug)]
pub(crate) struct Fetcher {
    config: WebConfig,
    guard: Guard,
    clients: Clients,
    /// Keyed by run, so that no run reads what another run was shown.
    documents: LruCache<(RunId, Url), Arc<Document>>,
    robots: LruCache<(RunId, Url), Rules>,
    fetching: NamedLocks,
    hosts: NamedLocks,
}

/// A document that was fetched and read.
#[derive(Debug)]
pub(crate) struct Document {
    /// Its final address.
    pub(crate) url: Url,
    pub(crate) title: Option<String>,
    content: String,
    /// The byte ranges of its pages.
    pages: Vec<(usize, usize)>,
    /// Whether the document is longer than what may be read of it.
    pub(crate) is_cut: bool,
}

impl Document {
    /// Returns the number of pages.
    pub(crate) fn pages(&self) -> usize {
        self.pages.len()
    }

    /// Returns a page, counted from 1.
    pub(crate) fn page(&self, number: usize) -> Result<&str, FetchError> {
        let bounds = number.checked_sub(1).and_then(|at| self.pages.get(at));
        let page = bounds.and_then(|(begin, end)| self.content.get(*begin..*end));
        page.map(str::trim_end).ok_or(FetchError::NoSuchPage {
            page: number,
            pages: self.pages(),
        })
    }
}

impl Fetcher {
    pub(crate) fn new(config: &WebConfig, lookup: Arc<dyn NameLookup>) -> Self {
        Self {
            guard: Guard::new(&config.allow_hosts),
            clients: Clients::new(config, lookup),
            documents: LruCache::new(config.cache_bytes),
            robots: LruCache::new(ROBOTS_CACHE_BYTES),
            fetching: NamedLocks::default(),
            hosts: NamedLocks::default(),
            config: config.clone(),
        }
    }

    /// Returns how long a call may take, including the time it may wait for others.
    pub(crate) fn max_duration(&self) -> Duration {
        let fetching = self.config.timeout.saturating_add(self.waiting());
        // Converting may also have to wait for other documents.
        let converting = self.config.convert_timeout.saturating_mul(2);
        fetching.saturating_add(converting)
    }

    fn waiting(&self) -> Duration {
        self.config.timeout.saturating_mul(MAX_WAITS)
    }

    /// Fetches a document, or returns it from this run's cache.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection and stops the reading of the document.
    pub(crate) async fn fetch(&self, url: &str, run: RunId) -> Result<Arc<Document>, FetchError> {
        let url = read(url)?;
        self.guard.check(&url)?;
        let key = (run, url.clone());
        if let Some(document) = self.documents.get(&key) {
            return Ok(document);
        }
        let mut left = RemainingTime {
            requests: self.config.timeout,
            waiting: self.waiting(),
        };
        // Concurrent calls for the same document wait for the first one.
        let name = format!("{run} {url}");
        let _ours = wait_for_lock(&self.fetching, &name, &url, &mut left).await?;
        if let Some(document) = self.documents.get(&key) {
            return Ok(document);
        }
        let document = Arc::new(self.fetch_uncached(url, run, &mut left).await?);
        let bytes = document.content.len();
        self.documents.put(key, bytes, Arc::clone(&document));
        Ok(document)
    }

    async fn fetch_uncached(
        &self,
        url: Url,
        run: RunId,
        left: &mut RemainingTime,
    ) -> Result<Document, FetchError> {
        let (url, answer) = self.follow(url, run, left).await?;
        let host = url.host_str().unwrap_or_default();
        if !answer.status.is_success() {
            return Err(FetchError::Status {
                host: host.to_owned(),
                status: answer.status.as_u16(),
                retry_after: retry_after(&answer.headers),
            });
        }
        if let Some(found) = answer.compression {
            return Err(FetchError::Encoded { found });
        }
        let content_type = answer.headers.get(header::CONTENT_TYPE);
        let content_type = content_type.map(|value| String::from_utf8_lossy(value.as_bytes()));
        let kind = Kind::of(content_type.as_deref(), &answer.body);
        let (kind, charset) = kind.map_err(|found| FetchError::ContentType { found })?;
        if answer.is_cut && kind == Kind::Pdf {
            return Err(FetchError::TooLarge {
                most: self.config.max_bytes,
            });
        }
        let within = self.config.convert_timeout;
        let request = ConvertRequest {
            kind,
            base: url.to_string(),
            charset,
            seconds: within.as_secs().saturating_add(1),
        };
        let readable = convert_apart(request, answer.body, within).await?;
        let title = readable.title.as_deref();
        Ok(Document {
            url,
            title: title.map(|title| clip(title, MAX_TITLE_CHARS)),
            pages: page::pages(&readable.content, self.config.page_chars),
            content: readable.content,
            is_cut: answer.is_cut || readable.is_cut,
        })
    }

    /// Sends the request, and follows redirects within the same host.
    async fn follow(
        &self,
        mut url: Url,
        run: RunId,
        left: &mut RemainingTime,
    ) -> Result<(Url, Answer), FetchError> {
        for _ in 0..=self.config.max_redirects {
            self.check_robots(&url, run, left).await?;
            let answer = self.send(&url, self.config.max_bytes, left).await?;
            let Some(target) = self.next(&url, &answer)? else {
                return Ok((url, answer));
            };
            url = target;
        }
        Err(FetchError::TooManyRedirects {
            most: self.config.max_redirects,
        })
    }

    /// Returns the target of an answer that is a redirect within its site.
    fn next(&self, at: &Url, answer: &Answer) -> Result<Option<Url>, FetchError> {
        let Some(target) = redirect(answer) else {
            return Ok(None);
        };
        let target = at.join(&target);
        let mut target = target.map_err(|error| FetchError::InvalidRedirect {
            host: site(at).to_owned(),
            why: error.to_string(),
        })?;
        target.set_fragment(None);
        check_length(&target)?;
        // A forbidden address is reported as such, even if it is on another site.
        self.guard.check(&target)?;
        match site(&target) == site(at) {
            true => Ok(Some(target)),
            false => Err(FetchError::Redirected {
                to: target.to_string(),
            }),
        }
    }

    /// Refuses a URL that its site disallows.
    async fn check_robots(
        &self,
        url: &Url,
        run: RunId,
        left: &mut RemainingTime,
    ) -> Result<(), FetchError> {
        if !self.config.robots {
            return Ok(());
        }
        let rules = self.rules(url, run, left).await?;
        if rules.is_empty() {
            return Ok(());
        }
        // Blocking, since matching a site's extensive rules could delay other tasks.
        let requested = url.clone();
        let allowed = tokio::task::spawn_blocking(move || rules.allows(&requested));
        match allowed.await.unwrap_or_default() {
            true => Ok(()),
            false => Err(FetchError::Robots {
                host: url.host_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Fetches a site's rules once per run.
    async fn rules(
        &self,
        url: &Url,
        run: RunId,
        left: &mut RemainingTime,
    ) -> Result<Rules, FetchError> {
        let key = (run, robots::place(url));
        if let Some(rules) = self.robots.get(&key) {
            return Ok(rules);
        }
        let mut place = key.1.clone();
        let mut answer = self.send(&place, robots::MAX_BYTES, left).await?;
        for _ in 0..self.config.max_redirects {
            // A redirect to another site would lead to that site's rules.
            let Ok(Some(target)) = self.next(&place, &answer) else {
                break;
            };
            place = target;
            answer = self.send(&place, robots::MAX_BYTES, left).await?;
        }
        let host = || url.host_str().unwrap_or_default().to_owned();
        if let Some(found) = answer.compression.filter(|_| answer.status.is_success()) {
            return Err(FetchError::RobotsEncoded {
                host: host(),
                found,
            });
        }
        let status = answer.status.as_u16();
        let rules = Rules::of(status, &answer.body, &self.config.user_agent);
        let rules = rules.ok_or_else(|| FetchError::RobotsUnknown {
            host: host(),
            status,
        })?;
        self.robots.put(key, rules.bytes(), rules.clone());
        Ok(rules)
    }

    /// Sends one request when its turn has come, and reads the answer.
    async fn send(
        &self,
        url: &Url,
        most: u64,
        left: &mut RemainingTime,
    ) -> Result<Answer, FetchError> {
        let addresses = self.guard.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let _lock = wait_for_lock(&self.hosts, host, url, left).await?;
        let begun = Instant::now();
        let request = self.clients.get(addresses, url, most);
        let answer = timeout_at(begun + left.requests, request).await;
        left.requests = left.requests.saturating_sub(begun.elapsed());
        answer.unwrap_or(Err(FetchError::Timeout {
            within: self.config.timeout,
        }))
    }
}

/// Waits until a lock is free, at most for the remaining waiting time of the call.
async fn wait_for_lock(
    locks: &NamedLocks,
    name: &str,
    url: &Url,
    left: &mut RemainingTime,
) -> Result<OwnedMutexGuard<()>, FetchError> {
    let begun = Instant::now();
    let lock = timeout(left.waiting, locks.lock(name)).await;
    left.waiting = left.waiting.saturating_sub(begun.elapsed());
    lock.map_err(|_| FetchError::Busy {
        host: url.host_str().unwrap_or_default().to_owned(),
    })
}

/// Parses a URL as a model writes it.
pub(crate) fn read(text: &str) -> Result<Url, FetchError> {
    let text = text.trim();
    let why = |why: String| FetchError::Url { why };
    if text.len() > MAX_URL_BYTES {
        return Err(why(format!("it has more than {MAX_URL_BYTES} bytes")));
    }
    let mut url = Url::parse(text).map_err(|error| why(error.to_string()))?;
    url.set_fragment(None);
    Ok(url)
}

/// Refuses a redirect target that is too long for a model to have named it.
fn check_length(url: &Url) -> Result<(), FetchError> {
    // Counted without escapes, each of which represents one byte.
    let escapes = url.as_str().matches('%').count();
    match url.as_str().len() - 2 * escapes > MAX_URL_BYTES {
        true => Err(FetchError::Url {
            why: format!("it redirects to a URL of more than {MAX_URL_BYTES} bytes"),
        }),
        false => Ok(()),
    }
}

/// Returns the target of a redirect.
fn redirect(answer: &Answer) -> Option<String> {
    let leads_on = matches!(
        answer.status,
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let target = answer.headers.get(header::LOCATION).filter(|_| leads_on)?;
    Some(String::from_utf8_lossy(target.as_bytes()).into_owned())
}

/// Returns the host without a leading `www.`. Policy rules about hosts judge the URL of a call, so redirects may not
/// lead to any other host.
fn site(url: &Url) -> &str {
    let host = url.host_str().unwrap_or_default().trim_end_matches('.');
    host.strip_prefix("www.").unwrap_or(host)
}

fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_is_its_host_with_or_without_www() {
        let of = |text: &str| site(&Url::parse(text).unwrap()).to_owned();
        assert_eq!(
            of("https://www.example.org/a"),
            of("http://example.org:8080/")
        );
        assert_ne!(of("https://docs.example.org"), of("https://example.org"));
        assert_ne!(
            of("https://example.org.evil.example"),
            of("https://example.org")
        );
    }

    #[test]
    fn an_invalid_or_overlong_url_is_refused() {
        for text in [
            "",
            "example.org/page",
            "/page",
            "http://",
            "http://[::1",
            "http://a b/",
        ] {
            let error = read(text).unwrap_err();
            assert!(error.to_string().starts_with("invalid_url: "), "{error}");
        }
        assert!(read(&format!("https://example.org/{}", "a".repeat(3_000))).is_err());
        assert_eq!(
            read(" https://example.org/a#b ").unwrap().as_str(),
            "https://example.org/a"
        );
    }
}
