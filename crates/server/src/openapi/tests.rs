//! Compares the document with the routes that it describes, and with the file in `docs/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Method, Request, StatusCode, header};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use neuraxis::memory::MemoryStore;
use neuraxis::{Orchestrator, Role};
use neuraxis_testkit::ScriptedModel;
use serde_json::Value;

use super::*;
use crate::access::Access;
use crate::limits::{ClientLimits, ServerState};
use crate::mcp::McpClients;
use crate::metrics::Metrics;
use crate::routes::routes;

/// Routes of the page.
const OF_THE_PAGE: [&str; 2] = ["/", "/assets/{name}"];

fn router() -> Router {
    let builder = Orchestrator::builder().model(Role::REASONING, Arc::new(ScriptedModel::new()));
    let orchestrator = builder.store(Arc::new(MemoryStore::new())).build().unwrap();
    let access = Access {
        log: None,
        metrics: Metrics::new(),
    };
    let state = ServerState::new(
        orchestrator,
        &ClientLimits::default(),
        access.metrics.clone(),
    );
    let clients = McpClients::new(&state);
    routes(state, &clients, access)
}

async fn ask(router: &Router, method: Method, path: &str) -> (StatusCode, HeaderMap, Vec<u8>) {
    let service = TowerToHyperService::new(router.clone());
    let request = Request::builder().method(method).uri(path);
    let request = request
        .header(header::HOST, "localhost")
        .body(Body::empty())
        .unwrap();
    let (head, body) = service.call(request).await.unwrap().into_parts();
    let body = to_bytes(body, usize::MAX).await.unwrap();
    (head.status, head.headers, body.into())
}

async fn read() -> Value {
    let (status, headers, body) = ask(&router(), Method::GET, PLACE).await;
    assert_eq!(status, 200);
    assert_eq!(headers[header::CONTENT_TYPE], "application/json");
    serde_json::from_slice(&body).unwrap()
}

/// Returns the paths of a router, taken from its debug output.
fn paths_of(router: &Router) -> BTreeSet<String> {
    let text = format!("{router:?}");
    let (text, _) = text.split_once("fallback_router").unwrap();
    let quoted = text.split('"').skip(1).step_by(2);
    quoted
        .filter(|text| text.starts_with('/'))
        .map(str::to_owned)
        .collect()
}

#[tokio::test]
async fn every_route_is_described_and_every_description_has_a_route() {
    let (router, document) = (router(), read().await);
    let mut routed = paths_of(&router);
    assert!(routed.len() > 15, "nothing was read: {routed:?}");
    for path in OF_THE_PAGE {
        assert!(routed.remove(path), "{path}");
    }
    let paths = document["paths"].as_object().unwrap();
    let described: BTreeSet<String> = paths.keys().cloned().collect();
    assert_eq!(routed, described);

    for (path, methods) in paths {
        let place = path.replace(['{', '}'], "");
        let method = Method::from_bytes(b"PROPFIND").unwrap();
        let (status, headers, _) = ask(&router, method, &place).await;
        assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        let allowed = headers[header::ALLOW].to_str().unwrap();
        let allowed = allowed.split(',').map(str::to_ascii_lowercase);
        // A route for GET also answers HEAD.
        let allowed: BTreeSet<String> = allowed.filter(|it| it != "head").collect();
        let described: BTreeSet<String> = methods.as_object().unwrap().keys().cloned().collect();
        assert_eq!(allowed, described, "{path}");
    }
}

#[tokio::test]
async fn operation_ids_are_unique_and_every_path_parameter_is_described() {
    let document = read().await;
    let mut seen = BTreeMap::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let named = path
            .split('/')
            .filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        let named: BTreeSet<&str> = named.collect();
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap();
            assert_eq!(seen.insert(id.to_owned(), path), None, "{id}");
            let parameters = operation["parameters"].as_array();
            let parameters = parameters.into_iter().flatten();
            let of_path = parameters.filter(|it| it["in"] == "path");
            let of_path: BTreeSet<&str> = of_path.map(|it| it["name"].as_str().unwrap()).collect();
            assert_eq!(of_path, named, "{id}");
            for response in operation["responses"].as_object().unwrap().values() {
                let links = response["links"].as_object().into_iter().flatten();
                for (name, link) in links {
                    assert_eq!(link["operationId"], name.as_str());
                }
            }
        }
    }
    for link in ["show_session", "take_turn", "delete_session", "show_run"] {
        assert!(seen.contains_key(link), "{link}");
    }
}

#[tokio::test]
async fn public_routes_document_no_key_errors() {
    let document = read().await;
    for (path, needs_key) in [
        ("/healthz", false),
        ("/readyz", false),
        ("/openapi.json", false),
        ("/errors/{name}", false),
        ("/metrics", true),
    ] {
        let responses = &document["paths"][path]["get"]["responses"];
        for status in ["401", "429"] {
            assert_eq!(responses[status].is_object(), needs_key, "{path}: {status}");
        }
        let refused = responses["403"].to_string();
        assert_eq!(refused.contains("scope-needed"), needs_key, "{path}");
    }
}

#[tokio::test]
async fn a_type_has_the_same_schema_in_requests_and_responses() {
    // A type that is both sent and read appears in the document once, in the form that is sent.
    let mut schemas = schemas::Schemas::new();
    let mut both = 0;
    let (sent, taken) = {
        for route in crate::api::routes().routes {
            let operation = route.operation;
            for parameter in &operation.parameters {
                (parameter.schema)(&mut schemas);
            }
            if let Some(body) = &operation.body {
                (body.schema)(&mut schemas);
            }
            for (_, schema) in &operation.answer.content {
                schema(&mut schemas);
            }
        }
        schemas.into_both()
    };
    for (name, schema) in &taken {
        if let Some(other) = sent.get(name) {
            assert_eq!(schema, other, "{name}");
            both += 1;
        }
    }
    assert!(both > 3);
}

#[tokio::test]
async fn the_document_matches_the_file_in_docs() {
    let text = serde_json::to_string_pretty(&read().await).unwrap() + "\n";
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(&file, &text).unwrap();
    }
    let kept = fs::read_to_string(&file).unwrap_or_default();
    assert!(
        kept == text,
        "docs/openapi.json is not what the server answers with: `UPDATE_DOCS=1 cargo test -p neuraxis-server --lib \
         openapi` writes it anew"
    );
}
