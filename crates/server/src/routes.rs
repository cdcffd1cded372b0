//! The routes, and what all requests have in common.

use std::time::Instant;

use axum::Router;
use axum::extract::{FromRef, MatchedPath, Request};
use axum::http::Method;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::{MethodFilter, get, on, post};

use crate::limits::Limited;
use crate::mcp::McpClients;
use crate::probes::{self, Readiness};
use crate::problem::{METHOD_NOT_ALLOWED, NOT_FOUND, Problem};
use crate::{agui, api, guard, openai};

/// Returns what answers requests.
pub(crate) fn routes(limited: Limited, clients: McpClients) -> Router {
    let of_protocol = MethodFilter::POST
        .or(MethodFilter::GET)
        .or(MethodFilter::DELETE);
    let readiness = Readiness::new(FromRef::from_ref(&limited));
    Router::new()
        .route("/healthz", get(probes::is_alive))
        .route("/readyz", get(move || readiness.is_ready()))
        .nest("/api/v1", api::routes())
        .route("/agui", post(agui::run))
        .nest("/v1", openai::routes())
        .route(
            "/mcp",
            on(of_protocol, move |request| clients.clone().answer(request)),
        )
        .with_state(limited)
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn(guard::admit))
        .layer(from_fn(openai::in_their_shape))
        .layer(from_fn(log))
}

async fn nothing_here() -> Problem {
    Problem::new(&NOT_FOUND, "there is nothing at this address")
}

async fn wrong_method(method: Method) -> Problem {
    let method: String = method.as_str().chars().take(16).collect();
    Problem::new(
        &METHOD_NOT_ALLOWED,
        format!("{method} cannot be used at this address; the header Allow says what can"),
    )
}

/// Logs that a request was answered. Of the address only the route, since the rest was written by the client.
async fn log(request: Request, next: Next) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    tracing::debug!(
        %method,
        route = route.as_ref().map(MatchedPath::as_str),
        status = response.status().as_u16(),
        ms = began.elapsed().as_millis(),
        "answered"
    );
    response
}
