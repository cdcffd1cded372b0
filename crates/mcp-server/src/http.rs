//! Clients over streamable HTTP: one address that takes POST, GET and DELETE.
//!
//! Requests of 2026-07-28 stand alone. Those of earlier versions belong to a session of the protocol, which has nothing to do
//! with the sessions of the engine, and is forgotten after an hour without a message.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use neuraxis_ports::CancellationToken;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;

use crate::server::McpServer;

/// How long a session of the protocol lives without a message: a run may well be silent for long.
const IDLE: Duration = Duration::from_secs(3_600);

/// The most sessions of the protocol at the same time.
const MAX_SESSIONS: usize = 1_000;

/// The most bytes of a request.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Answers the requests of many clients. It has no keys: who mounts it says who may reach it, and bounds what is read.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
}

/// What is looked at of a message before it is given on.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
}

impl HttpService {
    /// Offers a server until `stop` is cancelled, which ends all streams.
    ///
    /// Requests are taken for loopback hosts alone, as their header `Host` says; who offers it elsewhere stands a proxy before
    /// it.
    #[must_use]
    pub fn new(server: McpServer, stop: CancellationToken) -> Self {
        Self::with_config(server, StreamableHttpServerConfig::default(), stop)
    }

    /// Offers a server as [`new`](Self::new) does, to requests for any host: whoever mounts it has looked at `Host` and
    /// `Origin` before.
    #[must_use]
    pub fn behind_a_guard(server: McpServer, stop: CancellationToken) -> Self {
        let config = StreamableHttpServerConfig::default()
            .disable_allowed_hosts()
            .disable_allowed_origins();
        Self::with_config(server, config, stop)
    }

    fn with_config(
        server: McpServer,
        config: StreamableHttpServerConfig,
        stop: CancellationToken,
    ) -> Self {
        let mut sessions = LocalSessionManager::default();
        sessions.session_config.keep_alive = Some(IDLE);
        let sessions = Arc::new(sessions);
        let config = config
            .with_cancellation_token(stop)
            .with_max_request_body_bytes(MAX_BODY_BYTES);
        let service = StreamableHttpService::new(
            move || Ok(server.for_client()),
            Arc::clone(&sessions),
            config,
        );
        Self { service, sessions }
    }

    /// Answers one request, whose body was read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is what a client does that goes away: a call of 2026-07-28 is cancelled, one of an earlier version
    /// goes on in its session.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<BoxBody<Bytes, Infallible>> {
        let peek: Option<Peek<'_>> = serde_json::from_slice(request.body()).ok();
        let method = peek.and_then(|peek| peek.method);
        if method.as_deref() == Some("initialize") {
            // Counted in passing: whoever comes at the same moment may be one too many.
            let there_are = self.sessions.sessions.read().await.len();
            if there_are >= MAX_SESSIONS {
                return refused();
            }
        }
        self.service.handle(request.map(Full::new)).await
    }
}

fn refused() -> Response<BoxBody<Bytes, Infallible>> {
    let text = format!("there are {MAX_SESSIONS} sessions already: try again later\n");
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}
