//! `/mcp`: the agents, for clients of the Model Context Protocol.
//!
//! `neuraxis-mcp-server` implements the protocol. As on the server's own API, the user at a client may approve its
//! calls only if the client presents the decision token or a key with the scope for it. Clients with a key see only its
//! owner's data. Requests are limited here like those of all routes; the server's own refusals are problem documents.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderName, Method};
use axum::response::Response;
use neuraxis::UserRequest;
use neuraxis::mcp_server::{HttpService, McpServer, RequestStates};
use neuraxis::ports::CancellationToken;
use neuraxis_app::Scope;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};
use tokio::time::sleep;

use crate::body;
use crate::caller::Caller;
use crate::keys::Key;
use crate::limits::ServerState;
use crate::openapi::{DescribedRouter, Operation, Tag, operation};
use crate::problem::Problem;
use crate::shutdown::SHUTDOWN;

/// The header that names a protocol session, in the answer that starts it and in each later request.
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");

/// The service for clients that present a key, created for the key as it was at that time.
type Keyed = (Arc<Key>, HttpService);

/// Answers MCP clients.
#[derive(Debug, Clone)]
pub(crate) struct McpClients {
    state: ServerState,
    /// For clients that present the decision token: their users may approve calls.
    trusted: HttpService,
    /// For all other clients, if there are no keys.
    others: HttpService,
    /// For clients with keys, by key id: a protocol session belongs to one key.
    keyed: Arc<Mutex<HashMap<String, Keyed>>>,
    /// Seals the states that clients carry, across engine replacements.
    states: States,
    /// Leaves runs in progress when their clients disconnect because the server stops.
    stopping: CancellationToken,
    /// Ends the questions that wait for an answer. Cancelled with `stopping`, too.
    asking: CancellationToken,
    /// Ends the streams that wait for future messages.
    streams: CancellationToken,
}

/// The seals of states that clients carry, by key id; by `None` for clients that present the decision token.
#[derive(Debug, Clone, Default)]
struct States(Arc<Mutex<HashMap<Option<String>, RequestStates>>>);

impl States {
    fn of(&self, key: Option<&str>) -> RequestStates {
        let mut states = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        states.entry(key.map(str::to_owned)).or_default().clone()
    }
}

/// Returns the routes of the protocol.
pub(crate) fn routes(clients: &McpClients) -> DescribedRouter<ServerState> {
    let handler = || {
        let clients = clients.clone();
        move |caller: Caller, request: Request| clients.clone().answer(caller, request)
    };
    DescribedRouter::new()
        .post("/mcp", Scope::Turns, handler(), sending())
        .get("/mcp", Scope::Turns, handler(), following())
        .delete("/mcp", Scope::Turns, handler(), ending())
}

/// Refusals by the protocol itself.
const REFUSED: (&str, &str) = ("4XX", "An error as defined by the protocol.");

/// Describes one method of the route. The protocol describes the contents of requests and answers.
fn described(id: &'static str, summary: &'static str) -> Operation {
    let (status, meaning) = REFUSED;
    operation(id, Tag::Protocols, summary)
        .description("modelcontextprotocol.io, transport streamable HTTP.")
        .in_either_form()
        .also_answers(status, meaning)
}

fn sending() -> Operation {
    described("send_mcp", "Receives a message from an MCP client.")
        .body::<Map<String, Value>>(r#"{ "jsonrpc": "2.0", "id": 1, "method": "ping" }"#)
        .answers::<Map<String, Value>>("The answer.")
        .answers_their_events("The answer, or a stream of events that contains it.")
        .also_answers("202", "The message was accepted and needs no answer.")
}

fn following() -> Operation {
    described(
        "follow_mcp",
        "Streams the server's messages to an MCP client.",
    )
    .answers_their_events("A stream of events.")
}

fn ending() -> Operation {
    described("end_mcp", "Ends an MCP client's session.")
}

impl McpClients {
    pub(crate) fn new(state: &ServerState) -> Self {
        Self::with(state, States::default())
    }

    /// Returns the clients' services for another engine, which accepts answers to questions that this one asked.
    pub(crate) fn replaced(&self, state: &ServerState) -> Self {
        Self::with(state, self.states.clone())
    }

    fn with(state: &ServerState, states: States) -> Self {
        let (stopping, streams) = (CancellationToken::new(), CancellationToken::new());
        let asking = stopping.child_token();
        let service = |server: McpServer| {
            let server = server.stopping(stopping.clone());
            HttpService::behind_a_guard(server.asking_until(asking.clone()), streams.clone())
        };
        let trusted = state.for_mcp().request_states(states.of(None));
        Self {
            trusted: service(admitting(state, trusted, Caller::Local)),
            others: service(state.for_mcp().without_questions()),
            keyed: Arc::default(),
            state: state.clone(),
            states,
            stopping,
            asking,
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
            Method::POST => {
                let body = body::json(&head.headers, body).await;
                if let Caller::Key(key) = &caller {
                    // The request was not counted when the key was admitted.
                    match body.as_ref().is_ok_and(|body| asks_for_nothing(body)) {
                        true => key.count_separately(),
                        false => key.count(),
                    }?;
                }
                body?
            }
            // Other methods have no relevant body.
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

    /// Returns the service for clients that present a key. Services for keys that are no longer accepted are dropped.
    fn of(&self, key: &Arc<Key>) -> HttpService {
        let mut keyed = self.keyed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, service)) = keyed.get(&key.stored.id)
            && Arc::ptr_eq(of, key)
        {
            return service.clone();
        }
        keyed.retain(|_, (of, _)| self.state.keys().still_accepts(of));
        let service = HttpService::behind_a_guard(self.server_of(key), self.streams.clone());
        let entry = (Arc::clone(key), service.clone());
        keyed.insert(key.stored.id.clone(), entry);
        service
    }

    fn server_of(&self, key: &Arc<Key>) -> McpServer {
        let caller = Caller::Key(Arc::clone(key));
        let server = self.state.for_mcp();
        let server = server
            .modes(caller.modes(&self.state))
            .channels(caller.channels(&self.state))
            .agents(caller.agents(&self.state))
            .owner(&key.stored.owner)
            .request_states(self.states.of(Some(key.stored.id.as_str())))
            .stopping(self.stopping.clone())
            .asking_until(self.asking.clone());
        let server = match caller.check_scope(Scope::Approve) {
            Ok(()) => server,
            Err(_) => server.without_questions(),
        };
        let server = match caller.check_scope(Scope::Read) {
            Ok(()) => server,
            Err(_) => server.without_sessions(),
        };
        let server = match caller.may_ask(&self.state) {
            true => server,
            false => server.without_ask(),
        };
        admitting(&self.state, server, caller)
    }

    /// Ends open questions: their answers go to the engine that replaces this one.
    pub(crate) fn stop_asking(&self) {
        self.asking.cancel();
    }

    /// Ends open questions and streams, which would otherwise never end, once all runs have ended. Pending answers are
    /// sent first.
    pub(crate) fn end_streams(self) {
        self.stopping.cancel();
        tokio::spawn(async move {
            sleep(SHUTDOWN.last_answers).await;
            self.streams.cancel();
        });
    }
}

/// The fields of a message that are inspected: only a request has both.
#[derive(Deserialize)]
struct Peek {
    method: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
}

/// Returns whether a message is an answer or a notification rather than a request. An unreadable message is counted as
/// a request.
fn asks_for_nothing(message: &[u8]) -> bool {
    let peek = serde_json::from_slice::<Peek>(message);
    peek.is_ok_and(|peek| peek.method.is_none() || peek.id.is_none())
}

/// Makes a server assign each request to its caller, and count each resumed run among those of its owner.
fn admitting(state: &ServerState, server: McpServer, caller: Caller) -> McpServer {
    let (permits, owner) = (state.clone(), caller.key().map(|key| key.owner.clone()));
    let server = server.resume_context(move |context| match &owner {
        Some(owner) => context.with(permits.take_owner_permit_regardless(owner)),
        None => context,
    });
    let state = state.clone();
    server.admit(move |request| {
        let admitted = admit(&state, &caller, request);
        admitted.map_err(|problem| problem.details().detail)
    })
}

/// Assigns a request to its caller, with one of the owner's permits if their number is limited.
fn admit(
    state: &ServerState,
    caller: &Caller,
    request: UserRequest,
) -> Result<UserRequest, Problem> {
    let mut request = caller.apply(state, request)?;
    if let Some(permit) = state.take_owner_permit(caller)? {
        // Dropped together with the run's context.
        request.context = std::mem::take(&mut request.context).with(permit);
    }
    Ok(request)
}
