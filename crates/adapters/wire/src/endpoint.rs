//! A model server's address and the connections to it.

mod address;
mod answer;
mod config;
mod connect;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use neuraxis_core::LlmError;
use neuraxis_ports::{CallContext, CancellationToken, ReplyStream, SPAN_TARGET};
use reqwest::{Method, Request, Url};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;
use tracing::{Instrument, Span};

pub(crate) use self::address::cause;
pub use self::address::{EndpointError, Route};
use self::answer::HttpReply;
pub use self::config::{EndpointConfig, KeyHeader, MaxConcurrent};
use crate::body::{Body, TimeLimits, after, cancelled_by_caller};
use crate::errors::ServerErrors;
use crate::reply::ReplyDecoder;
use crate::stream::EventStream;
use crate::timeouts::Timeouts;

/// The maximum size of a whole reply in bytes: the most that a reply may hold, written as JSON.
const MAX_REPLY_BODY: usize = 2 * neuraxis_core::MAX_REPLY_BYTES;

/// A model server: one connection pool, shared by all calls.
///
/// Redirects are not followed: they would carry the conversation, and perhaps the key, to an unintended place. A
/// loopback address is reached directly, whatever proxy the environment names.
#[derive(Debug)]
pub struct Endpoint {
    client: reqwest::Client,
    base: Url,
    headers: Headers,
    query: Vec<(String, String)>,
    max_concurrent: Option<MaxConcurrent>,
    timeouts: Timeouts,
    hangs_up_after_streams: Option<&'static str>,
    /// Whether the connection of a streamed reply can be reused.
    reuses_streams: AtomicBool,
    errors: Arc<ServerErrors>,
}

/// The expected form of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Accept {
    Json,
    Events,
}

/// The parts of a request. The request itself is built only when it is sent, so a waiting call holds no memory for it
/// and its headers.
struct RequestParts<'a> {
    method: Method,
    route: &'a Route,
    accept: Accept,
    body: Bytes,
    /// The call that it belongs to, whose trace is propagated to the server.
    call: Option<&'a CallContext>,
    closes_connection: bool,
}

impl<'a> RequestParts<'a> {
    const fn new(method: Method, route: &'a Route, body: Bytes) -> Self {
        Self {
            method,
            route,
            accept: Accept::Json,
            body,
            call: None,
            closes_connection: false,
        }
    }

    const fn of_call(route: &'a Route, body: Bytes, call: &'a CallContext) -> Self {
        let mut parts = Self::new(Method::POST, route, body);
        parts.call = Some(call);
        parts
    }
}

/// The headers of each request, built once.
#[derive(Debug)]
struct Headers {
    for_json: HeaderMap,
    for_events: HeaderMap,
}

impl Headers {
    fn new(always: &HeaderMap) -> Self {
        let accepting = |accepted: &'static str| {
            let mut headers = always.clone();
            headers.insert(header::ACCEPT, HeaderValue::from_static(accepted));
            let json = HeaderValue::from_static("application/json");
            headers.insert(header::CONTENT_TYPE, json);
            headers
        };
        Self {
            for_json: accepting("application/json"),
            for_events: accepting("text/event-stream"),
        }
    }
}

impl Endpoint {
    /// Prepares the connections to a server. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`EndpointError`] if the address, a header, the certificate file or the proxy cannot be used, or if TLS cannot
    /// be set up.
    pub fn new(config: EndpointConfig) -> Result<Self, EndpointError> {
        let base = address::parse(&config.base_url)?;
        let proxy = connect::proxy_in_use(&config, &base);
        Ok(Self {
            client: connect::client(&config, &base)?,
            headers: Headers::new(&connect::headers(&config)?),
            query: config.query,
            max_concurrent: config.max_concurrent,
            timeouts: config.timeouts,
            hangs_up_after_streams: config.hangs_up_after_streams,
            reuses_streams: AtomicBool::new(config.hangs_up_after_streams.is_none()),
            errors: Arc::new(
                ServerErrors::new(
                    address::name(&base),
                    config.errors,
                    config
                        .api_key
                        .into_iter()
                        .chain(config.headers.into_iter().map(|(_, value)| value))
                        .collect(),
                )
                .with_proxy(proxy),
            ),
            base,
        })
    }

    /// Returns a route on this server. `path` has no leading slash.
    #[must_use]
    pub fn route(&self, path: &str) -> Route {
        Route::new(&self.base, path, &self.query)
    }

    /// Fetches a JSON document, waiting at most `within`.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that describes what went wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, or only its HTTP/2 stream.
    pub async fn get(&self, route: &Route, within: Duration) -> Result<Bytes, LlmError> {
        let parts = RequestParts::new(Method::GET, route, Bytes::new());
        self.exchange(parts, within, &CancellationToken::new())
            .instrument(self.request_span())
            .await
    }

    /// Posts a JSON document and returns the one in the response, waiting at most `within`.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that describes what went wrong.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, or only its HTTP/2 stream.
    pub async fn post(
        &self,
        route: &Route,
        body: Bytes,
        within: Duration,
    ) -> Result<Bytes, LlmError> {
        let parts = RequestParts::new(Method::POST, route, body);
        self.exchange(parts, within, &CancellationToken::new())
            .instrument(self.request_span())
            .await
    }

    /// Starts the span of a request that is not a model call, such as for the list of models. Returns no span if there
    /// is no current span or none is exported.
    fn request_span(&self) -> Span {
        if Span::current().is_none() {
            return Span::none();
        }
        tracing::debug_span!(
            target: SPAN_TARGET,
            "ask",
            otel.name = "ask model server",
            otel.kind = "client",
            server.address = self.base.host_str(),
        )
    }

    /// Posts a request to a model and returns its whole reply, as JSON. The call waits for its turn if
    /// [`max_concurrent`](EndpointConfig::max_concurrent) is set, and takes no longer than
    /// [`whole_reply`](Timeouts::whole_reply) and [`total`](Timeouts::total) allow.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] that describes what went wrong: of kind [`Cancelled`](neuraxis_core::LlmErrorKind::Cancelled)
    /// once the call's context is cancelled, otherwise determined by the server's [`ErrorRule`](crate::ErrorRule)s.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future closes the connection, or only its HTTP/2 stream.
    pub async fn ask(
        &self,
        route: &Route,
        body: Bytes,
        ctx: &CallContext,
    ) -> Result<Bytes, LlmError> {
        let cancellation = &ctx.cancellation;
        let total = self.timeouts.total.unwrap_or(Duration::MAX);
        let permit = self.permit(total, ctx).await?;
        let within = total.min(self.timeouts.whole_reply);
        // The permit is released once the reply has arrived.
        let parts = RequestParts::of_call(route, body, ctx);
        let answer = self.exchange(parts, within, cancellation).await;
        drop(permit);
        answer
    }

    /// Posts a request to a model and streams its reply, sent as server-sent events. The decoder that `decoder` creates
    /// turns the events into pieces of a reply. It is created only once the server answers, so a waiting call holds no
    /// memory for it. The call waits for its turn if [`max_concurrent`](EndpointConfig::max_concurrent) is set. Each
    /// part of the exchange has its own limit in [`Timeouts`].
    ///
    /// Once the decoder reports that the reply is complete, the stream ends, and its connection is free for the next
    /// call.
    ///
    /// # Errors
    ///
    /// An [`LlmError`] for everything that goes wrong before the first piece; a later error is the last item of the
    /// stream.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future or the stream closes the connection, or only its HTTP/2 stream.
    pub async fn stream<D: ReplyDecoder>(
        &self,
        route: &Route,
        body: Bytes,
        ctx: &CallContext,
        decoder: impl FnOnce() -> D,
    ) -> Result<ReplyStream, LlmError> {
        let body = self.events(route, body, ctx).await?;
        Ok(Box::pin(EventStream::new(body, decoder())))
    }

    /// Posts such a request, and returns the body of its streamed reply.
    pub(crate) async fn events(
        &self,
        route: &Route,
        body: Bytes,
        ctx: &CallContext,
    ) -> Result<Body, LlmError> {
        let cancellation = &ctx.cancellation;
        let timeouts = &self.timeouts;
        let total = timeouts.total.unwrap_or(Duration::MAX);
        let permit = self.permit(total, ctx).await?;
        let now = Instant::now();
        let limits = TimeLimits {
            first: after(now, timeouts.first_byte),
            idle: timeouts.idle,
            output: timeouts.output,
            end: timeouts.total.map(|total| after(now, total)),
        };
        let first_byte = timeouts.first_byte.min(total);
        let mut parts = RequestParts::of_call(route, body, ctx);
        parts.accept = Accept::Events;
        parts.closes_connection = !self.reuses_streams.load(Ordering::Relaxed);
        let mut answer = self.begin(parts, first_byte, &limits, cancellation).await?;
        if let Some(program) = self.hangs_up_after_streams {
            let reuses = !answer.comes_from(program);
            self.reuses_streams.store(reuses, Ordering::Relaxed);
        }
        if !answer.is_of_events() {
            return Err(answer.unexpected("a stream of events").await);
        }
        let mut body = answer.into_body();
        if let Some(permit) = permit {
            body.hold(permit);
        }
        Ok(body)
    }

    /// Waits for a permit to receive a reply under the limit on concurrent ones. The time limits of the exchange start
    /// afterward: the model must not be blamed for the wait.
    async fn permit(
        &self,
        within: Duration,
        ctx: &CallContext,
    ) -> Result<Option<OwnedSemaphorePermit>, LlmError> {
        let Some(limit) = &self.max_concurrent else {
            return Ok(None);
        };
        let waiting_since = Instant::now();
        ctx.begin_wait();
        tokio::select! {
            biased;
            () = ctx.cancellation.cancelled() => return Err(cancelled_by_caller()),
            permit = limit.acquire() => {
                ctx.end_wait(waiting_since.elapsed());
                return Ok(permit.ok());
            }
            () = tokio::time::sleep_until(after(waiting_since, within)) => {}
        }
        Err(self.errors.busy(within))
    }

    /// Returns the error converter for this server, for callers that decode a whole reply.
    #[must_use]
    pub fn errors(&self) -> &ServerErrors {
        &self.errors
    }

    async fn exchange(
        &self,
        parts: RequestParts<'_>,
        within: Duration,
        cancellation: &CancellationToken,
    ) -> Result<Bytes, LlmError> {
        let end = after(Instant::now(), within);
        let limits = TimeLimits {
            first: end,
            idle: within,
            output: within,
            end: Some(end),
        };
        let mut answer = self.begin(parts, within, &limits, cancellation).await?;
        if !answer.is_json() {
            return Err(answer.unexpected("JSON").await);
        }
        answer.read(MAX_REPLY_BODY).await
    }

    /// Sends a request and waits for the head of its response. Fails for an error, a redirect or a compressed body.
    async fn begin(
        &self,
        parts: RequestParts<'_>,
        within: Duration,
        limits: &TimeLimits,
        cancellation: &CancellationToken,
    ) -> Result<Box<HttpReply>, LlmError> {
        let sent = tokio::select! {
            biased;
            () = cancellation.cancelled() => return Err(cancelled_by_caller()),
            sent = tokio::time::timeout(within, self.client.execute(self.request(parts))) => sent,
        };
        let response = match sent {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(self.errors.unreachable(&error)),
            Err(_) => return Err(self.errors.silent(within)),
        };
        let errors = Arc::clone(&self.errors);
        let mut answer = HttpReply::new(response, *limits, cancellation.clone(), errors);
        if answer.is_accepted() {
            return Ok(answer);
        }
        Err(Box::pin(answer.refusal()).await)
    }

    fn request(&self, parts: RequestParts<'_>) -> Request {
        let mut request = Request::new(parts.method, parts.route.url().clone());
        let headers = request.headers_mut();
        headers.clone_from(match parts.accept {
            Accept::Json => &self.headers.for_json,
            Accept::Events => &self.headers.for_events,
        });
        if parts.closes_connection {
            headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(parent) = parts.call.and_then(trace_parent) {
            headers.insert(TRACE_PARENT, parent);
        }
        if parts.body.is_empty() {
            headers.remove(header::CONTENT_TYPE);
        } else {
            *request.body_mut() = Some(parts.body.into());
        }
        request
    }
}

/// The header of W3C Trace Context.
const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// Returns the trace header for the server, if the call's trace is recorded. Vendor data is not sent: a model server
/// seldom belongs to the caller.
fn trace_parent(call: &CallContext) -> Option<HeaderValue> {
    let parent = call.trace.as_ref()?.to_string();
    HeaderValue::try_from(parent).ok()
}
