//! A model server's address and the connections to it.

mod address;
mod answer;
mod voice;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use neuraxis_core::LlmError;
use neuraxis_ports::CancellationToken;
use reqwest::{Method, Request, Url};
use tokio::time::Instant;

pub(crate) use self::address::cause;
use self::address::is_loopback;
pub use self::address::{EndpointError, Route};
use self::answer::Answer;
pub(crate) use self::voice::Voice;
use crate::body::{Body, Limits, after, given_up};
use crate::failure::ErrorRule;
use crate::secret::Secret;
use crate::timeouts::Timeouts;

/// The most bytes of a reply that comes whole: what a reply may hold at most, written as JSON.
const MAX_REPLY_BODY: usize = 2 * neuraxis_core::MAX_REPLY_BYTES;

/// Room for the headers that come to every request: accept, content-type, content-length, host.
const OWN_HEADERS: usize = 4;

/// How a model server is reached.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndpointConfig {
    /// The address that routes are added to, such as `http://127.0.0.1:8080`.
    pub base_url: String,
    /// The key to send as a bearer token.
    pub api_key: Option<Secret>,
    /// What else is sent with each request: names and values. The values are kept secret.
    pub headers: Vec<(String, Secret)>,
    /// How long each part of an exchange may take.
    pub timeouts: Timeouts,
    /// How long an unused connection is kept. Shorter than the server keeps it, or requests meet closed connections.
    pub keep_idle: Duration,
    /// A program that closes the connection after each streamed reply without saying so, by the beginning of its `server`
    /// header. A request on such a connection may be lost, so none is used again unless the header names another.
    pub hangs_up_after_streams: Option<&'static str>,
    /// What the server's errors mean, before what holds everywhere.
    pub errors: &'static [ErrorRule],
}

impl EndpointConfig {
    /// Describes a server of which only the address is known.
    pub fn new(base_url: impl Into<String>) -> Self {
        Self {
            base_url: base_url.into(),
            api_key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            keep_idle: Duration::from_secs(90),
            hangs_up_after_streams: None,
            errors: &[],
        }
    }
}

/// A model server: one pool of connections, shared by all calls.
///
/// Redirects are not followed: they would carry the conversation, and perhaps the key, to where nobody sent it.
/// A loopback address is reached directly, whatever proxy the environment names.
#[derive(Debug)]
pub struct Endpoint {
    client: reqwest::Client,
    base: Url,
    headers: HeaderMap,
    timeouts: Timeouts,
    hangs_up_after_streams: Option<&'static str>,
    /// Whether the connection of a streamed reply can be used again.
    reuses_streams: AtomicBool,
    voice: Arc<Voice>,
}

/// What a reply is expected to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    Json,
    Events,
}

impl Endpoint {
    /// Prepares the connections to a server. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`], when the address or a header cannot be used, or TLS cannot be set up.
    pub fn new(config: EndpointConfig) -> Result<Self, EndpointError> {
        let base = address::parse(&config.base_url)?;
        let mut builder = reqwest::Client::builder()
            .redirect(reqwest::redirect::Policy::none())
            .referer(false)
            // One attempt: nothing is kept to repeat it.
            .retry(reqwest::retry::never().max_retries_per_request(0))
            .connect_timeout(config.timeouts.connect)
            .pool_idle_timeout(config.keep_idle);
        if is_loopback(&base) {
            builder = builder.no_proxy();
        }
        if base.scheme() == "http" {
            // Reading the machine's certificates takes longer than a whole exchange on loopback.
            builder = builder.tls_certs_only([]);
        }
        let client = builder
            .build()
            .map_err(|error| EndpointError::Client(cause(&error)))?;
        Ok(Self {
            client,
            headers: headers(&config)?,
            timeouts: config.timeouts,
            hangs_up_after_streams: config.hangs_up_after_streams,
            reuses_streams: AtomicBool::new(config.hangs_up_after_streams.is_none()),
            voice: Arc::new(Voice {
                server: address::name(&base),
                errors: config.errors,
                secret: config.api_key,
            }),
            base,
        })
    }

    /// Returns a route on this server. `path` has no slash in front.
    #[must_use]
    pub fn route(&self, path: &str) -> Route {
        Route::new(&self.base, path)
    }

    /// Fetches a JSON document within a time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn get(&self, route: &Route, within: Duration) -> Result<Bytes, LlmError> {
        let request = self.request(Method::GET, route, Accept::Json, Bytes::new());
        self.exchange(request, within, &CancellationToken::new())
            .await
    }

    /// Posts a JSON document and fetches the one that answers, within a time.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that says what went wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection.
    pub async fn post(
        &self,
        route: &Route,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, LlmError> {
        let request = self.request(Method::POST, route, Accept::Json, body);
        self.exchange(request, within, &CancellationToken::new())
            .await
    }

    /// Posts a request whose reply comes whole.
    pub(crate) async fn ask(
        &self,
        route: &Route,
        body: Bytes,
        cancellation: &CancellationToken,
    ) -> Result<Bytes, LlmError> {
        let request = self.request(Method::POST, route, Accept::Json, body);
        let total = self.timeouts.total.unwrap_or(Duration::MAX);
        self.exchange(request, total.min(self.timeouts.whole_reply), cancellation)
            .await
    }

    /// Posts a request whose reply streams in.
    pub(crate) async fn stream(
        &self,
        route: &Route,
        body: Bytes,
        cancellation: &CancellationToken,
    ) -> Result<Body, LlmError> {
        let mut request = self.request(Method::POST, route, Accept::Events, body);
        if !self.reuses_streams.load(Ordering::Relaxed) {
            let close = HeaderValue::from_static("close");
            request.headers_mut().insert(header::CONNECTION, close);
        }
        let timeouts = &self.timeouts;
        let now = Instant::now();
        let limits = Limits {
            first: after(now, timeouts.first_byte),
            idle: timeouts.idle,
            output: timeouts.output,
            end: timeouts.total.map(|total| after(now, total)),
        };
        let first_byte = timeouts
            .first_byte
            .min(timeouts.total.unwrap_or(Duration::MAX));
        let answer = self
            .begin(request, first_byte, limits, cancellation)
            .await?;
        if let Some(program) = self.hangs_up_after_streams {
            let reuses = !answer.comes_from(program);
            self.reuses_streams.store(reuses, Ordering::Relaxed);
        }
        answer.events().await
    }

    pub(crate) fn voice(&self) -> &Arc<Voice> {
        &self.voice
    }

    async fn exchange(
        &self,
        request: Request,
        within: Duration,
        cancellation: &CancellationToken,
    ) -> Result<Bytes, LlmError> {
        let end = after(Instant::now(), within);
        let limits = Limits {
            first: end,
            idle: within,
            output: within,
            end: Some(end),
        };
        let answer = self.begin(request, within, limits, cancellation).await?;
        answer.document(MAX_REPLY_BODY).await
    }

    /// Sends a request and waits for the head of its answer.
    async fn begin(
        &self,
        request: Request,
        within: Duration,
        limits: Limits,
        cancellation: &CancellationToken,
    ) -> Result<Answer, LlmError> {
        let sent = tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(given_up()),
            sent = tokio::time::timeout(within, self.client.execute(request)) => sent,
        };
        match sent {
            Ok(Ok(response)) => Ok(Answer::new(
                response,
                limits,
                cancellation.clone(),
                Arc::clone(&self.voice),
            )),
            Ok(Err(error)) => Err(self.voice.unreachable(&error)),
            Err(_) => Err(self.voice.silent(within)),
        }
    }

    fn request(&self, method: Method, route: &Route, accept: Accept, body: Bytes) -> Request {
        let mut request = Request::new(method, route.url().clone());
        let headers = request.headers_mut();
        headers.reserve(self.headers.len() + OWN_HEADERS);
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        let accepted = match accept {
            Accept::Json => "application/json",
            Accept::Events => "text/event-stream",
        };
        headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
        if !body.is_empty() {
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            *request.body_mut() = Some(body.into());
        }
        request
    }
}

fn headers(config: &EndpointConfig) -> Result<HeaderMap, EndpointError> {
    let mut headers = HeaderMap::new();
    let agent = concat!("neuraxis/", env!("CARGO_PKG_VERSION"));
    headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
    let bearer = config.api_key.iter().map(|key| {
        let value = format!("Bearer {}", key.expose());
        (header::AUTHORIZATION, value)
    });
    for (name, value) in bearer {
        headers.insert(name.clone(), secret_value(name.as_str(), &value)?);
    }
    for (name, value) in &config.headers {
        let parsed = HeaderName::try_from(name.as_str());
        let parsed = parsed.map_err(|_| EndpointError::HeaderName(name.clone()))?;
        headers.insert(parsed, secret_value(name, value.expose())?);
    }
    Ok(headers)
}

fn secret_value(name: &str, value: &str) -> Result<HeaderValue, EndpointError> {
    let mut value =
        HeaderValue::try_from(value).map_err(|_| EndpointError::HeaderValue(name.to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}
