//! The routes, and the layers that apply to all requests.

use std::sync::Arc;

use axum::Router;
use axum::extract::FromRef;
use axum::http::{Method, Uri};
use axum::middleware::{from_fn, from_fn_with_state};
use neuraxis_app::Scope;

use crate::access::{self, Access};
use crate::caller::{Admission, Admitting};
use crate::limits::ServerState;
use crate::mcp::McpClients;
use crate::openapi::DescribedRouter;
use crate::probes::{self, Readiness};
use crate::problem::{METHOD_NOT_ALLOWED, NOT_FOUND, Problem};
use crate::{agui, api, caller, cors, guard, mcp, metrics, openai, page, problem};

/// Builds the router that answers requests.
pub(crate) fn routes(state: ServerState, clients: &McpClients, access: Access) -> Router {
    let (router, admissions) = all(&state, clients).into_router();
    let admitting = Admitting {
        state: state.clone(),
        admissions: Arc::new(admissions),
    };
    let router = router
        .with_state(state.clone())
        .fallback(nothing_at)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(admitting, caller::admit));
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

/// Returns all routes, each with its description and with who may use it: add new ones there or here.
fn all(state: &ServerState, clients: &McpClients) -> DescribedRouter<ServerState> {
    let readiness = Readiness::new(FromRef::from_ref(state));
    DescribedRouter::new()
        .merge(api::routes())
        .merge(openai::routes())
        .merge(mcp::routes(clients))
        .post("/agui", Scope::Turns, agui::run, agui::described())
        // Metrics show what all owners do.
        .get(
            "/metrics",
            Scope::Metrics,
            metrics::show,
            metrics::described(),
        )
        .get(
            "/healthz",
            Admission::Open,
            probes::is_alive,
            probes::alive(),
        )
        .get(
            "/readyz",
            Admission::Open,
            move || readiness.is_ready(),
            probes::ready(),
        )
        .get(
            "/errors/{name}",
            Admission::Open,
            problem::show,
            problem::described(),
        )
        .merge(page::routes())
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use neuraxis::memory::MemoryStore;
    use neuraxis::{Orchestrator, Role};
    use neuraxis_testkit::ScriptedModel;

    use super::*;
    use crate::limits::ClientLimits;
    use crate::metrics::Metrics;

    #[tokio::test]
    async fn each_route_needs_the_scope_of_what_it_does() {
        let builder =
            Orchestrator::builder().model(Role::REASONING, Arc::new(ScriptedModel::new()));
        let orchestrator = builder.store(Arc::new(MemoryStore::new())).build().unwrap();
        let state = ServerState::new(orchestrator, &ClientLimits::default(), Metrics::new());
        let clients = McpClients::new(&state);
        let (_, admissions) = all(&state, &clients).into_router();
        let mut count = 0;
        for (path, method, admission) in admissions.each() {
            let expected = match (method.as_str(), path) {
                (
                    _,
                    "/" | "/assets/{name}" | "/errors/{name}" | "/healthz" | "/openapi.json"
                    | "/readyz",
                ) => Admission::Open,
                (_, "/metrics") => Scope::Metrics.into(),
                (_, "/mcp") => Scope::Turns.into(),
                ("POST", "/api/v1/policy/explain") => Scope::Read.into(),
                (
                    "POST",
                    "/api/v1/runs/{id}/approvals/{call_id}"
                    | "/api/v1/runs/{id}/questions/{question_id}",
                ) => Scope::Approve.into(),
                ("GET", _) => Scope::Read.into(),
                _ => Scope::Turns.into(),
            };
            assert_eq!(admission, expected, "{method} {path}");
            count += 1;
        }
        assert!(count > 30, "nothing was read: {count}");
    }
}
