//! The routes, and what all requests have in common.

use axum::Router;
use axum::extract::FromRef;
use axum::http::Method;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{MethodFilter, get, on, post};

use crate::access::{self, Access};
use crate::limits::Limited;
use crate::mcp::McpClients;
use crate::openapi::Described;
use crate::probes::{self, Readiness};
use crate::problem::{METHOD_NOT_ALLOWED, NOT_FOUND, Problem};
use crate::{agui, api, caller, guard, metrics, openai, page};

/// Returns what answers requests.
pub(crate) fn routes(limited: Limited, clients: McpClients, access: Access) -> Router {
    let of_protocol = MethodFilter::POST
        .or(MethodFilter::GET)
        .or(MethodFilter::DELETE);
    let readiness = Readiness::new(FromRef::from_ref(&limited));
    // What is described here stands in `/openapi.json`; protocols of others, such as that of MCP, are added below.
    Described::new()
        .merge(api::routes())
        .get("/healthz", probes::is_alive, probes::alive())
        .get("/readyz", move || readiness.is_ready(), probes::ready())
        .into_router()
        .route("/metrics", get(metrics::show))
        .route("/agui", post(agui::run))
        .nest("/v1", openai::routes())
        .merge(page::routes())
        .route(
            "/mcp",
            on(of_protocol, move |caller, request| {
                clients.clone().answer(caller, request)
            }),
        )
        .with_state(limited.clone())
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(limited.clone(), caller::admit))
        .layer(from_fn_with_state(limited, guard::admit))
        .layer(from_fn(openai::in_their_shape))
        .layer(from_fn_with_state(access, access::note))
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
