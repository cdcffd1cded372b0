//! `/mcp`: the agents for clients of the Model Context Protocol.
//!
//! What the protocol says is answered by `neuraxis-mcp-server`. Who sits at a client approves its calls only if it shows the
//! token of decisions, or a key with the scope for it, as on the server's own API. A key's clients see what is its owner's. Here the request is bounded, as those of all routes are; a
//! refusal of ours is a problem document.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::Method;
use axum::response::Response;
use neuraxis::mcp_server::{HttpService, McpServer};
use neuraxis::ports::CancellationToken;
use neuraxis_app::Scope;
use tokio::time::sleep;

use crate::body;
use crate::caller::Caller;
use crate::keys::Key;
use crate::limits::Limited;
use crate::problem::Problem;

/// How long answers may take on their way before open streams end.
const LAST_ANSWERS: Duration = Duration::from_millis(200);

/// What answers those who show a key, made for the key as it was then.
type Keyed = (Arc<Key>, HttpService);

/// Answers MCP clients.
#[derive(Debug, Clone)]
pub(crate) struct McpClients {
    limited: Limited,
    /// For those that show the token of decisions: who sits at one may approve calls.
    trusted: HttpService,
    /// For all others, where there are no keys.
    others: HttpService,
    /// For those with keys, by the ids of these: what belongs to a session of the protocol belongs to one key.
    keyed: Arc<Mutex<HashMap<String, Keyed>>>,
    /// Ends the streams that wait for what may come.
    streams: CancellationToken,
}

impl McpClients {
    pub(crate) fn new(limited: &Limited) -> Self {
        let streams = CancellationToken::new();
        let service = |server| HttpService::behind_a_guard(server, streams.clone());
        Self {
            trusted: service(limited.for_mcp()),
            others: service(limited.for_mcp().without_questions()),
            keyed: Arc::default(),
            limited: limited.clone(),
            streams,
        }
    }

    /// Answers one request.
    pub(crate) async fn answer(
        self,
        caller: Caller,
        request: Request,
    ) -> Result<Response, Problem> {
        let (head, body) = request.into_parts();
        let body = match head.method {
            Method::POST => body::json(&head.headers, body).await?,
            // Others have none that counts.
            _ => Vec::new(),
        };
        let request = Request::from_parts(head, Bytes::from(body));
        let service = match caller {
            Caller::Local => self.trusted,
            Caller::Anyone => self.others,
            Caller::Key(key) => self.of(&key),
        };
        Ok(service.answer(request).await.map(Body::new))
    }

    /// Returns what answers those who show a key. Those of keys that are taken no more are forgotten.
    fn of(&self, key: &Arc<Key>) -> HttpService {
        let mut keyed = self.keyed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, service)) = keyed.get(&key.said.id)
            && Arc::ptr_eq(of, key)
        {
            return service.clone();
        }
        keyed.retain(|_, (of, _)| self.limited.keys().takes(of));
        let service = HttpService::behind_a_guard(self.server_of(key), self.streams.clone());
        let entry = (Arc::clone(key), service.clone());
        keyed.insert(key.said.id.clone(), entry);
        service
    }

    fn server_of(&self, key: &Arc<Key>) -> McpServer {
        let caller = Caller::Key(Arc::clone(key));
        let server = self.limited.for_mcp();
        let server = server
            .modes(caller.modes(&self.limited))
            .owner(&key.said.owner);
        let server = match caller.needs(Scope::Approve) {
            Ok(()) => server,
            Err(_) => server.without_questions(),
        };
        let limited = self.limited.clone();
        server.admit(move |request| {
            let admitted = caller.apply(&limited, request);
            admitted.map_err(|problem| problem.detail().to_owned())
        })
    }

    /// Ends open streams, which would never end by themselves, once all runs are over. Answers go first.
    pub(crate) fn end_streams(self) {
        tokio::spawn(async move {
            sleep(LAST_ANSWERS).await;
            self.streams.cancel();
        });
    }
}
