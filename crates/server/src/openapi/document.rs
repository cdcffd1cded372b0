//! The document: all operations, their common parts, and the schemas that they refer to.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use super::DescribedRoute;
use super::operation::{Answer, Operation, ProblemForm, Tag};
use super::schemas::{Schemas, without_null};
use crate::openai::ErrorBody;
use crate::problem::{Document as ProblemDocument, Kind};

/// The name of the security scheme.
const TOKEN: &str = "token";

/// The description of the API as a whole.
const ABOUT: &str = "Governed, tool-using conversations with language models: sessions, turns, runs with their \
                     events, and calls that wait for approval.\n\nThe version is that of the server. Within \
                     `/api/v1`, fields, values and routes may be added, but none is removed or changes its meaning; \
                     clients must ignore what they do not know. Incompatible changes get a new prefix.";

/// Builds the document.
pub(super) fn document(routes: &[DescribedRoute]) -> Value {
    let mut schemas = Schemas::new();
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for DescribedRoute {
        path,
        method,
        operation,
    } in routes
    {
        let method = method.as_str().to_ascii_lowercase();
        let described = described(operation, &mut schemas);
        paths.entry(path).or_default().insert(method, described);
    }
    // Its members differ between kinds.
    schemas.of_response::<ProblemDocument>();
    let tags =
        Tag::ALL.map(|(tag, about)| json!({ "name": tag.to_string(), "description": about }));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Neuraxis",
            "version": env!("CARGO_PKG_VERSION"),
            "summary": "The server's own API, and the third-party protocols it supports.",
            "description": ABOUT,
            "license": { "name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": schemas.into_named(),
            "securitySchemes": {
                TOKEN: {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key created with `neuraxis-server keys create`. If any keys exist, every route \
                                    requires one, except the probes, this document and the pages about problems. Alternatively, the token in `server.token` in the \
                                    data folder, which only the user that runs the server can read.",
                },
            },
        },
    })
}

fn described(operation: &Operation, schemas: &mut Schemas) -> Value {
    let mut described = Map::new();
    let mut say = |key: &str, value: Value| described.insert(key.to_owned(), value);
    say("operationId", operation.id.into());
    say("tags", json!([operation.tag.to_string()]));
    say("summary", operation.summary.into());
    if let Some(text) = operation.description {
        say("description", text.into());
    }
    let parameters = parameters(operation, schemas);
    if !parameters.is_empty() {
        say("parameters", parameters.into());
    }
    if let Some(body) = &operation.body {
        let content = json!({ "schema": (body.schema)(schemas), "example": parsed(body.example) });
        say(
            "requestBody",
            json!({ "required": body.is_required, "content": { "application/json": content } }),
        );
    }
    let mut responses = problems(operation, schemas);
    for (status, description) in &operation.others {
        let other = json!({ "description": description });
        responses.insert((*status).to_owned(), other);
    }
    let (status, answer) = answer(&operation.answer, schemas);
    responses.insert(status, answer);
    say("responses", json!(responses));
    let security = match operation.is_decision {
        true => json!([{ TOKEN: [] }]),
        // Without keys, no authentication is needed.
        false => json!([{}, { TOKEN: [] }]),
    };
    say("security", security);
    described.into()
}

fn parameters(operation: &Operation, schemas: &mut Schemas) -> Vec<Value> {
    let mut parameters: Vec<Value> = operation
        .parameters
        .iter()
        .map(|parameter| {
            json!({
                "in": parameter.location,
                "name": parameter.name,
                "description": parameter.description,
                "required": parameter.location == "path",
                "schema": (parameter.schema)(schemas),
            })
        })
        .collect();
    let fields = operation.query.map(|fields| fields(schemas));
    let fields = fields.as_ref().and_then(|it| it["properties"].as_object());
    for (name, schema) in fields.into_iter().flatten() {
        let mut schema = schema.clone();
        let mut description = Value::Null;
        if let Value::Object(schema) = &mut schema {
            // A query parameter is text and never null.
            without_null(schema);
            description = schema.remove("description").unwrap_or_default();
        }
        parameters.push(json!({
            "in": "query",
            "name": name,
            "description": description,
            "required": false,
            "schema": schema,
        }));
    }
    parameters
}

fn answer(answer: &Answer, schemas: &mut Schemas) -> (String, Value) {
    let mut described = Map::new();
    described.insert("description".to_owned(), answer.description.into());
    let mut content = Map::new();
    for (media_type, schema) in &answer.content {
        let schema = schema(schemas);
        let body = match (answer.example, *media_type) {
            (Some(example), "application/json") => {
                json!({ "schema": schema, "example": parsed(example) })
            }
            _ => json!({ "schema": schema }),
        };
        content.insert((*media_type).to_owned(), body);
    }
    if !content.is_empty() {
        described.insert("content".to_owned(), content.into());
    }
    let headers = answer.headers.iter().map(|(name, description, schema)| {
        let header = json!({ "description": description, "schema": schema(schemas) });
        ((*name).to_owned(), header)
    });
    let headers: Map<String, Value> = headers.collect();
    if !headers.is_empty() {
        described.insert("headers".to_owned(), headers.into());
    }
    let links = answer.links.iter().map(|(operation, pointers)| {
        let pointers = pointers.iter().map(|(parameter, pointer)| {
            let pointer = format!("$response.body#{pointer}").into();
            ((*parameter).to_owned(), pointer)
        });
        let parameters: Map<String, Value> = pointers.collect();
        let link = json!({ "operationId": operation, "parameters": parameters });
        ((*operation).to_owned(), link)
    });
    let links: Map<String, Value> = links.collect();
    if !links.is_empty() {
        described.insert("links".to_owned(), links.into());
    }
    (answer.status.as_u16().to_string(), described.into())
}

/// Describes problems, grouped by status.
fn problems(operation: &Operation, schemas: &mut Schemas) -> BTreeMap<String, Value> {
    let mut by_status: BTreeMap<StatusCode, Vec<&Kind>> = BTreeMap::new();
    for kind in &operation.problems {
        let same = by_status.entry(kind.status()).or_default();
        if same
            .iter()
            .all(|other| other.page_path() != kind.page_path())
        {
            same.push(kind);
        }
    }
    let described = by_status.into_iter().map(|(status, kinds)| {
        let titles: Vec<&str> = kinds.iter().map(|kind| kind.title()).collect();
        let mut described = Map::new();
        let mut say = |key: &str, value: Value| described.insert(key.to_owned(), value);
        say("description", format!("{}.", titles.join(", or ")).into());
        if let Some(headers) = headers_of(status) {
            say("headers", headers);
        }
        match operation.form {
            ProblemForm::Document => {
                let names: Vec<String> = kinds.iter().map(|kind| kind.page_path()).collect();
                let schema = json!({
                    "allOf": [{ "$ref": "#/components/schemas/Problem" }],
                    "properties": { "type": { "enum": names }, "status": { "const": status.as_u16() } },
                });
                let content = json!({ "application/problem+json": { "schema": schema } });
                say("content", content);
            }
            ProblemForm::OpenAi => {
                let schema = schemas.of_response::<ErrorBody>();
                let content = json!({ "application/json": { "schema": schema } });
                say("content", content);
            }
            ProblemForm::Either => {}
        }
        (status.as_u16().to_string(), Value::from(described))
    });
    described.collect()
}

/// The headers that tell clients how to react to a problem.
fn headers_of(status: StatusCode) -> Option<Value> {
    match status {
        StatusCode::UNAUTHORIZED => Some(json!({
            "WWW-Authenticate": {
                "description": "How to authenticate.",
                "schema": { "type": "string" },
            },
        })),
        StatusCode::CONFLICT | StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            Some(json!({
                "Retry-After": {
                    "description": "The number of seconds after which to retry, if retrying may help.",
                    "schema": { "type": "integer", "minimum": 0 },
                },
            }))
        }
        _ => None,
    }
}

/// Parses an example. The tests ensure that it is valid JSON.
fn parsed(example: &str) -> Value {
    serde_json::from_str(example).unwrap_or_default()
}
