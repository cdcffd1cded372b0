//! Identifies the caller, checks its scope for the route, and ends streams whose key is no longer accepted.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::Method;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures_util::{FutureExt as _, StreamExt as _, stream};
use neuraxis_app::Scope;
use tokio::time::sleep;

use super::Caller;
use crate::access;
use crate::events::{KeyGone, is_stream};
use crate::keys::{Key, Keys};
use crate::limits::ServerState;
use crate::problem::Problem;
use crate::token;

/// How often to check whether the key of an open stream is still accepted.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Who may use a route. Each route is declared with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Anyone, even without a key: probes, the page, which contains no user data, and what is documented anyway.
    Open,
    /// Callers that have this scope.
    Scope(Scope),
}

impl From<Scope> for Admission {
    fn from(scope: Scope) -> Self {
        Self::Scope(scope)
    }
}

/// Who may use the routes, by path and method.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Admissions(BTreeMap<&'static str, Vec<(Method, Admission)>>);

impl Admissions {
    /// Adds a route.
    pub(crate) fn add(&mut self, path: &'static str, method: Method, admission: Admission) {
        self.0.entry(path).or_default().push((method, admission));
    }

    /// Adds the routes of another part of the server.
    pub(crate) fn extend(&mut self, other: Self) {
        for (path, methods) in other.0 {
            self.0.entry(path).or_default().extend(methods);
        }
    }

    /// Returns all routes: path, method, and who may use it.
    #[cfg(test)]
    pub(crate) fn each(&self) -> impl Iterator<Item = (&'static str, &Method, Admission)> {
        self.0.iter().flat_map(|(path, methods)| {
            methods.iter().map(move |(method, it)| (*path, method, *it))
        })
    }

    /// Returns who may use a route, or `None` if there is no such route: its caller learns no more than that. A method
    /// that an open path does not support needs no key either.
    fn of(&self, method: &Method, path: &str) -> Option<Admission> {
        let methods = self.0.get(path)?;
        // A route for GET also answers HEAD.
        let is_head = *method == Method::HEAD;
        let answers = |known: &Method| known == method || is_head && *known == Method::GET;
        let found = methods.iter().find(|(known, _)| answers(known));
        let is_open = || methods.iter().all(|(_, it)| *it == Admission::Open);
        match found {
            Some((_, admission)) => Some(*admission),
            None => is_open().then_some(Admission::Open),
        }
    }
}

/// What admits requests: the server, and who may use its routes.
#[derive(Debug, Clone)]
pub(crate) struct Admitting {
    pub(crate) state: ServerState,
    pub(crate) admissions: Arc<Admissions>,
}

/// Lets a request pass once its caller is identified and authorized, and refuses others.
pub(crate) async fn admit(
    State(Admitting { state, admissions }): State<Admitting>,
    mut request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    let admission = admissions.of(request.method(), route);
    let caller = match identify(&state, &request, admission) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(caller.clone());
    access::record_caller(caller.clone());
    let response = match check(&caller, &request, admission) {
        Ok(()) => next.run(request).await,
        Err(problem) => problem.into_response(),
    };
    match caller {
        Caller::Key(key) if is_stream(&response) => {
            end_on_revocation(response, state.keys().clone(), key)
        }
        _ => response,
    }
}

fn check(caller: &Caller, request: &Request, admission: Option<Admission>) -> Result<(), Problem> {
    let Caller::Key(key) = caller else {
        return Ok(());
    };
    let scoped = match admission {
        Some(Admission::Scope(scope)) => caller.check_scope(scope),
        Some(Admission::Open) | None => Ok(()),
    };
    let route = request.extensions().get::<MatchedPath>();
    match route.map_or("", MatchedPath::as_str) {
        "/api/v1/runs/{id}/cancel" => key.count_separately(),
        // Whether this is a request is known only once the body is read, which is where it is counted.
        "/mcp" if request.method() == Method::POST && scoped.is_ok() => Ok(()),
        _ => key.count(),
    }?;
    scoped
}

fn identify(
    state: &ServerState,
    request: &Request,
    admission: Option<Admission>,
) -> Result<Caller, Problem> {
    let headers = request.headers();
    if token::is_presented(state.decisions(), headers) {
        return Ok(Caller::Local);
    }
    let keys = state.keys();
    if admission == Some(Admission::Open) || !keys.are_needed() {
        return Ok(Caller::Anyone);
    }
    keys.admit(token::bearer(headers)).map(Caller::Key)
}

/// Ends a stream soon after its key is revoked, expires or is changed, with a last event if its protocol has one. A
/// client that follows a run can reconnect with a valid key.
fn end_on_revocation(response: Response, keys: Keys, key: Arc<Key>) -> Response {
    let key_gone = response.extensions().get::<KeyGone>().cloned();
    let over = async move {
        while keys.still_accepts(&key) {
            sleep(CHECK_INTERVAL).await;
        }
        tracing::info!(
            key = key.stored.id,
            "a stream ends: its key is no longer accepted"
        );
    };
    let mut over = Box::pin(over.fuse());
    response.map(|body| {
        let mut events = body.into_data_stream();
        let Some(key_gone) = key_gone else {
            return Body::from_stream(events.take_until(over));
        };
        Body::from_stream(stream::poll_fn(move |cx| {
            if over.poll_unpin(cx).is_ready() {
                key_gone.set();
            }
            events.poll_next_unpin(cx)
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_is_admitted_by_its_path_and_method() {
        let mut admissions = Admissions::default();
        admissions.add("/runs", Method::GET, Scope::Read.into());
        admissions.add("/runs", Method::POST, Scope::Turns.into());
        admissions.add("/healthz", Method::GET, Admission::Open);
        for (method, path, expected) in [
            (Method::GET, "/runs", Some(Scope::Read.into())),
            (Method::HEAD, "/runs", Some(Scope::Read.into())),
            (Method::POST, "/runs", Some(Scope::Turns.into())),
            (Method::PATCH, "/runs", None),
            (Method::GET, "/healthz", Some(Admission::Open)),
            (Method::POST, "/healthz", Some(Admission::Open)),
            (Method::GET, "", None),
        ] {
            assert_eq!(admissions.of(&method, path), expected, "{method} {path}");
        }
    }
}
