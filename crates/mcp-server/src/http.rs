//! Clients over streamable HTTP: one address that takes POST, GET and DELETE.
//!
//! Requests of 2026-07-28 stand alone. Those of earlier versions belong to a session of the protocol, which has nothing to do
//! with the sessions of the engine, and is forgotten after an hour without a message. A client that is asked about a call is
//! sent one now and then while a person decides, as long as it answers.

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use neuraxis_ports::CancellationToken;
use rmcp::RoleServer;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::server::McpServer;

/// How long a session of the protocol lives without a message: a run may well be silent for long.
const IDLE: Duration = Duration::from_secs(3_600);

/// The most sessions of the protocol at the same time.
const MAX_SESSIONS: usize = 1_000;

/// The header that names a session of the protocol.
const SESSION: &str = "mcp-session-id";

/// The most bytes of a request.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Answers the requests of many clients. It has no keys: who mounts it says who may reach it, and bounds what is read.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    under_way: UnderWay,
}

/// What is looked at of a message before it is given on.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    id: Option<Value>,
}

/// The ids of requests that are not answered yet: a session of the protocol, and what its client calls the request. The
/// protocol tells answers apart by them alone, so that two of one id could get each other's.
#[derive(Clone, Default)]
struct UnderWay(Arc<Mutex<HashSet<(String, String)>>>);

/// An id that is taken until this is dropped.
pub(crate) struct TakenId {
    under_way: UnderWay,
    id: (String, String),
}

impl UnderWay {
    /// Takes the id of a request of a session; `None` if another has it.
    fn take(&self, session: &str, id: &Value) -> Option<TakenId> {
        // As JSON, in which a number is not the text of its digits.
        let id = (session.to_owned(), id.to_string());
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id.clone()).then(|| TakenId {
            under_way: self.clone(),
            id,
        })
    }
}

impl Drop for TakenId {
    fn drop(&mut self) {
        let taken = &self.under_way.0;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.id);
    }
}

/// Returns the id that a request took, to be held until it is answered; `None` of one that took none.
pub(crate) fn id_of(context: &RequestContext<RoleServer>) -> Option<Arc<TakenId>> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get().cloned()
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
        Self {
            service,
            sessions,
            under_way: UnderWay::default(),
        }
    }

    /// Answers one request, whose body was read.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is what a client does that goes away: a call of 2026-07-28 is cancelled, one of an earlier version
    /// goes on in its session.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<BoxBody<Bytes, Infallible>> {
        let peek: Option<Peek<'_>> = serde_json::from_slice(request.body()).ok();
        let (method, id) = peek.map_or((None, None), |peek| (peek.method, peek.id));
        if method.as_deref() == Some("initialize") {
            // Counted in passing: whoever comes at the same moment may be one too many.
            let there_are = self.sessions.sessions.read().await.len();
            if there_are >= MAX_SESSIONS {
                return refused();
            }
        }
        let is_end = request.method() == Method::DELETE;
        let session = request.headers().get(SESSION);
        let session = session.and_then(|session| session.to_str().ok());
        // What has no method answers a request of ours.
        let (Some(session), Some(id), Some(_)) = (session, id, method) else {
            let mut response = self.service.handle(request.map(Full::new)).await;
            // Some clients take no other success for one.
            if is_end && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return response;
        };
        let Some(taken) = self.under_way.take(session, &id) else {
            return taken_twice(&id);
        };
        let taken = Arc::new(taken);
        let mut request = request.map(Full::new);
        // The call, which goes on when its client has left, holds it as well.
        request.extensions_mut().insert(Arc::clone(&taken));
        let response = self.service.handle(request).await;
        // And until all of the answer was sent.
        let held = move |frame| {
            let _ = &taken;
            frame
        };
        response.map(|body| body.map_frame(held).boxed())
    }
}

/// Refuses a request that has the id of one that is not answered yet (JSON-RPC 2.0, section 5.1: an invalid request).
fn taken_twice(id: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let message = "a request of this id is not answered yet: give each an id of its own";
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32600, "message": message}});
    let mut response = Response::new(Full::new(Bytes::from(error.to_string())).boxed());
    *response.status_mut() = StatusCode::BAD_REQUEST;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
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
