//! Fetches documents: one request at a time for each host, redirects judged one by one, nothing fetched twice in a run.

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
use crate::convert::{Kind, Order, convert_apart};
use crate::error::FetchError;
use crate::guard::{Guard, NameLookup};
use crate::page;
use crate::recent::Recent;
use crate::robots::{self, Rules};
use crate::turns::Turns;
use request::{Answer, Clients};

/// How many bytes of what sites say in `robots.txt` are kept.
const ROBOTS_CACHE_BYTES: usize = 4 << 20;

/// The longest URL that is fetched, in bytes: longer ones carry something out rather than name something.
const MAX_URL_BYTES: usize = 2_048;

/// The most characters of a title, with which each page of the document is told. Without an end, the first heading of a page is
/// all of it.
const MAX_TITLE_CHARS: usize = 300;

/// How long a call waits in all for its turn: so many times what fetching a document may take.
const MAX_WAITS: u32 = 5;

/// The time that a call has left.
struct Left {
    /// For what it asks of the site. This time does not run while other requests to the same host are under way.
    requests: Duration,
    /// For waiting until it is its turn.
    waiting: Duration,
}

/// Fetches documents, within the bounds of its configuration.
#[derive(Debug)]
pub(crate) struct Fetcher {
    config: WebConfig,
    guard: Guard,
    clients: Clients,
    /// By run, so that no run reads what another one was shown.
    documents: Recent<(RunId, Url), Arc<Document>>,
    robots: Recent<(RunId, Url), Rules>,
    fetching: Turns,
    hosts: Turns,
}

/// A document that was fetched and read.
#[derive(Debug)]
pub(crate) struct Document {
    /// Where it was in the end.
    pub(crate) url: Url,
    pub(crate) title: Option<String>,
    content: String,
    /// Where its pages begin and end.
    pages: Vec<(usize, usize)>,
    /// It is longer than what may be read of it.
    pub(crate) is_cut: bool,
}

impl Document {
    /// Returns how many pages there are.
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
            documents: Recent::new(config.cache_bytes),
            robots: Recent::new(ROBOTS_CACHE_BYTES),
            fetching: Turns::default(),
            hosts: Turns::default(),
            config: config.clone(),
        }
    }

    /// Returns how long a call may take, with what it may have to wait for others.
    pub(crate) fn patience(&self) -> Duration {
        let fetching = self.config.timeout.saturating_add(self.waiting());
        // What makes text of it may have others before it, too.
        let converting = self.config.convert_timeout.saturating_mul(2);
        fetching.saturating_add(converting)
    }

    fn waiting(&self) -> Duration {
        self.config.timeout.saturating_mul(MAX_WAITS)
    }

    /// Fetches a document, or takes it from what this run fetched before.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection and ends what reads the document.
    pub(crate) async fn fetch(&self, url: &str, run: RunId) -> Result<Arc<Document>, FetchError> {
        let url = read(url)?;
        self.guard.check(&url)?;
        let key = (run, url.clone());
        if let Some(document) = self.documents.get(&key) {
            return Ok(document);
        }
        let mut left = Left {
            requests: self.config.timeout,
            waiting: self.waiting(),
        };
        // Whoever wants the same document at the same time waits for it.
        let name = format!("{run} {url}");
        let _ours = turn(&self.fetching, &name, &url, &mut left).await?;
        if let Some(document) = self.documents.get(&key) {
            return Ok(document);
        }
        let document = Arc::new(self.fetch_anew(url, run, &mut left).await?);
        let bytes = document.content.len();
        self.documents.put(key, bytes, Arc::clone(&document));
        Ok(document)
    }

    async fn fetch_anew(
        &self,
        url: Url,
        run: RunId,
        left: &mut Left,
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
        let order = Order {
            kind,
            base: url.to_string(),
            charset,
            seconds: within.as_secs().saturating_add(1),
        };
        let readable = convert_apart(order, answer.body, within).await?;
        let title = readable.title.as_deref();
        Ok(Document {
            url,
            title: title.map(|title| clip(title, MAX_TITLE_CHARS)),
            pages: page::pages(&readable.content, self.config.page_chars),
            content: readable.content,
            is_cut: answer.is_cut || readable.is_cut,
        })
    }

    /// Sends the request, and those that redirects within the same host ask for.
    async fn follow(
        &self,
        mut url: Url,
        run: RunId,
        left: &mut Left,
    ) -> Result<(Url, Answer), FetchError> {
        for _ in 0..=self.config.max_redirects {
            self.ask_robots(&url, run, left).await?;
            let answer = self.send(&url, self.config.max_bytes, left).await?;
            let Some(target) = self.next(&url, &answer)? else {
                return Ok((url, answer));
            };
            url = target;
        }
        Err(self.astray())
    }

    /// Returns where an answer leads on to within its site, if it is a redirect.
    fn next(&self, at: &Url, answer: &Answer) -> Result<Option<Url>, FetchError> {
        let Some(target) = redirect(answer) else {
            return Ok(None);
        };
        let mut target = at.join(&target).map_err(|_| self.astray())?;
        target.set_fragment(None);
        check_length(&target)?;
        // An address that must not be reached is named as such, wherever it stands.
        self.guard.check(&target)?;
        match site(&target) == site(at) {
            true => Ok(Some(target)),
            false => Err(FetchError::Redirected {
                to: target.to_string(),
            }),
        }
    }

    const fn astray(&self) -> FetchError {
        FetchError::TooManyRedirects {
            most: self.config.max_redirects,
        }
    }

    /// Refuses a URL that its site wants not to be fetched.
    async fn ask_robots(&self, url: &Url, run: RunId, left: &mut Left) -> Result<(), FetchError> {
        if !self.config.robots {
            return Ok(());
        }
        let rules = self.rules(url, run, left).await?;
        if rules.is_empty() {
            return Ok(());
        }
        // A site may say so much that looking through it would keep others waiting.
        let asked = url.clone();
        let looked = tokio::task::spawn_blocking(move || rules.allows(&asked));
        match looked.await.unwrap_or_default() {
            true => Ok(()),
            false => Err(FetchError::Robots {
                host: url.host_str().unwrap_or_default().to_owned(),
            }),
        }
    }

    /// Asks a site once in a run what it wants not to be fetched.
    async fn rules(&self, url: &Url, run: RunId, left: &mut Left) -> Result<Rules, FetchError> {
        let key = (run, robots::place(url));
        if let Some(rules) = self.robots.get(&key) {
            return Ok(rules);
        }
        let mut place = key.1.clone();
        let mut answer = self.send(&place, robots::MAX_BYTES, left).await?;
        for _ in 0..self.config.max_redirects {
            // Elsewhere, another site speaks.
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

    /// Sends one request when it is its turn, and reads the answer.
    async fn send(&self, url: &Url, most: u64, left: &mut Left) -> Result<Answer, FetchError> {
        let reach = self.guard.check(url)?;
        let host = url.host_str().unwrap_or_default();
        let _turn = turn(&self.hosts, host, url, left).await?;
        let begun = Instant::now();
        let request = self.clients.get(reach, url, most);
        let answer = timeout_at(begun + left.requests, request).await;
        left.requests = left.requests.saturating_sub(begun.elapsed());
        answer.unwrap_or(Err(FetchError::Timeout {
            within: self.config.timeout,
        }))
    }
}

/// Waits for the turn of a call, no longer than it may.
async fn turn(
    turns: &Turns,
    name: &str,
    url: &Url,
    left: &mut Left,
) -> Result<OwnedMutexGuard<()>, FetchError> {
    let begun = Instant::now();
    let turn = timeout(left.waiting, turns.take(name)).await;
    left.waiting = left.waiting.saturating_sub(begun.elapsed());
    turn.map_err(|_| FetchError::Busy {
        host: url.host_str().unwrap_or_default().to_owned(),
    })
}

/// Reads a URL as a model writes it.
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

/// Refuses what a redirect leads to if a model could not have named it.
fn check_length(url: &Url) -> Result<(), FetchError> {
    // A model names it without escapes, each of which stands for one byte.
    let escapes = url.as_str().matches('%').count();
    match url.as_str().len() - 2 * escapes > MAX_URL_BYTES {
        true => Err(FetchError::Url {
            why: format!("it redirects to one of more than {MAX_URL_BYTES} bytes"),
        }),
        false => Ok(()),
    }
}

/// Returns where a redirect leads.
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

/// Returns the host, with or without `www.` before it: rules about hosts judge what a call names, so that a redirect leads no
/// further than that.
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
    fn what_is_no_url_is_said_to_be_none() {
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
