//! The routes, and what all requests have in common.

use axum::Router;
use axum::extract::FromRef;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};

use crate::access::{self, Access};
use crate::limits::Limited;
use crate::mcp::McpClients;
use crate::openapi::Described;
use crate::probes::{self, Readiness};
use crate::problem::{METHOD_NOT_ALLOWED, NOT_FOUND, Problem};
use crate::{agui, api, caller, cors, guard, mcp, metrics, openai, page};

/// Returns what answers requests.
pub(crate) fn routes(limited: Limited, clients: &McpClients, access: Access) -> Router {
    let readiness = Readiness::new(FromRef::from_ref(&limited));
    // What is described here stands in `/openapi.json`; the page is added below.
    let router = Described::new()
        .merge(api::routes())
        .merge(openai::routes())
        .merge(mcp::routes(clients))
        .post("/agui", agui::run, agui::described())
        .get("/metrics", metrics::show, metrics::described())
        .get("/healthz", probes::is_alive, probes::alive())
        .get("/readyz", move || readiness.is_ready(), probes::ready())
        .into_router()
        .merge(page::routes())
        .with_state(limited.clone())
        .fallback(nothing_at)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(limited.clone(), caller::admit));
    // Before it is decided who asks: a browser asks without a key what a page may do.
    let router = match cors::layer(&limited) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router
        .layer(from_fn_with_state(limited, guard::admit))
        .layer(from_fn(openai::in_their_shape))
        .layer(from_fn_with_state(access, access::note))
}

/// Says that nothing is at the address that a client asked for.
pub(crate) fn nothing_here() -> Problem {
    Problem::new(&NOT_FOUND, "there is nothing at this address")
}

/// Says the same, and beneath `/v1` what is there: clients that ask for another of OpenAI's routes have the right address.
async fn nothing_at(uri: Uri) -> Problem {
    match uri.path().starts_with("/v1/") {
        true => Problem::new(&NOT_FOUND, openai::NOTHING_HERE),
        false => nothing_here(),
    }
}

async fn wrong_method(method: Method) -> Problem {
    let method: String = method.as_str().chars().take(16).collect();
    Problem::new(
        &METHOD_NOT_ALLOWED,
        format!("{method} cannot be used at this address; the header Allow says what can"),
    )
}
