//! The routes, and the layers that apply to all requests.

use axum::Router;
use axum::extract::FromRef;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};

use crate::access::{self, Access};
use crate::limits::ServerState;
use crate::mcp::McpClients;
use crate::openapi::DescribedRouter;
use crate::probes::{self, Readiness};
use crate::problem::{METHOD_NOT_ALLOWED, NOT_FOUND, Problem};
use crate::{agui, api, caller, cors, guard, mcp, metrics, openai, page};

/// Builds the router that answers requests.
pub(crate) fn routes(state: ServerState, clients: &McpClients, access: Access) -> Router {
    let readiness = Readiness::new(FromRef::from_ref(&state));
    // The routes described here are listed in `/openapi.json`; the page is added below.
    let router = DescribedRouter::new()
        .merge(api::routes())
        .merge(openai::routes())
        .merge(mcp::routes(clients))
        .post("/agui", agui::run, agui::described())
        .get("/metrics", metrics::show, metrics::described())
        .get("/healthz", probes::is_alive, probes::alive())
        .get("/readyz", move || readiness.is_ready(), probes::ready())
        .into_router()
        .merge(page::routes())
        .with_state(state.clone())
        .fallback(nothing_at)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(state.clone(), caller::admit));
    // Outside authentication: a browser sends preflight requests without a key.
    let router = match cors::layer(&state) {
        Some(cors) => router.layer(cors),
        None => router,
    };
    router
        .layer(from_fn_with_state(state, guard::admit))
        .layer(from_fn(openai::convert_problems))
        .layer(from_fn_with_state(access, access::record_request))
}

/// Reports that the requested address does not exist.
pub(crate) fn nothing_here() -> Problem {
    Problem::new(
        &NOT_FOUND,
        "no such address; /openapi.json lists the routes",
    )
}

/// Like [`nothing_here`], but beneath `/v1` lists the existing routes: a client that calls another of OpenAI's routes
/// has the right base address.
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
        format!("{method} is not supported at this address; see the header Allow"),
    )
}
