//! Clients over streamable HTTP: one address that accepts POST, GET and DELETE.
//!
//! Requests of 2026-07-28 stand alone. Requests of earlier versions belong to a protocol session, which is unrelated to
//! the engine's sessions and is dropped after an hour without a message. A client that is asked about a call is pinged
//! from time to time while a user decides, as long as it replies.

mod refused;

use std::collections::HashSet;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use neuraxis_ports::CancellationToken;
use rmcp::RoleServer;
use rmcp::model::ErrorCode;
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde::Deserialize;
use serde_json::{Value, json};

use self::refused::Asked;
use crate::server::McpServer;

/// How long a protocol session lives without a message: a run may be silent for a long time.
const IDLE: Duration = Duration::from_secs(3_600);

/// The maximum number of concurrent protocol sessions.
const MAX_SESSIONS: usize = 1_000;

/// The header that names a protocol session.
const SESSION: &str = "mcp-session-id";

/// The maximum size of a request, in bytes.
const MAX_BODY_BYTES: usize = 1024 * 1024;

/// Answers the requests of many clients. It checks no keys: the program that mounts it restricts access and bounds the
/// request body.
#[derive(Clone)]
pub struct HttpService {
    service: StreamableHttpService<McpServer, LocalSessionManager>,
    sessions: Arc<LocalSessionManager>,
    pending_ids: PendingIds,
}

/// The fields inspected before a message is passed on.
#[derive(Deserialize)]
struct Peek<'a> {
    #[serde(borrow, default)]
    method: Option<std::borrow::Cow<'a, str>>,
    #[serde(default)]
    id: Option<Value>,
}

/// The ids of unanswered requests: a protocol session, and the client's id for the request. The protocol library tells
/// answers apart by these alone, so two requests with the same id could receive each other's answers.
#[derive(Clone, Default)]
struct PendingIds(Arc<Mutex<HashSet<(String, String)>>>);

/// A request id, reserved until this is dropped.
pub(crate) struct ReservedId {
    pending_ids: PendingIds,
    id: (String, String),
}

impl PendingIds {
    /// Reserves the id of a session's request. Returns `None` if another request has it.
    fn reserve(&self, session: &str, id: &Value) -> Option<ReservedId> {
        // Compared as JSON, so the number 1 and the string "1" differ.
        let id = (session.to_owned(), id.to_string());
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.insert(id.clone()).then(|| ReservedId {
            pending_ids: self.clone(),
            id,
        })
    }
}

impl Drop for ReservedId {
    fn drop(&mut self) {
        let taken = &self.pending_ids.0;
        let mut taken = taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.remove(&self.id);
    }
}

/// Returns the id that a request reserved, to be held until it is answered, or `None` if it reserved none.
pub(crate) fn reserved_id(context: &RequestContext<RoleServer>) -> Option<Arc<ReservedId>> {
    let parts = context.extensions.get::<Parts>()?;
    parts.extensions.get().cloned()
}

impl HttpService {
    /// Serves `server` until `stop` is cancelled, which ends all streams.
    ///
    /// Only requests whose `Host` header names a loopback host are accepted. To serve other hosts, put a proxy in
    /// front.
    #[must_use]
    pub fn new(server: McpServer, stop: CancellationToken) -> Self {
        Self::with_config(server, StreamableHttpServerConfig::default(), stop)
    }

    /// Like [`new`](Self::new), but accepts requests for any host: the caller must check `Host` and `Origin` first.
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
            pending_ids: PendingIds::default(),
        }
    }

    /// Answers one request whose body has been read. A request that is refused gets a JSON-RPC error.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future is treated as a client that disconnects: a call of 2026-07-28 is cancelled; a call of an
    /// earlier version continues in its session.
    pub async fn answer(&self, request: Request<Bytes>) -> Response<BoxBody<Bytes, Infallible>> {
        let peek: Option<Peek<'_>> = serde_json::from_slice(request.body()).ok();
        let (method, id) = peek.map_or((None, None), |peek| (peek.method, peek.id));
        if method.as_deref() == Some("initialize") {
            // An approximate check: clients that arrive at the same moment may exceed the limit.
            let open_sessions = self.sessions.sessions.read().await.len();
            if open_sessions >= MAX_SESSIONS {
                return too_many_sessions();
            }
        }
        let asked = Asked::of(&request);
        let is_end = request.method() == Method::DELETE;
        let session = request.headers().get(SESSION);
        let session = session.and_then(|session| session.to_str().ok());
        // A message without a method is the answer to a request from the server.
        let (Some(session), Some(id), Some(_)) = (session, id, method) else {
            let response = self.service.handle(request.map(Full::new)).await;
            let mut response = asked.in_protocol_form(response);
            // Some clients accept no other status as success.
            if is_end && response.status() == StatusCode::ACCEPTED {
                *response.status_mut() = StatusCode::NO_CONTENT;
            }
            return response;
        };
        let Some(reserved) = self.pending_ids.reserve(session, &id) else {
            return duplicate_id(&id);
        };
        let reserved = Arc::new(reserved);
        let mut request = request.map(Full::new);
        // The call also holds the id, because it continues after its client disconnects.
        request.extensions_mut().insert(Arc::clone(&reserved));
        let response = self.service.handle(request).await;
        let response = asked.in_protocol_form(response);
        // The response holds the id until it has been sent in full.
        let held = move |frame| {
            let _ = &reserved;
            frame
        };
        response.map(|body| body.map_frame(held).boxed())
    }
}

/// Refuses a request that has the id of an unanswered one (JSON-RPC 2.0, section 5.1: an invalid request).
fn duplicate_id(id: &Value) -> Response<BoxBody<Bytes, Infallible>> {
    let message = "another request with this id is not answered yet; use unique ids";
    let error = refused::error(ErrorCode::INVALID_REQUEST, message);
    let message = json!({"jsonrpc": "2.0", "id": id, "error": error});
    refused::answer(StatusCode::BAD_REQUEST, &message)
}

/// The code of errors that the protocol leaves to servers (JSON-RPC 2.0, section 5.1).
const SERVER_ERROR: ErrorCode = ErrorCode(-32_000);

fn too_many_sessions() -> Response<BoxBody<Bytes, Infallible>> {
    let message = format!("the limit of {MAX_SESSIONS} sessions is reached; try again later");
    let error = refused::error(SERVER_ERROR, &message);
    refused::refused(StatusCode::SERVICE_UNAVAILABLE, &error)
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HttpService")
    }
}
