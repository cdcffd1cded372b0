//! One request, whose address is checked.

use std::error::Error;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::StatusCode;
use http::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Response, redirect, retry};
use url::Url;

use crate::config::WebConfig;
use crate::error::FetchError;
use crate::guard::{AllowedAddresses, BlockedAddress, Guard, NameLookup, Resolver};

/// How long an idle connection is kept: pages of one site are often read in succession.
const KEEP_IDLE: Duration = Duration::from_secs(20);

/// The accepted types, best first.
const ACCEPT: &str = "text/html, application/xhtml+xml, text/markdown;q=0.9, text/plain;q=0.8, application/pdf;q=0.8, */*;q=0.1";

/// The HTTP clients: one for public addresses, and one for allowed hosts at any address. They share no connections.
#[derive(Debug)]
pub(super) struct Clients {
    user_agent: String,
    connect_timeout: Duration,
    lookup: Arc<dyn NameLookup>,
    /// Created on first use: loading the machine's certificates takes a while.
    public: OnceLock<Result<Client, FetchError>>,
    allowed: OnceLock<Result<Client, FetchError>>,
}

/// A site's answer, as far as it was read.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Vec<u8>,
    /// Whether there is more than was read.
    pub(super) is_cut: bool,
    /// The compression method, if the answer is compressed although that was not requested. Its body is then not read.
    pub(super) compression: Option<String>,
}

impl Clients {
    pub(super) fn new(config: &WebConfig, lookup: Arc<dyn NameLookup>) -> Self {
        Self {
            user_agent: config.user_agent.clone(),
            connect_timeout: config.timeout,
            lookup,
            public: OnceLock::new(),
            allowed: OnceLock::new(),
        }
    }

    /// Sends a request and reads at most `most` bytes of the answer.
    pub(super) async fn get(
        &self,
        addresses: AllowedAddresses,
        url: &Url,
        most: u64,
    ) -> Result<Answer, FetchError> {
        let client = self.client(addresses)?;
        let sent = client.get(url.clone()).send().await;
        let response = sent.map_err(|error| failure(url, &error))?;
        Guard::check_peer(addresses, url, response.remote_addr())?;
        read(url, response, most).await
    }

    fn client(&self, addresses: AllowedAddresses) -> Result<&Client, FetchError> {
        let client = match addresses {
            AllowedAddresses::PublicOnly => &self.public,
            AllowedAddresses::Any => &self.allowed,
        };
        let client = client.get_or_init(|| self.connect(addresses));
        client.as_ref().map_err(Clone::clone)
    }

    fn connect(&self, addresses: AllowedAddresses) -> Result<Client, FetchError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::ACCEPT, HeaderValue::from_static(ACCEPT));
        // Uncompressed content cannot grow while it is read.
        let plain = HeaderValue::from_static("identity");
        headers.insert(header::ACCEPT_ENCODING, plain);
        let resolver = Resolver {
            lookup: Arc::clone(&self.lookup),
            addresses,
        };
        let client = Client::builder()
            .user_agent(&self.user_agent)
            .default_headers(headers)
            .redirect(redirect::Policy::none())
            .retry(retry::never().max_retries_per_request(0))
            .referer(false)
            // A proxy would resolve names itself, and could connect anywhere.
            .no_proxy()
            .dns_resolver(resolver)
            .connect_timeout(self.connect_timeout)
            .pool_idle_timeout(KEEP_IDLE)
            .build();
        client.map_err(|error| FetchError::Client { why: cause(&error) })
    }
}

/// Returns the compression method of an answer, if it is compressed.
fn compression(response: &Response) -> Option<String> {
    let encoding = response.headers().get(header::CONTENT_ENCODING)?;
    let encoding = String::from_utf8_lossy(encoding.as_bytes());
    let encoding = encoding.trim();
    let is_plain = encoding.is_empty() || encoding.eq_ignore_ascii_case("identity");
    (!is_plain).then(|| encoding.chars().take(40).collect())
}

async fn read(url: &Url, mut response: Response, most: u64) -> Result<Answer, FetchError> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let compression = compression(&response);
    let mut body = Vec::new();
    let mut is_cut = false;
    while compression.is_none()
        && let Some(piece) = response
            .chunk()
            .await
            .map_err(|error| failure(url, &error))?
    {
        let room = most - body.len();
        body.extend_from_slice(piece.get(..room.min(piece.len())).unwrap_or_default());
        if piece.len() > room {
            is_cut = true;
            drop_half_letter(&mut body);
            break;
        }
    }
    Ok(Answer {
        status: response.status(),
        headers: std::mem::take(response.headers_mut()),
        body,
        is_cut,
        compression,
    })
}

/// Removes an incomplete last character: with it, the text would be taken for another encoding.
fn drop_half_letter(body: &mut Vec<u8>) {
    if let Err(error) = std::str::from_utf8(body)
        && error.error_len().is_none()
    {
        body.truncate(error.valid_up_to());
    }
}

/// Returns why there is no answer. If the guard refused the address, that error is among the client error's sources.
fn failure(url: &Url, error: &reqwest::Error) -> FetchError {
    let mut source: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(found) = source {
        if let Some(blocked) = found.downcast_ref::<BlockedAddress>() {
            return FetchError::Blocked(blocked.clone());
        }
        source = found.source();
    }
    FetchError::Connection {
        host: url.host_str().unwrap_or_default().to_owned(),
        why: cause(error),
    }
}

/// Returns the innermost cause: the errors around it repeat the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let text = inner.to_string();
    text.chars().take(200).collect()
}
