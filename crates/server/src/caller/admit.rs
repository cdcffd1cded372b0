//! Identifies the caller, checks its scope for the route, and ends streams whose key is no longer accepted.

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

/// Lets a request pass once its caller is identified and authorized, and refuses others.
pub(crate) async fn admit(
    State(state): State<ServerState>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match identify(&state, &request) {
        Ok(caller) => caller,
        Err(problem) => return problem.into_response(),
    };
    request.extensions_mut().insert(caller.clone());
    access::record_caller(caller.clone());
    let response = match check(&caller, &request) {
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

fn check(caller: &Caller, request: &Request) -> Result<(), Problem> {
    let Caller::Key(key) = caller else {
        return Ok(());
    };
    let route = request.extensions().get::<MatchedPath>();
    let route = route.map_or("", MatchedPath::as_str);
    let scope = scope_of(request.method(), route);
    let scoped = scope.map_or(Ok(()), |scope| caller.check_scope(scope));
    match route {
        "/api/v1/runs/{id}/cancel" => key.count_separately(),
        // Whether this is a request is known only once the body is read, which is where it is counted.
        "/mcp" if request.method() == Method::POST && scoped.is_ok() => Ok(()),
        _ => key.count(),
    }?;
    scoped
}

fn identify(state: &ServerState, request: &Request) -> Result<Caller, Problem> {
    let headers = request.headers();
    if token::is_presented(state.decisions(), headers) {
        return Ok(Caller::Local);
    }
    let keys = state.keys();
    if is_open(request.uri().path()) || !keys.are_needed() {
        return Ok(Caller::Anyone);
    }
    keys.admit(token::bearer(headers)).map(Caller::Key)
}

/// Returns whether a path needs no key: probes, and the page, which contains no user data.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/") || path.starts_with("/assets/")
}

/// Returns the scope that a route needs. A route not listed here needs the scope `read` if it only reads, else `turns`.
fn scope_of(method: &Method, route: &str) -> Option<Scope> {
    match (method, route) {
        // An unknown address, which any key holder may learn.
        (_, "") => None,
        (_, "/mcp") => Some(Scope::Turns),
        // Metrics show what all owners do.
        (_, "/metrics") => Some(Scope::Metrics),
        (_, "/api/v1/policy/explain") => Some(Scope::Read),
        (
            &Method::POST,
            "/api/v1/runs/{id}/approvals/{call_id}" | "/api/v1/runs/{id}/questions/{question_id}",
        ) => Some(Scope::Approve),
        (&Method::GET | &Method::HEAD | &Method::OPTIONS, _) => Some(Scope::Read),
        _ => Some(Scope::Turns),
    }
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
    fn a_route_that_nobody_thought_of_needs_no_less_than_others() {
        for (method, route, scope) in [
            (Method::GET, "/api/v1/sessions", Some(Scope::Read)),
            (Method::POST, "/api/v1/sessions", Some(Scope::Turns)),
            (Method::DELETE, "/api/v1/sessions/{id}", Some(Scope::Turns)),
            (Method::POST, "/api/v1/policy/explain", Some(Scope::Read)),
            (Method::GET, "/mcp", Some(Scope::Turns)),
            (Method::GET, "/metrics", Some(Scope::Metrics)),
            (
                Method::POST,
                "/api/v1/runs/{id}/approvals/{call_id}",
                Some(Scope::Approve),
            ),
            (
                Method::POST,
                "/api/v1/runs/{id}/questions/{question_id}",
                Some(Scope::Approve),
            ),
            (Method::PATCH, "/new", Some(Scope::Turns)),
            (Method::GET, "/new", Some(Scope::Read)),
            (Method::GET, "", None),
        ] {
            assert_eq!(scope_of(&method, route), scope, "{method} {route}");
        }
    }
}
